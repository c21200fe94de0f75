"""Mode torch_pipelining: the same stages under `torch.distributed.pipelining`, on gloo or NCCL, for comparison.

Roles: `stage1…p`. torch calls each part of the net a stage, so that a rank has several of them if it has chunks. Its
zero bubble schedule has ZB-H1's order with one part per rank.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from engine.data.tensors import keep_freed_memory
from engine.errors import DeviceError, PeerLost
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches, TestScore
from engine.experiments.pipeline.monitor import StageClock, StageMonitor, StageRank, log_memory
from engine.experiments.pipeline.partition import Stage, boundaries, loss_of, make_stage
from engine.pipelining import Schedule
from engine.runtime.transport.allreduce import torch_group
from engine.runtime.worker.ranks import Rank


def run_rank(rank: Rank, config: PipelineConfig, batches: MicroBatches, costs: Tensor) -> None:
    """Train one stage under torch's schedule for all batches of the run."""
    keep_freed_memory()
    stage = make_stage(rank, rank.index, config, costs)
    with torch_group(rank, _backend(rank, config), config.timeout_s):
        peer = TorchStage(rank, stage, batches)
        peer.run()
        rank.barrier("through")
    log_memory(rank, peer.monitor)


def _backend(rank: Rank, config: PipelineConfig) -> Any:
    if rank.device.type != "cuda":
        return "gloo"
    if torch.cuda.device_count() < config.stages:
        raise DeviceError(
            f"Mode torch_pipelining needs a GPU for each of the {config.stages} stages (NCCL needs "
            f"one GPU per rank), but the run has {torch.cuda.device_count()}. Choose device cpu, or "
            "mode gpipe or 1f1b."
        )
    return "nccl"


@contextmanager
def _named(stage: Stage) -> Iterator[None]:
    """Attribute a failed send or receive to the neighbour."""
    try:
        yield
    except (torch.OutOfMemoryError, torch.AcceleratorError):  # of this stage's own GPU
        raise
    except RuntimeError as error:
        roles, number = stage.config.stage_roles, stage.number
        neighbours = " and ".join(roles[place] for place in (number - 1, number + 1) if 0 <= place < len(roles))
        raise PeerLost(
            f"{stage.role} lost the connection to {neighbours} in batch {stage.batch + 1}: {str(error).splitlines()[0]}"
        ) from error


class ChannelsLast(nn.Module):
    """A part of the net that exchanges activations channels-last, [n, height, width, channels]: gloo sends only
    contiguous tensors.
    """

    def __init__(self, net: nn.Module, is_first: bool) -> None:
        super().__init__()
        self.net = net
        self.is_first = is_first

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.net(inputs if self.is_first or inputs.dim() != 4 else inputs.permute(0, 3, 1, 2))
        return outputs.permute(0, 2, 3, 1).contiguous() if outputs.dim() == 4 else outputs


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[1:], shape[0]) if len(shape) == 3 else shape


class WatchedPart(PipelineStage):
    """torch's stage with recorded forwards and backwards; waiting and sending are torch's."""

    def __init__(self, monitor: StageMonitor, clock: StageClock, chunk: int, device: torch.device) -> None:
        stage, config = monitor.stage, monitor.stage.config
        self.part = config.layout.part(stage.number, chunk)
        self.chunk = chunk
        self.monitor = monitor
        self.clock = clock
        shapes, first = boundaries(config), stage.first_layers[chunk]
        after = first + len(stage.nets[chunk])  # type: ignore[arg-type]
        self.input_shape = _channels_last(shapes[first]) if self.part > 0 else shapes[first]
        """Of one sample."""
        outputs = _channels_last(shapes[after]) if after < len(shapes) else ()  # nobody receives the last part's
        size = config.batch_size // config.splits
        inputs = torch.empty(size, *self.input_shape, device=device, requires_grad=self.part > 0)
        sent = torch.empty(size, *outputs, device=device, requires_grad=True)
        super().__init__(
            ChannelsLast(stage.nets[chunk], self.part == 0),
            self.part,
            config.layout.parts,
            device,
            input_args=(inputs,),
            output_args=(sent,),
        )
        self.sent_bytes = (0 if self.is_last else sent.nbytes) + (0 if self.is_first else inputs.nbytes)
        """Bytes per micro-batch: activations sent forward, and gradients sent back."""

    @contextmanager
    def _watched(self, what: str, i: int) -> Iterator[None]:
        with self.clock.work(what, i, self.chunk), self._monitored(what, i):
            yield

    def _monitored(self, what: str, i: int) -> AbstractContextManager[None]:
        if what == "forward":
            return self.monitor.watch(what, i, self.chunk)
        return self.monitor.watch_backward(i, self.chunk, what)

    def forward_one_chunk(self, fwd_chunk_id: int, *given: Any, **more: Any) -> Any:
        with self._watched("forward", fwd_chunk_id):
            return super().forward_one_chunk(fwd_chunk_id, *given, **more)

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
    ) -> Any:
        with self._watched("backward" if full_backward else "input_gradient", bwd_chunk_id):
            return super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> Any:
        with self._watched("weight_gradient", bwd_chunk_id):
            return super().backward_weight_one_chunk(bwd_chunk_id, last_backward)


SCHEDULES: dict[Schedule, Any] = {
    "gpipe": ScheduleGPipe,
    "1f1b": Schedule1F1B,
    "interleaved": ScheduleInterleaved1F1B,
    "zb_h1": ScheduleInterleavedZeroBubble,
}


class TorchStage(StageRank):
    """One stage under torch's schedule."""

    def __init__(self, rank: Rank, stage: Stage, batches: MicroBatches) -> None:
        super().__init__(rank, stage, batches)
        config = stage.config
        self.parts = [
            WatchedPart(self.monitor, self.clock, chunk, rank.device) for chunk in range(config.layout.chunks)
        ]
        self.sent = config.splits * sum(part.sent_bytes for part in self.parts)
        """Bytes per batch."""
        takes_one = config.schedule in ("gpipe", "1f1b")
        self.schedule = SCHEDULES[config.schedule](
            self.parts[0] if takes_one else self.parts,
            config.splits,
            loss_fn=lambda out, truth: loss_of(out, truth, config),
        )

    def train(self) -> None:
        """Train on the next batch."""
        config, stage = self.config, self.stage
        losses: list[Tensor] = []
        given: tuple[Tensor, ...] = ()
        if stage.number == 0:
            with self.rank.recorder.phase("data"):
                given = (torch.cat(list(islice(self.images, config.splits))),)
        truth = torch.cat(list(islice(self.targets, config.splits))) if stage.is_last else None
        with self.rank.recorder.phase("wait"), _named(stage):
            self.schedule.step(*given, target=truth, losses=losses if stage.is_last else None, return_outputs=False)
        self.rank.recorder.exchanged(self.sent)
        self.update()
        values = self.clock.batch_done()
        if stage.is_last:
            values["train/loss"] = float(torch.stack(losses).detach().mean())
        self.log(values)

    def test(self) -> None:
        """Run the test samples through all parts of the net, one micro-batch after another."""
        score = TestScore()
        with self.rank.recorder.phase("evaluate"), _named(self.stage):
            for some in self.batches.test_parts:
                for part in self.parts:
                    self._test(part, some, score)
        if self.stage.is_last:
            self.log(score.values())
        self.clock.start()

    def _test(self, part: WatchedPart, some: slice, score: TestScore) -> None:
        """Run some test samples through a part of the net; the last one adds them to the score."""
        place = self.config.layout.place
        if part.is_first:
            inputs = self.batches.test_images(some, self.rank.device)
        else:
            inputs = torch.empty(some.stop - some.start, *part.input_shape, device=self.rank.device)
            distributed.recv(inputs, place(part.part - 1)[0])
        outputs = self.stage.test(inputs, part.submod)
        if part.is_last:
            score.add(outputs, self.batches.test_labels(some, outputs.device))
        else:
            self.rank.recorder.exchanged(outputs.nbytes)
            distributed.send(outputs, place(part.part + 1)[0])
