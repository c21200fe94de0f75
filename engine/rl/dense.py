"""Dense layers with a backward pass of their own: in nets of a few thousand weights, autograd's bookkeeping takes more
time than the arithmetic.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Dense(nn.Sequential):
    """Linear layers of the given sizes with ReLU or tanh between them; orthogonal weights, zero biases."""

    def __init__(self, sizes: Sequence[int], activation: type[nn.ReLU] | type[nn.Tanh], last_gain: float) -> None:
        stack: list[nn.Module] = []
        for place, (inner, outer) in enumerate(pairwise(sizes), start=1):
            layer = nn.Linear(inner, outer)
            last = place == len(sizes) - 1
            nn.init.orthogonal_(layer.weight, last_gain if last else math.sqrt(2))
            nn.init.zeros_(layer.bias)
            stack += [layer] if last else [layer, activation()]
        super().__init__(*stack)
        self._linear = [layer for layer in stack if isinstance(layer, nn.Linear)]
        self._is_relu = activation is nn.ReLU

    @torch.no_grad()
    def trace(self, inputs: Tensor) -> list[Tensor]:
        """Return the inputs [M, size] of each linear layer, and the outputs of the last one."""
        found = [inputs]
        for layer in self._linear[:-1]:
            outputs = layer(found[-1])
            found.append(outputs.relu_() if self._is_relu else outputs.tanh_())
        return [*found, self._linear[-1](found[-1])]

    @torch.no_grad()
    def backward(self, trace: Sequence[Tensor], gradients: Tensor) -> None:
        """Write every parameter's gradient into its `grad`, which must exist; `gradients` are the loss's derivatives by
        the outputs of the `trace` [M, outputs].
        """
        for place in reversed(range(len(self._linear))):
            layer, inputs = self._linear[place], trace[place]
            assert layer.weight.grad is not None and layer.bias.grad is not None
            torch.mm(gradients.T, inputs, out=layer.weight.grad)
            torch.sum(gradients, 0, out=layer.bias.grad)
            if place:
                gradients = gradients @ layer.weight
                gradients *= inputs > 0 if self._is_relu else 1 - inputs.square()
