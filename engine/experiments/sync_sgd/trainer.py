"""The parts of a trainer common to all averaging methods, and the shared inputs they are made from."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.nets import FlatSgd, evaluate, mnist_net
from engine.data.sets.images import ImageSet
from engine.data.sets.registry import load
from engine.data.tensors import Batches, keep_freed_memory, shared, usable
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.recorder import Recorder
from engine.runtime.transport.allreduce import AveragingGroup, Collective, torch_group
from engine.runtime.worker.ranks import Rank
from engine.seeding import ORDER, PARTITION, WEIGHTS, seed_of
from engine.training.flat_net import FlatNet, flat_state
from engine.training.settings import rate_factor
from engine.training.step_log import Faults, StepLog
from engine.training.workload import partition

# ------------------------------------------------------------------------------------------------------------------
# One trainer's part of the data as an endless stream of mini-batches, and the step counts of the other parts.


class PartBatches:
    """The mini-batches of trainer `index`: its own samples in its own order, reshuffled for each pass."""

    def __init__(self, config: SyncSgdConfig, data: ImageSet, index: int, seed: int) -> None:
        cut = partition(
            data.train_labels,
            config.trainers,
            config.partition,
            alpha=config.alpha,
            seed=seed_of(config.seed, PARTITION),
        )
        own = cut[index].to(data.train_labels.device)
        self._images = data.train_images
        # positions instead of images
        self._batches = Batches(own, data.train_labels[own], config.batch_size, seed)
        self._stream = self._positions()
        self.steps_of_all = [config.average_every or -(-len(part) // config.batch_size) for part in cut]
        """Each trainer's steps per round."""
        self.size = len(own)
        self._sizes = [len(part) for part in cut]
        self._batch_size, self._index = config.batch_size, index
        self.steps = self.steps_of_all[index]
        """This trainer's steps per round."""
        self.longest_steps = max(self.steps_of_all)
        """The maximum steps per round over all trainers."""

    def contributors(self, step: int) -> int:
        """Return the number of trainers with a mini-batch in that step of a round (from 0); the others have finished
        their part.
        """
        return sum(step < count for count in self.steps_of_all)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return the images and labels of the next mini-batch."""
        where, labels = self._batches.take(next(self._stream))
        return self._images.index_select(0, where), labels

    def skip(self, steps: int) -> None:
        """Skip that many mini-batches, already trained on by the run that this one resumes."""
        next(islice(self._stream, steps, steps), None)

    def samples(self, steps: int) -> int:
        """Return the number of samples in the first `steps` mini-batches."""
        return self._samples(self._index, steps)

    def samples_of_all(self, rounds: int) -> int:
        """Return the number of samples that all trainers together train on in `rounds` rounds."""
        return sum(self._samples(index, rounds * steps) for index, steps in enumerate(self.steps_of_all))

    def _samples(self, index: int, steps: int) -> int:
        size = self._sizes[index]
        through, rest = divmod(steps, -(-size // self._batch_size))
        return through * size + min(rest * self._batch_size, size)

    def _positions(self) -> Iterator[Tensor]:
        while True:
            yield from self._batches.epoch()


# ---- Shared memory for the trainers' own state, so that trainer1 can save it for all -------------------------------


@dataclass(frozen=True)
class CheckpointBuffers:
    """Two places for each trainer: one is free again once trainer1 has reached the next round's average.

    This avoids another barrier: all of round r is stored when r's average is, and no trainer writes to r's places
    before the average of round r + 1.
    """

    velocity: Tensor
    """[2, N, P] in shared memory."""
    local: Tensor
    """[2, N, P + B] in shared memory: weights that trainers keep from round to round (elastic averaging)."""
    random: Tensor
    """uint8 [2, N, ...] in shared memory: state of dropout's generator."""

    @classmethod
    def create(cls, config: SyncSgdConfig, state: int, parameters: int) -> "CheckpointBuffers":
        """Return buffers sized for the config's averaging method."""
        count = config.trainers if config.checkpoint_every_s else 0
        of_its_own = config.keep_optimizer and not config.steps_together
        return cls(
            shared(torch.zeros(2, count, parameters if of_its_own else 0)),
            shared(torch.zeros(2, count, state if config.sync == "elastic" else 0)),
            shared(torch.zeros(2, count, len(torch.get_rng_state()), dtype=torch.uint8)),
        )


# ---- Trainer -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SharedInputs:
    """Inputs of all trainers; tensors in shared memory."""

    config: SyncSgdConfig
    data: ImageSet
    collective: Collective
    counters: Tensor
    buffers: CheckpointBuffers
    first_state: Tensor
    """The initial weights (and statistics) of all."""
    gpu_each: bool

    @classmethod
    def create(cls, config: SyncSgdConfig, devices: Sequence[str]) -> "SharedInputs":
        """Load the data and make what trainers share; `devices` names one device per trainer."""
        found = [usable(config.device, device) for device in devices]
        net = mnist_net(seed_of(config.seed, WEIGHTS))
        first_state, parameters = flat_state(net), sum(parameter.numel() for parameter in net.parameters())
        return cls(
            config,
            load(config.dataset),
            Collective.create(config.transport, len(first_state), config.roles, config.timeout_s),
            StepLog.shared_counters(config.trainers),
            CheckpointBuffers.create(config, len(first_state), parameters),
            first_state,
            gpu_each=found[0].type == "cuda" and len(set(found)) == len(found),
        )


@dataclass
class SyncTrainer:
    """One trainer: its net, its optimizer, its part of the data, its membership in the groups."""

    config: SyncSgdConfig
    record: Recorder
    data: ImageSet
    net: FlatNet
    optimizer: FlatSgd
    part: PartBatches
    circle: AveragingGroup
    log: StepLog
    faults: Faults
    is_first: bool
    """Whether this is trainer1, which tests."""
    global_state: Tensor = field(init=False)
    """A separate copy of the global weights (and statistics) after the last round."""
    mean: Tensor = field(init=False)
    """Buffer for a vector to average over all trainers."""
    store_own_state: Callable[[], None] = lambda: None
    """Called once a round, just before the last average: copies this trainer's own state to where trainer1 can save it.
    """

    def __post_init__(self) -> None:
        self.global_state = self.net.state.clone()
        self.mean = torch.zeros_like(self.net.state)

    def learning_rate(self, number: int, step: int, steps: int) -> float:
        """Return the learning rate of step `step` (from 0) of the `steps` in round `number` (from 1)."""
        done, total = (number - 1) * steps + step, self.config.rounds * steps
        return self.config.learning_rate * rate_factor(self.config.schedule, done, total)

    def average(self, vector: Tensor, what: str) -> None:
        """Replace `vector` by the mean over all trainers; time until the last one arrives counts as `wait`, the rest as
        `communicate`.
        """
        with self.record.phase("communicate"):
            waited = self.circle.average(vector, what)
        self.record.spend("wait", waited)
        self.record.spend("communicate", -waited)

    def test_if_due(self, number: int) -> None:
        """As trainer1, test a copy of the global weights if the config tests after round `number`; the other trainers
        continue.
        """
        if not self.is_first or not self.config.tests_after(number):
            return
        net = mnist_net(seed_of(self.config.seed, WEIGHTS))
        FlatNet(net, nll_loss, device=self.data.test_images.device).state.copy_(self.global_state)
        with self.record.phase("evaluate"):
            self.log.log_score(evaluate(net, self.data.test_images, self.data.test_labels))


@contextmanager
def join(rank: Rank, inputs: SharedInputs) -> Iterator[SyncTrainer]:
    """Make one trainer, a member of all groups that its averaging method needs, for the block."""
    keep_freed_memory()
    config, data = inputs.config, inputs.data.to(rank.device)
    part = PartBatches(config, data, rank.index, rank.seed_of(ORDER))
    net = FlatNet(mnist_net(seed_of(config.seed, WEIGHTS)), nll_loss, device=rank.device)
    net.state.copy_(inputs.first_state)
    optimizer = FlatSgd(net.weights, net.gradient, config.learning_rate, config.momentum)
    total = part.samples(config.rounds * part.steps)
    log = StepLog(rank, inputs.counters, pass_size=data.size, total=total, advice=config.divergence_advice)
    faults = Faults(rank, config, rank.index + 1)
    with ExitStack() as groups:
        circle = groups.enter_context(inputs.collective.join(rank))
        if config.sync == "ddp":
            groups.enter_context(torch_group(rank, "nccl" if inputs.gpu_each else "gloo", config.timeout_s))
        yield SyncTrainer(
            config, rank.recorder, data, net, optimizer, part, circle, log, faults, is_first=rank.index == 0
        )
