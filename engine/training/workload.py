"""Workloads of a server's trainers: a net, its loss, and mini-batches per trainer."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, nll_loss, one_hot

from engine.data.catalogue import ModelName
from engine.data.models import model_net
from engine.data.nets import ResNetName, Score, evaluate, resnet
from engine.data.sets import ImageSet, load
from engine.data.tensors import Batches
from engine.recorder import Recorder
from engine.training.flat_net import FlatNet
from engine.training.settings import ServerConfig

Batch = tuple[Tensor, Tensor]


class Workload(Protocol):
    """One training task."""

    has_tests: ClassVar[bool]
    """Whether there is a test set."""

    @property
    def pass_size(self) -> int:
        """Samples in one pass over the data; for random images, in one round of all trainers."""

    @property
    def rounds(self) -> tuple[str, int]:
        """The parts of equal length that a trainer's work has: their name and number."""

    def net(self, seed: int) -> nn.Module:
        """Return the net with its initial weights."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a mini-batch."""

    def steps(self, number: int) -> int:
        """Return the number of steps that trainer `number` (from 1) makes in total."""

    def samples(self, number: int, steps: int | None = None) -> int:
        """Return the number of samples that trainer `number` (from 1) trains on in `steps` steps, or in total."""

    def batches(self, number: int, seed: int, skip: int) -> Iterator[Batch]:
        """Yield the mini-batches of trainer `number` (from 1) in the order that `seed` gives, without the
        first `skip`.
        """

    def score(self, state: Tensor) -> Score | None:
        """Test a net with that state, if there is a test set."""

    def to(self, device: torch.device) -> "Workload":
        """Return the same workload with its data on that device."""


class Rounds:
    """Writes a line to a trainer's log after each of its workload's rounds."""

    def __init__(self, record: Recorder, workload: Workload, number: int) -> None:
        self._record = record
        self._what, self._total = workload.rounds
        self._steps = max(1, workload.steps(number) // self._total)

    def end_if_due(self, step: int) -> None:
        """End a round if `step` (from 1) was its last one."""
        if step % self._steps == 0:
            self._record.summarize(self._what, step // self._steps, self._total)


@dataclass(frozen=True)
class PartitionedData:
    """A net on a data set with one contiguous part per trainer, each shuffled by its trainer."""

    has_tests: ClassVar[bool] = True

    data: ImageSet
    trainers: int
    batch_size: int
    epochs: int
    model: ModelName = field(default="mnist_net", kw_only=True)

    @classmethod
    def of(cls, config: ServerConfig) -> "PartitionedData":
        """Load a run's data set."""
        return cls(load(config.dataset), config.trainers, config.batch_size, config.epochs, model=config.model)

    @property
    def pass_size(self) -> int:
        return self.data.size

    @property
    def rounds(self) -> tuple[str, int]:
        return "epoch", self.epochs

    def net(self, seed: int) -> nn.Module:
        return model_net(self.model, seed)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nll_loss(outputs, targets)

    def steps(self, number: int) -> int:
        return self.epochs * -(-len(self._part(number)) // self.batch_size)

    def samples(self, number: int, steps: int | None = None) -> int:
        size = len(self._part(number))
        epochs, rest = (self.epochs, 0) if steps is None else divmod(steps, -(-size // self.batch_size))
        return epochs * size + rest * self.batch_size

    def batches(self, number: int, seed: int, skip: int) -> Iterator[Batch]:
        part = self._part(number).to(self.data.train_labels.device)
        batches = Batches(self.data.train_images, self.data.train_labels[part], self.batch_size, seed)
        for _ in range(self.epochs):
            for positions in batches.epoch():
                if skip:
                    skip -= 1
                    continue
                chosen = part.index_select(0, positions)
                yield self.data.train_images.index_select(0, chosen), self.data.train_labels.index_select(0, chosen)

    def score(self, state: Tensor) -> Score | None:
        net = self.net(seed=0)  # its values are replaced by `state`
        FlatNet(net, self.loss, device=state.device).state.copy_(state)
        return evaluate(net, self.data.test_images, self.data.test_labels)

    def to(self, device: torch.device) -> "PartitionedData":
        return replace(self, data=self.data.to(device))

    def _part(self, number: int) -> Tensor:
        return partition(self.data.train_labels, self.trainers, "contiguous")[number - 1]


@dataclass(frozen=True)
class RandomImages:
    """A ResNet on random images [batch, 3, side, side], drawn for each step, with one-hot targets drawn once."""

    has_tests: ClassVar[bool] = False

    name: ResNetName
    trainers: int
    batch_size: int
    iterations: int
    classes: int = 30
    side: int = 64
    device: str = "cpu"

    @property
    def pass_size(self) -> int:
        return self.trainers * self.batch_size

    @property
    def rounds(self) -> tuple[str, int]:
        return "iteration", self.iterations

    def net(self, seed: int) -> nn.Module:
        return resnet(self.name, self.classes, seed)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return mse_loss(outputs, targets)

    def steps(self, number: int) -> int:
        return self.iterations

    def samples(self, number: int, steps: int | None = None) -> int:
        return (self.iterations if steps is None else steps) * self.batch_size

    def batches(self, number: int, seed: int, skip: int) -> Iterator[Batch]:
        random = torch.Generator().manual_seed(seed)
        targets = (
            one_hot(torch.randint(self.classes, (self.batch_size,), generator=random), self.classes)
            .float()
            .to(self.device)
        )
        for step in range(self.iterations):
            images = torch.randn(self.batch_size, 3, self.side, self.side, generator=random)
            if step >= skip:
                yield images.to(self.device, memory_format=torch.channels_last), targets

    def score(self, state: Tensor) -> Score | None:
        return None

    def to(self, device: torch.device) -> "RandomImages":
        return replace(self, device=str(device))


# ---- Partition the training set into one part per trainer ----------------------------------------------------------

Partition = Literal["contiguous", "shuffled", "dirichlet"]


def partition(labels: Tensor, count: int, scheme: Partition, *, alpha: float = 1.0, seed: int = 0) -> list[Tensor]:
    """Return `count` disjoint vectors of positions that together cover `labels` [N]; none is empty while count <= N.

    contiguous: consecutive ranges, the last one takes the remainder. shuffled: the same of a random order. dirichlet:
    for each label, shares drawn from a symmetric Dirichlet distribution; a small `alpha` gives each part few labels
    (Hsu, Qi and Brown 2019, "Measuring the effects of non-identical data distribution").
    """
    random = torch.Generator().manual_seed(seed)
    if scheme == "contiguous":
        return _stretches(torch.arange(len(labels)), count)
    if scheme == "shuffled":
        return _stretches(torch.randperm(len(labels), generator=random), count)
    return _by_label(labels.cpu(), count, alpha, random)


def _stretches(order: Tensor, count: int) -> list[Tensor]:
    size = len(order) // count
    return [order[index * size : (index + 1) * size if index < count - 1 else None] for index in range(count)]


def _by_label(labels: Tensor, count: int, alpha: float, random: torch.Generator) -> list[Tensor]:
    found: list[list[Tensor]] = [[] for _ in range(count)]
    for label in labels.unique():  # type: ignore[no-untyped-call]
        own = (labels == label).nonzero().flatten()
        own = own[torch.randperm(len(own), generator=random)]
        shares = torch._standard_gamma(torch.full((count,), float(alpha)), generator=random).clamp_min(1e-30)
        ends = (shares.cumsum(0) / shares.sum() * len(own)).round().long().tolist()
        for index, piece in enumerate(torch.tensor_split(own, ends[:-1])):
            found[index].append(piece)
    return _none_empty([torch.cat(pieces).sort().values for pieces in found])


def _none_empty(found: list[Tensor]) -> list[Tensor]:
    """Move one sample of the largest part to each empty part."""
    for index, part in enumerate(found):
        if not len(part):
            largest = max(range(len(found)), key=lambda other: len(found[other]))
            found[index], found[largest] = found[largest][-1:], found[largest][:-1]
    return found
