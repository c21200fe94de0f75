"""The parts of a trainer common to all averaging methods, and the shared inputs they are made from."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.models import model_net
from engine.data.nets import FlatAdam, FlatSgd, evaluate
from engine.data.sets import ImageSet, load
from engine.data.tensors import Batches, keep_freed_memory, shared, usable
from engine.experiments.sync_sgd.compression import Compressor, compressor_of
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.muon import FlatMuon
from engine.runtime.rank.rank import Checkpoints, load_checkpoint
from engine.runtime.transport.allreduce import AveragingGroup, Collective, GlooRing
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
    """[2, N, S] in shared memory: what optimizers keep between steps, S = P for SGD, 2 P for AdamW, less for Muon."""
    local: Tensor
    """[2, N, P + B] in shared memory: weights that trainers keep from round to round (elastic averaging, fragments)."""
    random: Tensor
    """uint8 [2, N, ...] in shared memory: state of dropout's generator."""
    compressor: Tensor
    """[2, N, C] in shared memory: what compressors keep between steps."""

    @classmethod
    def create(cls, config: SyncSgdConfig, state: int, parameters: int, compressor: int) -> "CheckpointBuffers":
        """Return buffers sized for the config's averaging method."""
        count = config.trainers if config.checkpoint_every_s else 0
        of_its_own = config.keep_optimizer and not config.steps_together
        return cls(
            shared(torch.zeros(2, count, parameters * (2 - config.has("optimizer sgd")) if of_its_own else 0)),
            shared(torch.zeros(2, count, state if config.keeps_local_weights else 0)),
            shared(torch.zeros(2, count, len(torch.get_rng_state()), dtype=torch.uint8)),
            shared(torch.zeros(2, count, compressor)),
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

    @classmethod
    def create(cls, config: SyncSgdConfig, devices: Sequence[str]) -> "SharedInputs":
        """Load the data and make what trainers share; `devices` names one device per trainer."""
        for device in devices:
            usable(config.device, device)
        net = model_net(config.model, seed_of(config.seed, WEIGHTS))
        transport = "torch" if config.sync == "ddp" else config.transport
        first_state, parameters = flat_state(net), sum(parameter.numel() for parameter in net.parameters())
        compress = compressor_of(config, net)
        return cls(
            config,
            load(config.dataset),
            Collective.create(transport, len(first_state), config.roles, config.timeout_s),
            StepLog.shared_counters(config.trainers),
            CheckpointBuffers.create(config, len(first_state), parameters, len(compress.state) if compress else 0),
            first_state,
        )


class SyncTrainer:
    """One trainer: its net, its optimizer, its part of the data, its membership in the groups, its side of checkpoints.

    For a checkpoint after a round all trainers store their own state in shared memory, and trainer1 saves it.
    """

    def __init__(self, rank: Rank, inputs: SharedInputs, circle: AveragingGroup) -> None:
        config = inputs.config
        self.rank = rank
        self.config = config
        self.record = rank.recorder
        self.data = inputs.data.to(rank.device)
        self.part = PartBatches(config, self.data, rank.index, rank.seed_of(ORDER))
        self.net = FlatNet(model_net(config.model, seed_of(config.seed, WEIGHTS)), nll_loss, device=rank.device)
        self.net.state.copy_(inputs.first_state)
        self.optimizer = _optimizer(config, self.net)
        self.outer_velocity = torch.zeros_like(self.net.weights if config.sync == "diloco" else self.net.weights[:0])
        """The outer optimizer's, the same for all trainers."""
        self.circle = circle
        self.compressor = compressor_of(config, self.net.module)
        total = self.part.samples(config.rounds * self.part.steps)
        self.log = StepLog(
            rank, inputs.counters, pass_size=self.data.size, total=total, advice=config.divergence_advice
        )
        self.faults = Faults(rank, config, rank.index + 1)
        self.global_state = self.net.state.clone()
        """A separate copy of the global weights (and statistics) after the last round."""
        self.mean = torch.zeros_like(self.net.state)
        """Buffer for a vector to average over all trainers."""
        self.started_at = 0.0
        """The time (monotonic, s) at which all ranks were ready."""
        self._buffers = inputs.buffers
        self._checkpoints = Checkpoints(rank, config.checkpoint_every_s)
        self._place = 0

    @classmethod
    @contextmanager
    def joined(cls, rank: Rank, inputs: SharedInputs) -> Iterator["SyncTrainer"]:
        """Make one trainer, a member of the group that averages, for the block."""
        keep_freed_memory()
        with inputs.collective.join(rank) as circle:
            yield cls(rank, inputs, circle)

    def learning_rate(self, number: int, step: int, steps: int) -> float:
        """Return the learning rate of step `step` (from 0) of the `steps` in round `number` (from 1)."""
        done, total = (number - 1) * steps + step, self.config.rounds * steps
        return self.config.learning_rate * rate_factor(self.config.schedule, done, total)

    def train_alone(self, number: int, after_step: Callable[[int], None] = lambda step: None) -> None:
        """Make the steps of round `number` (from 1) on the trainer's own part of the data; call `after_step` with each
        one's number in the round (from 1).
        """
        if not self.config.keep_optimizer:
            self.optimizer.reset()
        for step in range(self.part.steps):
            self.optimizer.learning_rate = self.learning_rate(number, step, self.part.steps)
            with self.record.phase("data"):
                samples, labels = self.part.next_batch()
            with self.record.phase("compute"):
                self.faults.inject(self.log.steps + 1)
                loss = self.net.compute_gradient(samples, labels)
            with self.record.phase("update"):
                self.optimizer.step()
            self.log.log_step(loss, len(labels))
            after_step(step + 1)

    def average(self, vector: Tensor, what: str, compressor: Compressor | None = None) -> None:
        """Replace `vector` by the mean over all trainers, of their compressed ones if so; time until the last one
        arrives counts as `wait`, the rest as `communicate`, including the simulated link's. One that is compressed or
        of another size than the net's state goes by gloo alone.
        """
        with self.record.phase("communicate"):
            waited = self.exchange_mean(vector, what, compressor)
        self.count_wait(waited)

    def exchange_mean(self, vector: Tensor, what: str, compressor: Compressor | None = None) -> float:
        """Do so in any thread, counted in no phase; return the seconds waited for the last trainer."""
        if len(vector) == len(self.net.state) and compressor is None:
            return self._over_the_link(lambda: self.circle.average(vector, what))
        staged = vector.cpu()

        def exchange(ring: GlooRing) -> None:
            if compressor:
                compressor.exchange(staged.clone(), staged, ring)
            else:
                ring.mean(staged)

        waited = self._over_the_link(lambda: self.circle.jointly(exchange, what))
        vector.copy_(staged)
        return waited

    def meet(self, what: str) -> None:
        """Wait for all trainers, by gloo, after they have stored their own state for a checkpoint, if the run keeps
        any.
        """
        if self.config.checkpoint_every_s:
            with self.record.phase("communicate"):
                waited = self.circle.jointly(lambda ring: ring.meet(), f"the end of {what}")
            self.count_wait(waited)

    def average_gradient(self, what: str, *, is_last: bool) -> Mapping[str, float]:
        """Replace the net's message by the mean over all trainers, likewise; return what compression adds to the
        measurements of the step. `is_last`: it is the round's last, after which trainer1 may save a checkpoint.
        """
        message, size = self.net.message, self.net.parameters
        if self.compressor is None:
            self.average(message, what)
            return {}
        compress, lost = self.compressor, list[float]()
        staged = message.cpu()

        def exchange(ring: GlooRing) -> None:
            lost.append(compress.average(staged[:size], ring))
            if len(staged) > size:  # statistics are sent as they are
                ring.mean(staged[size:])
            if is_last and len(kept := self._buffers.compressor[self._place]):
                kept[self.rank.index] = compress.state  # what compressing left, in time for trainer1
                ring.meet()

        with self.record.phase("communicate"):
            waited = self._over_the_link(lambda: self.circle.jointly(exchange, what))
        self.count_wait(waited)
        message.copy_(staged)
        return {"train/compression_error": lost[0]}

    def _over_the_link(self, exchange: Callable[[], float]) -> float:
        """Carry out an exchange that returns the seconds waited for the last trainer, sleep as the simulated link takes
        for it, and return these seconds.
        """
        ring = self.circle.ring
        before = (ring.sent, ring.messages) if ring else (0, 0)
        waited = exchange()
        if ring and self.config.has_simulated_link:
            with self.record.operation("other", "simulated link"):
                time.sleep(self.config.link_s(ring.sent - before[0], ring.messages - before[1]))
        return waited

    def count_wait(self, seconds: float) -> None:
        """Count seconds of the phase `communicate` as `wait`."""
        self.record.spend("wait", seconds)
        self.record.spend("communicate", -seconds)

    def test_if_due(self, number: int) -> None:
        """As trainer1, test a copy of the global weights if the config tests after round `number`; the other trainers
        continue.
        """
        if self.rank.index or not self.config.tests_after(number):
            return
        net = model_net(self.config.model, seed_of(self.config.seed, WEIGHTS))
        FlatNet(net, nll_loss, device=self.data.test_images.device).state.copy_(self.global_state)
        with self.record.phase("evaluate"):
            self.log.log_score(evaluate(net, self.data.test_images, self.data.test_labels))

    # ---- checkpoints

    def store_own_state(self) -> None:
        """Copy this trainer's own state to where trainer1 can save it; call once a round, before the last average."""
        if not self._buffers.velocity.shape[1]:
            return
        self._place = 1 - self._place
        for rows, own in (
            (self._buffers.velocity, self.optimizer.state),
            (self._buffers.local, self.net.state),
            (self._buffers.random, _random_state(self.rank.device)),
        ):
            row = rows[self._place, self.rank.index]
            row[: len(own)].copy_(own[: len(row)])

    def save_if_due(self, number: int) -> None:
        """As trainer1, save the state after round `number`; its time is the last trainer's arrival, after which the
        next round begins.
        """
        if self.rank.index or not self._checkpoints.due():
            return
        time_s = self.rank.time_before_s + self.circle.latest_s() - self.started_at
        together = self.config.steps_together
        own = self.optimizer.state.unsqueeze(0) if together else self._buffers.velocity[self._place]
        state = {"round": number, "center": self.global_state, "velocity": own, "outer": self.outer_velocity}
        state |= {name: getattr(self._buffers, name)[self._place].clone() for name in ("local", "random", "compressor")}
        state["random_of"] = self.rank.device.type
        steps = {index: number * count for index, count in enumerate(self.part.steps_of_all)}
        passes = self.part.samples_of_all(number) / self.data.size  # others may be in the next round already
        self._checkpoints.save(state, step=max(steps.values()), passes=passes, time_s=time_s, steps=steps)

    def restore(self) -> int:
        """Restore the checkpoint that this run resumes, if any; return the number of the next round."""
        if self.rank.resume_from is None:
            return 1
        state, index = load_checkpoint(self.rank.resume_from), self.rank.index
        number = int(state["round"])
        self.global_state.copy_(state["center"])
        self.net.state.copy_(state["local"][index] if self.config.keeps_local_weights else self.global_state)
        if self.config.sync == "diloco":
            self.outer_velocity.copy_(state["outer"])
        if self.config.keep_optimizer:
            together = self.config.steps_together
            self.optimizer.state.copy_(state["velocity"][0 if together else index][: len(self.optimizer.state)])
            if not isinstance(self.optimizer, FlatSgd):
                self.optimizer.steps = number * (self.part.longest_steps if together else self.part.steps)
        if state.get("random_of", "cpu") == self.rank.device.type:  # else the state is of another kind of generator
            # a clone: torch crashes on a view that begins within its storage
            _set_random_state(self.rank.device, state["random"][index].clone())
        if self.compressor:
            self.compressor.state.copy_(state["compressor"][index])
        steps = number * self.part.steps
        self.part.skip(steps)
        self.log.resume(steps, self.part.samples(steps))
        return number + 1


def _optimizer(config: SyncSgdConfig, net: FlatNet) -> FlatSgd | FlatAdam | FlatMuon:
    match config.optimizer:
        case "sgd":
            return FlatSgd(net.weights, net.gradient, config.learning_rate, config.momentum)
        case "adamw":
            return FlatAdam(net.weights, net.gradient, config.learning_rate, weight_decay=config.weight_decay)
        case "muon":
            return FlatMuon(net, config.learning_rate, config.weight_decay)


def _random_state(device: torch.device) -> Tensor:
    """Return the state of the generator that dropout draws from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, row: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(row[: len(torch.cuda.get_rng_state(device))], device)
    else:
        torch.set_rng_state(row)
