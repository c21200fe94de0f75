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
from engine.experiments.pipeline.gpipe.links import Links, Neighbours
from engine.experiments.pipeline.micro_batches import MicroBatches, TestScore
from engine.experiments.pipeline.monitor import StageClock, StageMonitor, log_memory, reset_peak_memory
from engine.experiments.pipeline.partition import Stage, boundaries, loss_of, make_stage
from engine.pipelining import actions, depth, sizes
from engine.runtime.worker.ranks import Rank


def run_rank(rank: Rank, config: PipelineConfig, batches: MicroBatches, links: Links, costs: Tensor) -> None:
    """Train one stage of the pipeline for all batches of the run."""
    keep_freed_memory()
    stage = make_stage(rank, rank.index, config, costs)
    with links.open(rank, rank.index) as (before, after):
        clock = StageClock(rank.recorder, config, stage.number, rank.device)
        gpipe = GPipeStage(rank, stage, batches, Neighbours(rank, stage, clock, before, after), clock)
        reset_peak_memory(rank.device)
        clock.ready(rank.ready())
        for batch in range(config.batches):
            gpipe.train()
            if batches.tests_after(batch + 1):
                gpipe.test()
            rank.recorder.summarize("batch", batch + 1, config.batches)
    log_memory(rank, gpipe.monitor)


class GPipeStage:
    """One stage between its neighbours."""

    def __init__(
        self, rank: Rank, stage: Stage, batches: MicroBatches, neighbours: Neighbours, clock: StageClock
    ) -> None:
        config = stage.config
        self.rank = rank
        self.config = config
        self.stage = stage
        self.is_first, self.is_last = stage.number == 0, stage.is_last
        self.neighbours = neighbours
        self.clock = clock
        self.monitor = StageMonitor(stage)
        self.order = actions(config.schedule, stage.number, config.stages, config.splits)
        self.sizes = sizes(config.batch_size, config.splits)
        self.input_shape = boundaries(config)[stage.first_layer]
        """Of one image."""
        self.batches = batches
        self.images, self.targets = batches.images(rank.device), batches.targets(rank.device)
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
        with self.clock.work("update", 0):
            self.monitor.check(self.stage.gradient)
            self.stage.update()
        self._log()

    def forward(self, i: int) -> None:
        """Compute y of micro-batch i, keep it for the backward, and send it to the next stage."""
        if self.is_first:
            with self.rank.recorder.phase("data"):
                x = next(self.images)
        else:
            x = self.neighbours.receive_activations(i, (self.sizes[i], *self.input_shape))
        x = x.detach().requires_grad_(not self.is_first)
        with self.clock.work("forward", i):
            with self.monitor.watch("forward", i):
                y: Tensor = self.stage.net(x)
            if self.is_last:
                y = self._loss(i, y, next(self.targets))
        self.held[i] = x, y
        if not self.is_last:
            self.neighbours.send_activations(i, y)

    def backward(self, i: int) -> None:
        """Add micro-batch i's gradient to the stage's, and send that of x to the previous stage."""
        dy = None if self.is_last else self.neighbours.receive_gradient(i, tuple(self.held[i][1].shape))
        x, y = self.held.pop(i)
        with self.clock.work("backward", i), self.monitor.watch_backward(i):
            torch.autograd.backward(y, dy)
        if x.grad is not None:
            self.neighbours.send_gradient(i, x.grad)

    def _loss(self, i: int, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the contribution [] of micro-batch i to the batch's mean loss."""
        with self.monitor.watch("loss", i):
            share = loss_of(outputs, targets, self.config) * (len(targets) / self.config.batch_size)
        self.loss += share.detach()
        return share

    def _log(self) -> None:
        values, done = self.clock.batch_done(), self.stage.batch
        if self.is_last:
            values["train/loss"] = float(self.loss)
            self.loss.zero_()
            self.rank.recorder.progress(done * self.config.batch_size, self.config.batches * self.config.batch_size)
        self.rank.recorder.log(values, step=done, passes=self.batches.passes_after(done))

    def test(self) -> None:
        """Run the test images through the pipeline: forwards only. The last stage records the score."""
        score, neighbours = TestScore(), self.neighbours
        ahead = depth(self.config.schedule, self.stage.number, self.config.stages, self.config.splits)
        with self.rank.recorder.phase("evaluate"):
            for i, part in enumerate(self.batches.test_parts):
                if self.is_first:
                    x = self.batches.test_images(part, self.rank.device)
                else:
                    x = neighbours.receive_test_activations(i, (part.stop - part.start, *self.input_shape))
                y = self.stage.test(x)
                if not self.is_first:
                    neighbours.release_slot(i)
                if self.is_last:
                    score.add(y, self.batches.test_labels(part, y.device))
                else:
                    if i >= ahead:
                        neighbours.wait_for_slot(i - ahead)
                    neighbours.send_test_activations(i, y)
            if self.is_last:
                done = self.stage.batch
                self.rank.recorder.log(score.values(), step=done, passes=self.batches.passes_after(done))
            else:
                for i in range(len(self.batches.test_parts))[-ahead:]:
                    neighbours.wait_for_slot(i)
        self.clock.start()
