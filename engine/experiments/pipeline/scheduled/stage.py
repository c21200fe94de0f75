"""GPipe, 1F1B, interleaved 1F1B and ZB-H1: one stage carries out its schedule's table of operations.

Roles: `stage1…p`. A batch is m micro-batches; F and B are their forwards and backwards, time goes to the right:

    gpipe   stage 1   F0 F1 F2 F3 .  .  B0 B1 B2 B3       1f1b   stage 1   F0 F1 .  B0 F2 B1 F3 B2 .  B3
            stage 2   .  F0 F1 F2 F3 B0 B1 B2 B3 .               stage 2   .  F0 B0 F1 B1 F2 B2 F3 B3 .

`interleaved` gives each stage several chunks of the net. `zb_h1` splits B into the gradient of a chunk's input, which
the previous stage waits for, and that of its weights (W), which fills the bubble. engine/pipelining.py has the tables.

Letters: i micro-batch (from 0), c chunk, x a chunk's input, y its output (at the end of the net: its share of the
batch's loss), dx and dy their gradients.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from engine.data.tensors import keep_freed_memory
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches, TestScore
from engine.experiments.pipeline.monitor import StageRank, log_memory
from engine.experiments.pipeline.partition import Stage, boundaries, loss_of, make_stage
from engine.experiments.pipeline.scheduled.links import Link, Links, slots_after
from engine.pipelining import actions, forwards, sizes
from engine.runtime.worker.ranks import Rank

Ends = tuple[Link | None, Link | None]
"""The links of a chunk to the parts of the net before and after it."""


def run_rank(rank: Rank, config: PipelineConfig, batches: MicroBatches, links: Links, costs: Tensor) -> None:
    """Train one stage of the pipeline for all batches of the run."""
    keep_freed_memory()
    stage = make_stage(rank, rank.index, config, costs)
    with links.open(rank, rank.index) as ends:
        scheduled = ScheduledStage(rank, stage, batches, ends)
        scheduled.run()
    log_memory(rank, scheduled.monitor)


class Boundary(NamedTuple):
    """The output of a layer in autograd's graph, without its values, and the layer's own weights."""

    edge: GradientEdge
    weights: list[nn.Parameter]


class Kept(NamedTuple):
    """What a forward keeps for its backward."""

    x: Tensor
    y: Tensor
    passed: list[Boundary]
    """Where a split backward stops; empty for a whole one."""


class ScheduledStage(StageRank):
    """One stage, with the links of each of its chunks: none before the net's first part, none after its last."""

    def __init__(self, rank: Rank, stage: Stage, batches: MicroBatches, links: list[Ends]) -> None:
        super().__init__(rank, stage, batches)
        config = stage.config
        self.links = links
        self.order = actions(config.schedule, stage.number, config.layout)
        self.sizes = sizes(config.batch_size, config.splits)
        self.input_shapes = [boundaries(config)[layer] for layer in stage.first_layers]
        """Of one image, by chunk."""
        self.split = [SplitBackward(net) for net in stage.nets] if config.schedule == "zb_h1" else []
        self.kept: dict[tuple[int, int], Kept] = {}
        self.kept_for_weights: dict[tuple[int, int], tuple[list[Boundary], tuple[Tensor, ...]]] = {}
        self.loss = torch.zeros((), device=rank.device)

    def train(self) -> None:
        """Train on the next batch: the schedule's operations in order, then one step of SGD."""
        for what, i, c in self.order:
            if what == "forward":
                self.forward(i, c)
            elif what == "backward":
                self.backward(i, c)
            elif what == "input_gradient":
                self.input_gradient(i, c)
            else:
                self.weight_gradient(i, c)
        self.update()
        values = self.clock.batch_done()
        if self.stage.is_last:
            values["train/loss"] = float(self.loss)
            self.loss.zero_()
        self.log(values)

    def forward(self, i: int, c: int) -> None:
        """Compute y of micro-batch i, keep it for the backward, and send it to the next part."""
        before, after = self.links[c]
        if before is None:
            with self.rank.recorder.phase("data"):
                x = next(self.images)
        else:
            x = self._receive(before, i, c, "activations", (self.sizes[i], *self.input_shapes[c]))
        x = x.detach().requires_grad_(before is not None)
        with self.clock.work("forward", i, c):
            with self.monitor.watch("forward", i, c):
                y, passed = self.split[c].forward(x) if self.split else (self.stage.nets[c](x), [])
            if after is None:
                y = self._loss(i, c, y, next(self.targets))
        self.kept[i, c] = Kept(x, y, passed)
        if after is not None:
            self._send(after, i, c, y)

    def backward(self, i: int, c: int) -> None:
        """Add micro-batch i's gradient to the stage's, and send dx to the previous part."""
        x, y, _ = self.kept.pop((i, c))
        dy = self._gradient_of(y, i, c)
        with self.clock.work("backward", i, c), self.monitor.watch_backward(i, c):
            torch.autograd.backward(y, dy)
        self._send_back(x.grad, i, c)

    def input_gradient(self, i: int, c: int) -> None:
        """Send dx of micro-batch i to the previous part, and keep what the gradient of the weights needs."""
        x, y, passed = self.kept.pop((i, c))
        dy = self._gradient_of(y, i, c)
        with self.clock.work("input_gradient", i, c), self.monitor.watch_backward(i, c, "input_gradient"):
            dx, gradients = input_gradient(y, x, dy, passed)
        self.kept_for_weights[i, c] = passed, gradients
        self._send_back(dx, i, c)

    def weight_gradient(self, i: int, c: int) -> None:
        """Add the gradient of the weights for micro-batch i to the stage's."""
        with self.clock.work("weight_gradient", i, c), self.monitor.watch_backward(i, c, "weight_gradient"):
            add_weight_gradients(*self.kept_for_weights.pop((i, c)))

    def _loss(self, i: int, c: int, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the contribution [] of micro-batch i to the batch's mean loss."""
        with self.monitor.watch("loss", i, c):
            share = loss_of(outputs, targets, self.config) * (len(targets) / self.config.batch_size)
        self.loss += share.detach()
        return share

    def _gradient_of(self, y: Tensor, i: int, c: int) -> Tensor | None:
        """Return dy from the next part; None at the end of the net, where y is the loss."""
        after = self.links[c][1]
        return None if after is None else self._receive(after, i, c, "gradient", tuple(y.shape))

    def _send_back(self, dx: Tensor | None, i: int, c: int) -> None:
        before = self.links[c][0]
        if before is not None:
            assert dx is not None
            self._send(before, i, c, dx)

    def _send(self, link: Link, i: int, c: int, tensor: Tensor) -> None:
        with self.clock.transfer("send", i, c, link.neighbour, tensor.nbytes):
            link.send(i, tensor)

    def _receive(self, link: Link, i: int, c: int, what: str, shape: tuple[int, ...]) -> Tensor:
        with self.rank.recorder.phase("wait", what, peer=link.neighbour, number=i):
            link.wait(i, f"the {what} of micro-batch {i}, batch {self.stage.batch + 1}")
        with self.clock.transfer("receive", i, c, link.neighbour, 4 * torch.Size(shape).numel()):
            found = link.take(i, shape)
            # The weight gradient reads it after the neighbour may have written to its slot again.
            return found.clone() if self.split else found

    def test(self) -> None:
        """Run the test images through the pipeline: forwards only. A slot is free again when its receiver releases
        it.
        """
        score, parts, config = TestScore(), self.batches.test_parts, self.config
        ahead = [slots_after(config, config.layout.part(self.stage.number, c)) for c in range(config.layout.chunks)]
        with self.rank.recorder.phase("evaluate"):
            for i, c in forwards(replace(config.layout, splits=len(parts))):
                before, after = self.links[c]
                if before is None:
                    x = self.batches.test_images(parts[i], self.rank.device)
                else:
                    before.wait(i, "activations of test images")
                    x = before.take(i, (parts[i].stop - parts[i].start, *self.input_shapes[c]))
                y = self.stage.test(x, self.stage.nets[c])
                if before is not None:
                    before.release(i)
                if after is None:
                    score.add(y, self.batches.test_labels(parts[i], y.device))
                    continue
                if i >= ahead[c]:
                    self._wait_for_slot(after, i - ahead[c])
                self.rank.recorder.exchanged(y.nbytes)
                after.send(i, y)
            if self.stage.is_last:
                self.log(score.values())
            for c, (_, after) in enumerate(self.links):
                if after is not None:
                    for i in range(len(parts))[-ahead[c] :]:
                        self._wait_for_slot(after, i)
        self.clock.start()

    def _wait_for_slot(self, link: Link, part: int) -> None:
        """Wait until the next stage has released that part of the test images."""
        link.wait(part, "the release of test images")
        link.take(part, (0,))


# ---- A backward in two halves: the gradient of a net's input now, those of its weights later (Qi et al. 2023) -------


class SplitBackward:
    """Notes the layers of a net that have weights, so that its backward can stop at each of them.

    The input gradient passes all layers and keeps the gradient of each layer's output. The weight gradient starts
    there, in each layer alone. Together they do what one backward does, with the same kernels, so gradients are
    bit-identical.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self._passed: list[Boundary] = []
        for layer in net.modules():
            if weights := list(layer.parameters(recurse=False)):
                layer.register_forward_hook(lambda layer, given, out, own=weights: self._note(out, own))

    def _note(self, output: Tensor, weights: list[nn.Parameter]) -> None:
        if output.requires_grad:
            self._passed.append(Boundary(get_gradient_edge(output), weights))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Boundary]]:
        """Return the net's output, and the layers that its backward will stop at."""
        self._passed = []
        return self._net(x), self._passed


def input_gradient(
    y: Tensor, x: Tensor, dy: Tensor | None, passed: Sequence[Boundary]
) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """Return the gradient of x (None if it needs none), and those of the layers' outputs."""
    wanted = [get_gradient_edge(x)] if x.requires_grad else []
    found = torch.autograd.grad([y], [*wanted, *(each.edge for each in passed)], [dy], retain_graph=True)
    return (found[0] if wanted else None), found[len(wanted) :]


def add_weight_gradients(passed: Sequence[Boundary], gradients: Sequence[Tensor]) -> None:
    """Add the gradient of each layer's weights to their `.grad`, from the gradient of its output."""
    for (edge, weights), gradient in zip(passed, gradients, strict=True):
        torch.autograd.backward([edge], [gradient], inputs=weights)
