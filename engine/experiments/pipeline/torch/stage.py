"""Mode torch_pipelining: the same stages under `torch.distributed.pipelining`, on gloo or NCCL, for comparison.

Roles: `stage1…p`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from engine.data.tensors import keep_freed_memory
from engine.errors import DeviceError, PeerLost
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches, TestScore
from engine.experiments.pipeline.monitor import StageClock, StageMonitor, StageRank, log_memory
from engine.experiments.pipeline.partition import Stage, boundaries, loss_of, make_stage
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
    """A stage that exchanges activations channels-last, [n, height, width, channels]: gloo sends only contiguous
    tensors.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.net = stage.net
        self.first = stage.number == 0

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.net(inputs if self.first or inputs.dim() != 4 else inputs.permute(0, 3, 1, 2))
        return outputs.permute(0, 2, 3, 1).contiguous() if outputs.dim() == 4 else outputs


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[1:], shape[0]) if len(shape) == 3 else shape


class WatchedStage(PipelineStage):
    """torch's stage with recorded forwards and backwards; waiting and sending are torch's."""

    def __init__(self, monitor: StageMonitor, clock: StageClock, inputs: Tensor, outputs: Tensor) -> None:
        stage = monitor.stage
        super().__init__(
            ChannelsLast(stage),
            stage.number,
            stage.config.stages,
            inputs.device,
            input_args=(inputs,),
            output_args=(outputs,),
        )
        self.monitor = monitor
        self.clock = clock

    def forward_one_chunk(self, fwd_chunk_id: int, *given: Any, **more: Any) -> Any:
        with self.clock.work("forward", fwd_chunk_id), self.monitor.watch("forward", fwd_chunk_id):
            return super().forward_one_chunk(fwd_chunk_id, *given, **more)

    def backward_one_chunk(self, bwd_chunk_id: int, *given: Any, **more: Any) -> Any:
        with self.clock.work("backward", bwd_chunk_id), self.monitor.watch_backward(bwd_chunk_id):
            return super().backward_one_chunk(bwd_chunk_id, *given, **more)


class TorchStage(StageRank):
    """One stage under torch's schedule."""

    def __init__(self, rank: Rank, stage: Stage, batches: MicroBatches) -> None:
        super().__init__(rank, stage, batches)
        config = stage.config
        self.shape = (
            boundaries(config)[stage.first_layers[0]]
            if stage.number == 0
            else _channels_last(boundaries(config)[stage.first_layers[0]])
        )
        size = config.batch_size // config.splits
        inputs = torch.empty(size, *self.shape, device=rank.device, requires_grad=stage.number > 0)
        outputs = torch.empty(size, *self._output_shape(), device=rank.device, requires_grad=True)
        ahead, back = (0 if stage.is_last else outputs.nbytes), inputs.nbytes if stage.number > 0 else 0
        self.sent = config.splits * (ahead + back)
        """Bytes per batch: activations sent forward, and gradients sent back."""
        timed = WatchedStage(self.monitor, self.clock, inputs, outputs)
        self.net = timed.submod
        kind = ScheduleGPipe if config.schedule == "gpipe" else Schedule1F1B
        self.schedule = kind(timed, config.splits, loss_fn=lambda out, truth: loss_of(out, truth, config))

    def _output_shape(self) -> tuple[int, ...]:
        after = self.stage.first_layers[0] + len(self.stage.net)
        shapes = boundaries(self.config)
        return _channels_last(shapes[after]) if after < len(shapes) else (self.config.outputs,)

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
        """Run the test images through the stages, one part after another."""
        stage, score = self.stage, TestScore()
        with self.rank.recorder.phase("evaluate"), _named(stage):
            for part in self.batches.test_parts:
                if stage.number == 0:
                    inputs = self.batches.test_images(part, self.rank.device)
                else:
                    inputs = torch.empty(part.stop - part.start, *self.shape, device=self.rank.device)
                    distributed.recv(inputs, stage.number - 1)
                outputs = stage.test(inputs, self.net)
                if stage.is_last:
                    score.add(outputs, self.batches.test_labels(part, outputs.device))
                else:
                    self.rank.recorder.exchanged(outputs.nbytes)
                    distributed.send(outputs, stage.number + 1)
        if stage.is_last:
            self.log(score.values())
        self.clock.start()
