"""What a stage records of its time: spans of some batches, and of each batch the share in which it idled."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.experiments.pipeline.config import PipelineConfig
from engine.recorder import Recorder

SPANS = 5_000
"""Spans of one stage at the most, spread over the whole run."""


class Timing:
    """One stage's clock."""

    def __init__(self, record: Recorder, config: PipelineConfig, stage: int, device: torch.device) -> None:
        self.record = record
        self.config = config
        self.stage = stage
        self.device = device
        self.every = -(-config.batches * (6 * config.splits + 1) // SPANS)
        """Of so many batches one is recorded span by span, the same for all stages."""
        self.batch = 0
        self.busy_s = 0.0
        self.began = time.perf_counter()
        self.zero: float | None = None

    def ready(self, zero: float) -> None:
        """Let the first batch begin; `zero` is the moment (monotonic, s) at which all ranks were ready."""
        self.zero = zero
        self.start()

    def start(self) -> None:
        """Let the next batch begin now."""
        self.began = time.perf_counter()

    def first(self) -> None:
        """Record, before the first stage's first forward, how long after all ranks were ready it came."""
        if self.zero is not None and self.stage == 0:
            self.record.log({"perf/first_micro_batch_s": time.monotonic() - self.zero}, step=1)
        self.zero = None

    @contextmanager
    def work(self, name: str, micro_batch: int) -> Iterator[None]:
        """Record a forward, a backward or an update."""
        self.first()
        with self.record.phase("update" if name == "update" else "compute"), self.span(name, micro_batch):
            began = time.perf_counter()
            yield
            self._finish()
            self.busy_s += time.perf_counter() - began

    @contextmanager
    def transfer(self, name: str, micro_batch: int, peer: str, size: int) -> Iterator[None]:
        """Record a send or a receive of so many bytes; what is exchanged is counted as it is sent."""
        if name == "send":
            self.record.exchanged(size)
        with self.record.phase("communicate"), self.span(name, micro_batch, size, peer):
            yield

    @contextmanager
    def span(self, name: str, micro_batch: int, size: int = 0, peer: str = "") -> Iterator[None]:
        """Record the block's start and end, where this batch is one of those recorded."""
        if self.batch % self.every:
            yield
            return
        with self.record.span(
            name, stage=self.stage, micro_batch=self.batch * self.config.splits + micro_batch, bytes=size, peer=peer
        ):
            yield

    def _finish(self) -> None:
        """Wait for a GPU to have done what it was told, where a span is to end with it."""
        if self.device.type == "cuda" and self.batch % self.every == 0:
            torch.cuda.synchronize(self.device)

    def batch_done(self) -> dict[str, float]:
        """Begin the next batch; return what is recorded of the one that ends."""
        now = time.perf_counter()
        idle = 1 - self.busy_s / max(1e-9, now - self.began)
        self.batch, self.busy_s, self.began = self.batch + 1, 0.0, now
        return {"perf/bubble_share": 100 * max(0.0, idle)}
