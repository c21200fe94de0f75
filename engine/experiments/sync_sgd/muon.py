"""Muon on flat weights (Jordan et al. 2024): for each matrix a step along its momentum made orthogonal, for all else
AdamW.

    m <- mu m + g;    W <- (1 - eta lambda) W - eta 0.2 sqrt(max(rows, columns)) O(g + mu m)

    g: the gradient of a matrix W, m: its momentum, O: makes all singular values roughly 1, eta: the learning rate,
    lambda: the weight decay

The factor 0.2 sqrt(max(rows, columns)) gives steps the size of AdamW's, so that one learning rate serves both (Liu et
al. 2025, equation 4).
"""

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn

from engine.data.nets import FlatAdam
from engine.training.flat_net import FlatNet

MOMENTUM = 0.95
COEFFICIENTS, ITERATIONS = (3.4445, -4.7750, 2.0315), 5
STEP_SIZE = 0.2
"""Root mean square of AdamW's usual steps, over the learning rate."""


def orthogonalized(matrix: Tensor) -> Tensor:
    """Return roughly U V^T of a matrix U S V^T, by Newton-Schulz iterations, each of which maps a singular value s of
    the matrix over its norm to a s + b s^3 + c s^5. Those from 0.005 on end between 0.68 and 1.16.
    """
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / x.norm().clamp_min(torch.finfo(x.dtype).tiny)
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    found: Tensor = x.T if is_tall else x
    return found


class MuonMatrix(NamedTuple):
    """One of a net's matrices as views: its weights, their gradient, and their momentum, each [rows, columns]."""

    weights: Tensor
    gradient: Tensor
    momentum: Tensor


class FlatMuon:
    """Muon for a net's matrices and convolutions; AdamW for its vectors and embeddings."""

    def __init__(self, net: FlatNet, learning_rate: float, weight_decay: float) -> None:
        of_embeddings = {id(each.weight) for each in net.module.modules() if isinstance(each, nn.Embedding)}
        parts, places, start = list[tuple[slice, int]](), torch.arange(net.parameters), 0
        for parameter in net.module.parameters():
            if parameter.dim() > 1 and id(parameter) not in of_embeddings:
                parts.append((slice(start, start + parameter.numel()), len(parameter)))
                places[parts[-1][0]] = -1
            start += parameter.numel()
        self._net, self._rest = net, places[places >= 0].to(net.state.device)
        count = net.parameters - len(self._rest)
        self.state = net.weights.new_zeros(count + 2 * len(self._rest))
        """All that it keeps between steps, but for their number: momentum of matrices, then AdamW's means."""
        momenta = torch.split(self.state[:count], [part.stop - part.start for part, _ in parts])
        self._matrices = [
            MuonMatrix(*(flat.view(rows, -1) for flat in (net.weights[part], net.gradient[part], momentum)))
            for (part, rows), momentum in zip(parts, momenta, strict=True)
        ]
        self._weights, self._gradient = net.weights[self._rest], net.gradient[self._rest]
        self._adam = FlatAdam(self._weights, self._gradient, learning_rate, weight_decay=weight_decay)
        self._adam.state = self.state[count:]
        self._adam.mean, self._adam.square = self._adam.state.chunk(2)
        self._weight_decay = weight_decay
        self.learning_rate = learning_rate

    @property
    def steps(self) -> int:
        """Steps since the last reset."""
        return self._adam.steps

    @steps.setter
    def steps(self, steps: int) -> None:
        self._adam.steps = steps

    def reset(self) -> None:
        """Forget all steps so far."""
        self.state.zero_()
        self.steps = 0

    def step(self) -> None:
        """Make a step of Muon with each matrix, and one of AdamW with the rest."""
        for weights, gradient, momentum in self._matrices:
            momentum.mul_(MOMENTUM).add_(gradient)
            direction = orthogonalized(gradient + MOMENTUM * momentum)
            weights.mul_(1 - self.learning_rate * self._weight_decay)
            weights.add_(direction, alpha=-self.learning_rate * STEP_SIZE * sqrt(max(weights.shape)))
        self._adam.learning_rate = self.learning_rate
        self._weights.copy_(self._net.weights[self._rest])
        self._gradient.copy_(self._net.gradient[self._rest])
        self._adam.step()
        self._net.weights[self._rest] = self._weights
