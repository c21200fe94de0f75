"""GPipe (Huang et al. 2019) and 1F1B (Narayanan et al. 2019): one stage's forwards, backwards and update.

Roles: `stage1…p`. A batch is m micro-batches; F and B are their forwards and backwards, time goes to the right:

    gpipe   stage 1   F0 F1 F2 F3 .  .  B0 B1 B2 B3       1f1b   stage 1   F0 F1 .  B0 F2 B1 F3 B2 .  B3
            stage 2   .  F0 F1 F2 F3 B0 B1 B2 B3 .               stage 2   .  F0 B0 F1 B1 F2 B2 F3 B3 .

Letters: i micro-batch (from 0), x a stage's input, y its output (of the last stage: its share of the batch's loss).
"""

import torch
from torch import Tensor

from engine.data.tensors import keep_freed_memory
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.gpipe.links import Link, Links
from engine.experiments.pipeline.micro_batches import MicroBatches, TestScore
from engine.experiments.pipeline.monitor import StageRank, log_memory
from engine.experiments.pipeline.partition import Stage, boundaries, loss_of, make_stage
from engine.pipelining import actions, depth, sizes
from engine.runtime.worker.ranks import Rank


def run_rank(rank: Rank, config: PipelineConfig, batches: MicroBatches, links: Links, costs: Tensor) -> None:
    """Train one stage of the pipeline for all batches of the run."""
    keep_freed_memory()
    stage = make_stage(rank, rank.index, config, costs)
    with links.open(rank, rank.index) as (before, after):
        gpipe = GPipeStage(rank, stage, batches, before, after)
        gpipe.run()
    log_memory(rank, gpipe.monitor)


class GPipeStage(StageRank):
    """One stage between its neighbours: the first one has none before it, the last one none after it."""

    def __init__(
        self, rank: Rank, stage: Stage, batches: MicroBatches, before: Link | None, after: Link | None
    ) -> None:
        super().__init__(rank, stage, batches)
        config = stage.config
        self.before, self.after = before, after
        self.order = actions(config.schedule, stage.number, config.stages, config.splits)
        self.sizes = sizes(config.batch_size, config.splits)
        self.input_shape = boundaries(config)[stage.first_layer]
        """Of one image."""
        self.held: dict[int, tuple[Tensor, Tensor]] = {}
        """By micro-batch: x and y waiting for their backward."""
        self.loss = torch.zeros((), device=rank.device)

    def train(self) -> None:
        """Train on the next batch: the schedule's forwards and backwards in order, then one step of SGD."""
        for action in self.order:
            if action.what == "forward":
                self.forward(action.micro_batch)
            else:
                self.backward(action.micro_batch)
        self.update()
        values = self.clock.batch_done()
        if self.after is None:
            values["train/loss"] = float(self.loss)
            self.loss.zero_()
        self.log(values)

    def forward(self, i: int) -> None:
        """Compute y of micro-batch i, keep it for the backward, and send it to the next stage."""
        if self.before is None:
            with self.rank.recorder.phase("data"):
                x = next(self.images)
        else:
            x = self._receive(self.before, i, "activations", (self.sizes[i], *self.input_shape))
        x = x.detach().requires_grad_(self.before is not None)
        with self.clock.work("forward", i):
            with self.monitor.watch("forward", i):
                y: Tensor = self.stage.net(x)
            if self.after is None:
                y = self._loss(i, y, next(self.targets))
        self.held[i] = x, y
        if self.after is not None:
            self._send(self.after, i, y)

    def backward(self, i: int) -> None:
        """Add micro-batch i's gradient to the stage's, and send that of x to the previous stage."""
        x, y = self.held.pop(i)
        dy = None if self.after is None else self._receive(self.after, i, "gradient", tuple(y.shape))
        with self.clock.work("backward", i), self.monitor.watch_backward(i):
            torch.autograd.backward(y, dy)
        if self.before is not None:
            assert x.grad is not None
            self._send(self.before, i, x.grad)

    def _loss(self, i: int, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the contribution [] of micro-batch i to the batch's mean loss."""
        with self.monitor.watch("loss", i):
            share = loss_of(outputs, targets, self.config) * (len(targets) / self.config.batch_size)
        self.loss += share.detach()
        return share

    def _send(self, link: Link, i: int, tensor: Tensor) -> None:
        with self.clock.transfer("send", i, link.neighbour, tensor.nbytes):
            link.send(i, tensor)

    def _receive(self, link: Link, i: int, what: str, shape: tuple[int, ...]) -> Tensor:
        with self.rank.recorder.phase("wait", what, peer=link.neighbour, number=i):
            link.wait(i, f"the {what} of micro-batch {i}, batch {self.stage.batch + 1}")
        with self.clock.transfer("receive", i, link.neighbour, 4 * torch.Size(shape).numel()):
            return link.take(i, shape)

    def test(self) -> None:
        """Run the test images through the pipeline: forwards only. A slot is free again when its receiver releases
        it.
        """
        score, parts = TestScore(), self.batches.test_parts
        ahead = depth(self.config.schedule, self.stage.number, self.config.stages, self.config.splits)
        with self.rank.recorder.phase("evaluate"):
            for i, part in enumerate(parts):
                if self.before is None:
                    x = self.batches.test_images(part, self.rank.device)
                else:
                    self.before.wait(i, "activations of test images")
                    x = self.before.take(i, (part.stop - part.start, *self.input_shape))
                y = self.stage.test(x)
                if self.before is not None:
                    self.before.release(i)
                if self.after is None:
                    score.add(y, self.batches.test_labels(part, y.device))
                    continue
                if i >= ahead:
                    self._wait_for_slot(self.after, i - ahead)
                self.rank.recorder.exchanged(y.nbytes)
                self.after.send(i, y)
            if self.after is None:
                self.log(score.values())
            else:
                for i in range(len(parts))[-ahead:]:
                    self._wait_for_slot(self.after, i)
        self.clock.start()

    def _wait_for_slot(self, link: Link, part: int) -> None:
        """Wait until the next stage has released that part of the test images."""
        link.wait(part, "the release of test images")
        link.take(part, (0,))
