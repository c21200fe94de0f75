"""A stage in its rank: its monitor, which names failures, checks for NaN, counts held activations and injects faults;
its times; and its loop over the batches.
"""

import os
import re
import resource
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.data.tensors import finish
from engine.errors import EngineError, RunFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches
from engine.experiments.pipeline.partition import Stage
from engine.recorder import Recorder
from engine.runtime.worker.ranks import Rank

FAULTY_BATCH = 1
"""The batch (from 0) in whose backward the fault is injected."""
ABSURD = 2**50
OUT_OF_MEMORY = re.compile(r"allocate (?:memory: you tried to allocate )?([\d.]+) ?(bytes|[KMGT]iB)", re.IGNORECASE)


class StageMonitor:
    """The monitor of one stage; it inspects the inputs and outputs of its nets by hooks."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.memory = ActivationMemory(stage.weights)
        self._is_bad = torch.zeros(3, dtype=torch.bool, device=stage.weights.device)
        """Whether the input, the output, and the output's gradient held a NaN or an infinity since the last update."""
        for chunk, net in enumerate(stage.nets):
            net.register_forward_hook(partial(self._check_forward, stage.is_end(chunk)))

    @contextmanager
    def watch(self, what: str, micro_batch: int, chunk: int = 0) -> Iterator[None]:
        """Name failures in the block, and count the activations that it keeps for the backward."""
        with named(self.stage.role, what, self.stage.batch, micro_batch), self.memory.tracked((micro_batch, chunk)):
            yield

    @contextmanager
    def watch_backward(self, micro_batch: int, chunk: int = 0, what: str = "backward") -> Iterator[None]:
        """Inject the configured fault, name failures in the block, and subtract the micro-batch's activations, which an
        input gradient leaves to the weight gradient.
        """
        with named(self.stage.role, what, self.stage.batch, micro_batch):
            if what != "weight_gradient":
                self._inject_fault(micro_batch)
            yield
        if what != "input_gradient":
            self.memory.freed((micro_batch, chunk))

    def inject_fault(self, micro_batch: int) -> None:
        """Fail as configured, if this is the backward of the fault's micro-batch."""
        with named(self.stage.role, "backward", self.stage.batch, micro_batch):
            self._inject_fault(micro_batch)

    def _inject_fault(self, micro_batch: int) -> None:
        """Inject the config's fault in the backward of the faulty batch's middle micro-batch (from 0)."""
        stage, config = self.stage, self.stage.config
        is_here = (config.fault_stage, FAULTY_BATCH, config.splits // 2) == (stage.number + 1, stage.batch, micro_batch)
        if not is_here or config.fault == "none":
            return
        if config.fault == "raise":
            raise RuntimeError("raised on purpose (fault)")
        if config.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if config.fault == "memory":
            torch.empty(ABSURD, device=stage.weights.device)
        while config.fault == "hang":
            time.sleep(1)
        if config.fault == "nan":
            stage.weights.detach().fill_(torch.nan)

    def check(self, gradient: Tensor) -> None:
        """Raise RunFailed if values became NaN or infinite in this stage first: in its output or in `gradient` (or the
        weights that it was added to).
        """
        self.memory.counting = False
        came, went, came_back = self._is_bad.tolist()
        self._is_bad.zero_()
        stage = self.stage
        what = "activations" if went and not stage.is_last else "loss" if went else "gradient"
        if not came and (went or (not came_back and not gradient.sum().isfinite())):
            raise RunFailed(
                f"{stage.role}'s {what} became NaN or infinite in batch {stage.batch + 1}, from finite inputs. "
                f"Lower learning_rate ({stage.config.learning_rate})."
            )

    def _check_forward(self, is_end: bool, net: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
        """Check by sums: a sum is NaN if any element is, and costs little compared with the layers."""
        if not torch.is_grad_enabled():
            return
        sums = [inputs[0].detach().sum().float(), outputs.detach().sum()]
        self._is_bad[:2] |= torch.stack(sums).isfinite().logical_not_()
        if not is_end:
            outputs.register_hook(self._check_backward)  # type: ignore[no-untyped-call]

    def _check_backward(self, gradient: Tensor) -> None:
        self._is_bad[2] |= ~gradient.sum().isfinite()


@contextmanager
def named(role: str, what: str, batch: int, micro_batch: int) -> Iterator[None]:
    """Raise RunFailed with stage, direction and micro-batch if the block raises a torch error."""
    try:
        yield
    except EngineError:
        raise
    except (RuntimeError, MemoryError) as error:
        where = f"in the {what.replace('_', ' ')} of micro-batch {micro_batch}, batch {batch + 1}"
        raise RunFailed(f"{role} {_sentence(error)} {where}{_cure(error)}") from error


def _sentence(error: Exception) -> str:
    if is_out_of_memory(error):
        asked = OUT_OF_MEMORY.search(str(error))
        return f"ran out of memory allocating {asked[1]} {asked[2]}" if asked else "ran out of memory"
    return (
        f"failed with {type(error).__name__}: "
        f"{next(filter(None, map(str.strip, str(error).splitlines())), 'no message')},"
    )


def _cure(error: Exception) -> str:
    if is_out_of_memory(error):
        return (
            ". Lower batch_size or image_size, choose mode 1f1b, which holds fewer activations, or "
            "give that stage fewer layers with cut."
        )
    return "."


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error is a failed allocation of GPU or main memory."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


# ---- A stage's measurements: spans of some batches, its idle share of each batch, and its memory -------------------

MB = 1e6
SPANS = 5_000
"""Maximum number of spans per stage, spread over the whole run."""

SLEEPS = {"forward": 1, "backward": 2, "input_gradient": 1, "weight_gradient": 1}
"""How often an operation sleeps sleep_ms: the gradients of inputs and of weights take as long as a forward each."""


class StageClock:
    """One stage's times."""

    def __init__(self, record: Recorder, config: PipelineConfig, stage: int, device: torch.device) -> None:
        self.record = record
        self.config = config
        self.stage = stage
        self.device = device
        self.every = -(-config.batches * (7 * config.layout.chunks * config.splits + 1) // SPANS)
        """One in this many batches is recorded span by span, the same for all stages."""
        self.pause_s = config.sleep_ms / 1000 / config.layout.chunks
        self.batch = 0
        self.busy_s = 0.0
        self.began = time.perf_counter()
        self.zero: float | None = None

    def ready(self, zero: float) -> None:
        """Start the first batch; `zero` is the time (monotonic, s) at which all ranks were ready."""
        self.zero = zero
        self.start()

    def start(self) -> None:
        """Start the next batch."""
        self.began = time.perf_counter()

    def first(self) -> None:
        """Record the time from all ranks ready to the first stage's first forward, before it starts."""
        if self.zero is not None and self.stage == 0:
            self.record.log({"perf/first_micro_batch_s": time.monotonic() - self.zero}, step=1)
        self.zero = None

    @contextmanager
    def work(self, name: str, micro_batch: int, chunk: int = 0) -> Iterator[None]:
        """Record a forward, a backward, one of its halves, or an update."""
        self.first()
        with self.record.phase("update" if name == "update" else "compute", name, **self._place(micro_batch)) as done:
            done.value = self.config.layout.part(self.stage, chunk)
            began = time.perf_counter()
            yield
            finish(self.device)
            if pause_s := SLEEPS.get(name, 0) * self.pause_s:
                time.sleep(pause_s)
            self.busy_s += time.perf_counter() - began

    @contextmanager
    def transfer(self, name: str, micro_batch: int, chunk: int, peer: int, size: int) -> Iterator[None]:
        """Record a send or a receive of that many bytes to or from the rank `peer`; only sends count as exchanged."""
        if name == "send":
            self.record.exchanged(size)
        with self.record.phase("communicate", name, peer=peer, **self._place(micro_batch)) as done:
            done.bytes, done.value = size, self.config.layout.part(self.stage, chunk)
            yield

    @contextmanager
    def operation(self, name: str, micro_batch: int) -> Iterator[None]:
        """Trace work of another thread than the rank's main one."""
        with self.record.operation("compute", name, **self._place(micro_batch)) as done:
            done.value = self.stage
            yield

    def _place(self, micro_batch: int) -> dict[str, Any]:
        """Return the micro-batch's number in the run; one in `every` batches is stored whole."""
        return {"number": self.batch * self.config.splits + micro_batch, "picked": self.batch % self.every == 0}

    def batch_done(self) -> dict[str, float]:
        """Start the next batch; return the metrics of the one that ends."""
        now = time.perf_counter()
        idle = 1 - self.busy_s / max(1e-9, now - self.began)
        self.batch, self.busy_s, self.began = self.batch + 1, 0.0, now
        return {"perf/bubble_share": 100 * max(0.0, idle)}


class ActivationMemory:
    """Bytes held for backwards, measured in the first batch, in which each micro-batch's tensors are identified by
    their memory.
    """

    def __init__(self, weights: Tensor) -> None:
        self._own = weights.untyped_storage().data_ptr()
        self._sizes: dict[Hashable, dict[int, int]] = {}
        self.counting = True
        """Whether sizes still have to be measured."""
        self._held: dict[Hashable, int] = {}
        self.most = 0
        """Maximum bytes held at one time."""

    @contextmanager
    def tracked(self, micro_batch: Hashable) -> Iterator[None]:
        """Count what autograd saves for the backward in the block."""
        with (
            torch.autograd.graph.saved_tensors_hooks(self._count_in(micro_batch), _same)
            if self.counting
            else nullcontext()
        ):
            yield
        self._held[micro_batch] = sum(self._sizes.get(micro_batch, {}).values())
        self.most = max(self.most, sum(self._held.values()))

    def _count_in(self, micro_batch: Hashable):  # type: ignore[no-untyped-def]
        sizes = self._sizes.setdefault(micro_batch, {})

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() != self._own:
                slot = tensor.device.type == "cpu" and storage.is_shared()  # part of a larger memory; a GPU's always is
                sizes[tensor.data_ptr() if slot else storage.data_ptr()] = tensor.nbytes if slot else storage.nbytes()
            return tensor.detach()  # the tensor itself would keep its own graph alive

        return pack

    def freed(self, micro_batch: Hashable) -> None:
        """Subtract a micro-batch."""
        self._held.pop(micro_batch, None)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak of this process's memory."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb(device: torch.device) -> float:
    """Return the peak memory of this process since then, in MB: of the GPU if it computes on one, of the machine
    otherwise.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / MB
    with suppress(OSError, StopIteration):
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


# ---- A stage in its rank -------------------------------------------------------------------------------------------


class StageRank(ABC):
    """A stage that a rank trains batch by batch under a schedule; each way to do that overrides `train` and `test`."""

    def __init__(self, rank: Rank, stage: Stage, batches: MicroBatches) -> None:
        self.rank = rank
        self.config = stage.config
        self.stage = stage
        self.batches = batches
        self.images, self.targets = batches.images(rank.device), batches.targets(rank.device)
        self.clock = StageClock(rank.recorder, stage.config, stage.number, rank.device)
        self.monitor = StageMonitor(stage)

    @abstractmethod
    def train(self) -> None:
        """Train on the next batch."""

    @abstractmethod
    def test(self) -> None:
        """Run the test images through the stages; the last one records the score."""

    def run(self) -> None:
        """Train on all batches of the run."""
        reset_peak_memory(self.rank.device)
        self.clock.ready(self.rank.ready())
        for batch in range(1, self.config.batches + 1):
            self.train()
            if self.batches.tests_after(batch):
                self.test()
            self.rank.recorder.summarize("batch", batch, self.config.batches)

    def update(self) -> None:
        """Make one step of SGD with the gradient of the whole batch."""
        with self.clock.work("update", 0):
            self.monitor.check(self.stage.gradient)
            self.stage.update()

    def log(self, values: dict[str, float]) -> None:
        """Record values of the batch that ended, as the last stage with the progress."""
        done, config = self.stage.batch, self.config
        if self.stage.is_last:
            self.rank.recorder.progress(done * config.batch_size, config.batches * config.batch_size)
        self.rank.recorder.log(values, step=done, passes=self.batches.passes_after(done))


def log_memory(rank: Rank, monitor: StageMonitor) -> None:
    """Record the stage's peak of held activations and of process memory, in MB."""
    rank.recorder.log(
        {"perf/activations_held": monitor.memory.most / MB, "perf/peak_memory": peak_memory_mb(rank.device)},
        step=monitor.stage.batch,
    )
