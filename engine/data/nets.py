"""The networks that experiments train, and their evaluation."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that torch's own texts use)

from engine.data.weights import drawn_from

TEST_BATCH = 125
"""Images per test batch; fixed, so that sums are reproducible. With 1,000 the convolutions exceed the cache: a quarter
slower.
"""


class MnistNet(nn.Module):
    """The published nets' common architecture: two convolutions, two linear layers, 21,840 weights.

    Takes images [B, 1, 28, 28], returns log-probabilities [B, 10].
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        # ReLU in place: pooling needs its input for the backward, not its output; 2 % of a step's time.
        x = F.relu(F.max_pool2d(self.conv1(images), 2), inplace=True)
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2), inplace=True)
        x = F.relu(self.fc1(x.flatten(1)), inplace=True)
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


class Score(NamedTuple):
    """The result of a test."""

    loss: float
    """Mean negative log-likelihood."""
    accuracy: float
    """Percent classified correctly."""


def mnist_net(seed: int) -> MnistNet:
    """Return the net with the initial weights of `seed`; the caller's random state is unchanged."""
    with drawn_from(seed):
        return MnistNet()


def evaluate(net: nn.Module, images: Tensor, labels: Tensor) -> Score:
    """Return the net's score on a whole test set, without dropout; restores the net's mode afterwards."""
    was_training = net.training
    net.eval()
    losses, hits = [], []  # they stay on the device until the end: reading one would synchronize
    with torch.inference_mode():
        for some, truth in zip(torch.split(images, TEST_BATCH), torch.split(labels, TEST_BATCH), strict=True):
            scores = net(some)
            losses.append(F.nll_loss(scores, truth, reduction="sum"))
            hits.append((scores.argmax(1) == truth).sum())
    net.train(was_training)
    return Score(sum(torch.stack(losses).tolist()) / len(labels), 100 * sum(torch.stack(hits).tolist()) / len(labels))
