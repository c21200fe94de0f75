"""Modes gpipe and 1f1b: each stage works through its own queue of forwards and backwards, and hears of its neighbours
only what they send.
"""

import torch
from torch import Tensor

from engine.data.allocator import keep_freed_memory
from engine.data.resnets import layers_of
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.cutting import boundaries, cut, whole_net
from engine.experiments.pipeline.feed import Feed, Score
from engine.experiments.pipeline.links import Lines, Link
from engine.experiments.pipeline.stage import MB, Stage, forget_peak, peak_mb
from engine.experiments.pipeline.timing import Timing
from engine.pipelining.schedules import Action, actions, depth, sizes
from engine.runtime.worker.ranks import Rank


def take_part(rank: Rank, config: PipelineConfig, feed: Feed, lines: Lines, costs: Tensor) -> None:
    """Be one stage of the pipeline, until all batches are trained on."""
    keep_freed_memory()
    stage, first = make_stage(rank, rank.index, config, costs)
    with lines.open(rank, rank.index) as (before, after):
        worker = Worker(rank, stage, first, feed, before, after)
        forget_peak(rank.device)
        worker.timing.ready(rank.ready())
        for batch in range(config.batches):
            worker.train()
            if feed.tests_after(batch + 1):
                worker.test()
    log_memory(rank, stage)


def make_stage(rank: Rank, number: int, config: PipelineConfig, costs: Tensor) -> tuple[Stage, int]:
    """Return stage `number` (from 0) of the net as it is cut, and its first layer."""
    layers = layers_of(whole_net(config).to(rank.device))
    cuts = (0, *cut(rank, number, config, costs, layers), len(layers))
    return Stage(config, number, layers[cuts[number] : cuts[number + 1]], rank.device), cuts[number]


def log_memory(rank: Rank, stage: Stage) -> None:
    """Record what the stage held and took."""
    rank.recorder.log(
        {"perf/activations_held": stage.memory.most / MB, "perf/peak_memory": peak_mb(rank.device)}, step=stage.batch
    )


class Worker:
    """One stage between its neighbours."""

    def __init__(
        self, rank: Rank, stage: Stage, first_layer: int, feed: Feed, before: Link | None, after: Link | None
    ) -> None:
        config = stage.config
        self.rank = rank
        self.config = config
        self.stage = stage
        self.feed = feed
        self.before = before
        self.after = after
        self.timing = Timing(rank.recorder, config, stage.number, rank.device)
        self.queue = actions(config.schedule, stage.number, config.stages, config.splits)
        self.sizes = sizes(config.batch_size, config.splits)
        self.shape = boundaries(config)[first_layer]
        """Shape of what comes in, for one image."""
        self.outgoing: dict[int, tuple[int, ...]] = {}
        """Shapes of what went ahead and will come back as a gradient."""
        self.images = feed.images(rank.device)
        self.targets = feed.targets(rank.device)
        self.loss = torch.zeros((), device=rank.device)

    def train(self) -> None:
        """Train on the next batch."""
        for action in self.queue:
            (self._forward if action.what == "forward" else self._backward)(action)
        with self.timing.work("update", 0):
            self.stage.update()
        self._log()

    def _forward(self, action: Action) -> None:
        number = action.micro_batch
        inputs = self._inputs(number)
        with self.timing.work("forward", number):
            outputs = self.stage.forward(number, inputs)
            if self.after is None:
                self.loss += self.stage.loss(number, next(self.targets))
        if self.after is not None:
            self.outgoing[number] = tuple(outputs.shape)
            self._send(self.after, number, outputs)

    def _inputs(self, number: int) -> Tensor:
        if self.before is None:
            with self.rank.recorder.phase("data"):
                return next(self.images)
        return self._receive(
            self.before, number, (self.sizes[number], *self.shape), f"the activations of micro-batch {number}"
        )

    def _backward(self, action: Action) -> None:
        number, gradient = action.micro_batch, None
        if self.after is not None:
            gradient = self._receive(
                self.after, number, self.outgoing.pop(number), f"the gradient of micro-batch {number}"
            )
        with self.timing.work("backward", number):
            back = self.stage.backward(number, gradient)
        if self.before is not None and back is not None:
            self._send(self.before, number, back)

    def _send(self, link: Link, number: int, tensor: Tensor) -> None:
        with self.timing.transfer("send", number, self._peer(link), tensor.nbytes):
            link.send(number, tensor)

    def _receive(self, link: Link, number: int, shape: tuple[int, ...], what: str) -> Tensor:
        with self.rank.recorder.phase("wait"):
            link.wait(number, f"{what}, batch {self.stage.batch + 1}")
        with self.timing.transfer("receive", number, self._peer(link), 4 * torch.Size(shape).numel()):
            return link.take(number, shape)

    def _peer(self, link: Link) -> str:
        return self.config.stage_roles[self.stage.number + (1 if link is self.after else -1)]

    def _log(self) -> None:
        values, done = self.timing.batch_done(), self.stage.batch
        passes = None if self.feed.passes is None else done * self.feed.passes
        if self.stage.is_last:
            values["train/loss"] = float(self.loss)
            self.loss.zero_()
            self.rank.recorder.progress(done * self.config.batch_size, self.config.batches * self.config.batch_size)
        self.rank.recorder.log(values, step=done, passes=passes)

    # ---- tests: forwards alone; a slot is free again when the receiver says so

    def test(self) -> None:
        """Put the test images through the pipeline; the last stage records how it did."""
        with self.rank.recorder.phase("evaluate"):
            score, ahead = (
                Score(),
                depth(self.config.schedule, self.stage.number, self.config.stages, self.config.splits),
            )
            for number, part in enumerate(self.feed.test_parts):
                outputs = self.stage.test(self._test_inputs(number, part))
                if self.before is not None:
                    self.before.release(number)
                if self.after is None:
                    score.add(outputs, self.feed.test_labels(part, outputs.device))
                else:
                    if number >= ahead:
                        self._wait_for_slot(self.after, number - ahead)
                    self.rank.recorder.exchanged(outputs.nbytes)
                    self.after.send(number, outputs)
            if self.after is None:
                passes = None if self.feed.passes is None else self.stage.batch * self.feed.passes
                self.rank.recorder.log(score.values(), step=self.stage.batch, passes=passes)
            else:
                for number in range(len(self.feed.test_parts))[-ahead:]:
                    self._wait_for_slot(self.after, number)
        self.timing.start()

    def _test_inputs(self, number: int, part: slice) -> Tensor:
        if self.before is None:
            return self.feed.test_images(part, self.rank.device)
        self.before.wait(number, "test images' activations")
        return self.before.take(number, (part.stop - part.start, *self.shape))

    def _wait_for_slot(self, link: Link, number: int) -> None:
        link.wait(number, "word that test images were used")
        link.take(number, (0,))
