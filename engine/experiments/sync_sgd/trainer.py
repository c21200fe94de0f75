"""The parts of a trainer common to all averaging methods, and the shared inputs they are made from."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.allocator import keep_freed_memory
from engine.data.devices import usable
from engine.data.nets import evaluate, mnist_net
from engine.data.sets.images import ImageSet
from engine.data.sets.registry import load
from engine.data.weights import FlatSgd
from engine.experiments.sync_sgd.checkpoint_buffers import CheckpointBuffers
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.part_batches import PartBatches
from engine.recorder import Recorder
from engine.runtime.transport.allreduce import AveragingGroup, Collective, torch_group
from engine.runtime.worker.ranks import Rank
from engine.seeding import ORDER, WEIGHTS, seed_of
from engine.training.faults import Faults
from engine.training.flat_net import FlatNet, flat_state
from engine.training.settings import rate_factor
from engine.training.step_log import StepLog


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
