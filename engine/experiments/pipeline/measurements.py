"""A stage's measurements: spans of some batches, its idle share of each batch, and its memory."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.data.devices import finish
from engine.experiments.pipeline.config import PipelineConfig
from engine.recorder import Recorder

MB = 1e6
SPANS = 5_000
"""Maximum number of spans per stage, spread over the whole run."""


class StageClock:
    """One stage's times."""

    def __init__(self, record: Recorder, config: PipelineConfig, stage: int, device: torch.device) -> None:
        self.record = record
        self.config = config
        self.stage = stage
        self.device = device
        self.every = -(-config.batches * (6 * config.splits + 1) // SPANS)
        """One in this many batches is recorded span by span, the same for all stages."""
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
    def work(self, name: str, micro_batch: int) -> Iterator[None]:
        """Record a forward, a backward or an update."""
        self.first()
        with self.record.phase("update" if name == "update" else "compute", name, **self._place(micro_batch)) as done:
            done.value = self.stage
            began = time.perf_counter()
            yield
            finish(self.device)
            self.busy_s += time.perf_counter() - began

    @contextmanager
    def transfer(self, name: str, micro_batch: int, peer: int, size: int) -> Iterator[None]:
        """Record a send or a receive of that many bytes to or from the rank `peer`; only sends count as exchanged."""
        if name == "send":
            self.record.exchanged(size)
        with self.record.phase("communicate", name, peer=peer, **self._place(micro_batch)) as done:
            done.bytes, done.value = size, self.stage
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
        self._sizes: dict[int, dict[int, int]] = {}
        self.counting = True
        """Whether sizes still have to be measured."""
        self._held: dict[int, int] = {}
        self.most = 0
        """Maximum bytes held at one time."""

    @contextmanager
    def tracked(self, micro_batch: int) -> Iterator[None]:
        """Count what autograd saves for the backward in the block."""
        with (
            torch.autograd.graph.saved_tensors_hooks(self._count_in(micro_batch), _same)
            if self.counting
            else nullcontext()
        ):
            yield
        self._held[micro_batch] = sum(self._sizes.get(micro_batch, {}).values())
        self.most = max(self.most, sum(self._held.values()))

    def _count_in(self, micro_batch: int):  # type: ignore[no-untyped-def]
        sizes = self._sizes.setdefault(micro_batch, {})

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() != self._own:
                slot = tensor.device.type == "cpu" and storage.is_shared()  # part of a larger memory; a GPU's always is
                sizes[tensor.data_ptr() if slot else storage.data_ptr()] = tensor.nbytes if slot else storage.nbytes()
            return tensor.detach()  # the tensor itself would keep its own graph alive

        return pack

    def freed(self, micro_batch: int) -> None:
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
