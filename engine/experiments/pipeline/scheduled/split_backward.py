"""A backward in two halves: the gradient of a net's input now, the gradients of its weights later (Qi et al. 2023)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge


class Boundary(NamedTuple):
    """The output of a layer in autograd's graph, without its values, and the layer's own weights."""

    edge: GradientEdge
    weights: list[nn.Parameter]


class SplitBackward:
    """Notes the layers of a net that have weights, so that its backward can stop at each of them.

    The input gradient passes all layers and keeps the gradient of each layer's output. The weight gradient starts
    there, in each layer alone. Together they do what one backward does, with the same kernels, so gradients are
    bit-identical.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self._passed: list[Boundary] = []
        for layer in net.modules():
            if weights := list(layer.parameters(recurse=False)):
                layer.register_forward_hook(lambda layer, given, out, own=weights: self._note(out, own))

    def _note(self, output: Tensor, weights: list[nn.Parameter]) -> None:
        if output.requires_grad:
            self._passed.append(Boundary(get_gradient_edge(output), weights))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Boundary]]:
        """Return the net's output, and the layers that its backward will stop at."""
        self._passed = []
        return self._net(x), self._passed


def input_gradient(
    y: Tensor, x: Tensor, dy: Tensor | None, passed: Sequence[Boundary]
) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """Return the gradient of x (None if it needs none), and those of the layers' outputs."""
    wanted = [get_gradient_edge(x)] if x.requires_grad else []
    found = torch.autograd.grad([y], [*wanted, *(each.edge for each in passed)], [dy], retain_graph=True)
    return (found[0] if wanted else None), found[len(wanted) :]


def add_weight_gradients(passed: Sequence[Boundary], gradients: Sequence[Tensor]) -> None:
    """Add the gradient of each layer's weights to their `.grad`, from the gradient of its output."""
    for (edge, weights), gradient in zip(passed, gradients, strict=True):
        torch.autograd.backward([edge], [gradient], inputs=weights)
