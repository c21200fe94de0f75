"""Mode rpc, stage side: the methods that the master calls, and the timing of distributed autograd's backward."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from engine.data.tensors import finish
from engine.errors import RunFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.monitor import StageClock, StageMonitor, log_memory, reset_peak_memory
from engine.experiments.pipeline.partition import Stage, device_maps, make_stage
from engine.runtime.transport import rpc
from engine.runtime.worker.ranks import Rank

LOOK_S = 0.05
MASTER = 0
"""The master's rank."""
OTHER_CALLS = 4
"""Threads for calls other than forwards; each forward waits for its activations in its own thread."""
_service: list["StageService"] = []


def serve_stage(rank: Rank, config: PipelineConfig, costs: Tensor, devices: tuple[str, ...], patience_s: float) -> None:
    """Serve one stage until the master ends the run."""
    stage = make_stage(rank, rank.index - 1, config, costs)
    service = StageService(rank, stage)
    _service[:] = [service]
    with rpc.joined(rank, patience_s, device_maps(config, devices, rank), config.splits + OTHER_CALLS):
        rank.barrier("served")
        reset_peak_memory(rank.device)
        service.clock.ready(rank.ready())
        service.until_done()
        _service.clear()
        rank.barrier("through")
    log_memory(rank, service.monitor)


def local_stage() -> "StageService":
    """Return this rank's stage; the master holds a reference to it."""
    return _service[0]


class StageService:
    """A stage that the master calls from several threads; calls take turns, forwards in the order of their
    micro-batches.
    """

    def __init__(self, rank: Rank, stage: Stage) -> None:
        self.rank = rank
        self.stage = stage
        self.monitor = StageMonitor(stage)
        self.clock = StageClock(rank.recorder, stage.config, stage.number, rank.device)
        self.turns = ForwardTurns(stage.config.splits)
        self.failure: BaseException | None = None
        self.done = threading.Event()
        self.backwards = OpenBackwards(lambda micro_batch: self._work("backward", micro_batch))
        self.busy_lock = threading.Lock()
        """Guards all counts of busy seconds."""
        self.busy_s = {"compute": 0.0, "evaluate": 0.0}
        """Seconds of the calls by phase since the last report."""
        self.since = 0.0
        self.current_work = ""
        """The current work and its start; empty when idle."""

    def __getstate__(self) -> dict[str, object]:
        """Return nothing: on GPUs torch pickles what a remote reference names, to find its tensors and wait for their
        streams, but every call here waits itself, and a recorder can't be pickled.
        """
        return {}

    def until_done(self) -> None:
        """Wait until the master ends the run; raise the failure of a call."""
        while not self._is_done():
            self.check()
            self._report()
        self._report()

    def _is_done(self) -> bool:
        with self.rank.recorder.phase("wait", "calls", peer=MASTER):
            return self.done.wait(LOOK_S)

    def check(self) -> None:
        """Raise the failure of a call; raise RunFailed if one takes longer than timeout_s."""
        if self.failure is not None:
            raise self.failure
        limit = self.stage.config.timeout_s
        if self.current_work and time.perf_counter() - self.since > limit:
            raise RunFailed(
                f"{self.stage.role} has been in {self.current_work} for {limit:g} s (timeout_s). "
                "Raise timeout_s if it takes that long."
            )

    @contextmanager
    def _work(self, what: str, micro_batch: int) -> Iterator[None]:
        """Count the block as work of the stage, and record it as a span."""
        with self.clock.operation(what, micro_batch):
            self.clock.first()
            self.since, self.current_work = (
                time.perf_counter(),
                f"the {what} of micro-batch {micro_batch}, batch {self.stage.batch + 1}",
            )
            yield
            finish(self.rank.device)  # the next call has another stream, which waits for nothing
            self.current_work = ""
            with self.busy_lock:
                self.busy_s["compute"] += (spent := time.perf_counter() - self.since)
                self.clock.busy_s += spent

    def _report(self) -> None:
        """Count what the calls have done since the last time as their phase, not as waiting: the main thread waits for
        the next call all the while, and the stage only where no call works.
        """
        with self.busy_lock:
            busy, self.busy_s = self.busy_s, dict.fromkeys(self.busy_s, 0.0)
        for phase, seconds in busy.items():
            self.rank.recorder.spend(phase, seconds)
        self.rank.recorder.spend("wait", -sum(busy.values()))

    def parameters(self) -> list[Any]:
        """Return references to the stage's parameters."""
        return [rpc.reference_to(parameter) for parameter in self.stage.net.parameters()]

    def forward(self, inputs: Any, micro_batch: int) -> Tensor:
        """Return the activations of a micro-batch; `inputs` is a remote reference to the input."""
        arrived: Tensor = inputs.to_here()
        arrived = arrived.to(self.rank.device)
        stage = self.stage
        with self.turns.of(micro_batch), self._keep_failure(), self._work("forward", micro_batch):
            with self.monitor.watch("forward", micro_batch):
                outputs: Tensor = stage.net(arrived)
            self._watch_backward(arrived, outputs, micro_batch)
            self._record_bytes(arrived, outputs)
        return self._to_send(outputs)

    def _record_bytes(self, arrived: Tensor, outputs: Tensor) -> None:
        """Record bytes: inputs, outputs that the last stage returns to the master, and the gradients of both."""
        sizes = [
            arrived.nbytes * (1 + arrived.requires_grad),
            outputs.nbytes * (1 + outputs.requires_grad) if self.stage.is_last else 0,
        ]
        self.rank.recorder.exchanged(sum(sizes))

    def _watch_backward(self, arrived: Tensor, outputs: Tensor, micro_batch: int) -> None:
        """Record the backward, run by distributed autograd: it begins with the outputs' gradient and ends at the
        inputs.
        """
        outputs.register_hook(lambda gradient: self._begin_backward(micro_batch))  # type: ignore[no-untyped-call]
        if arrived.requires_grad:
            arrived.register_hook(lambda gradient: self._end_backward(micro_batch))  # type: ignore[no-untyped-call]
        else:
            deepest_node(outputs.grad_fn).register_hook(lambda *gradients: self._end_backward(micro_batch))

    def _begin_backward(self, micro_batch: int) -> None:
        self.backwards.begin(micro_batch)
        with self._keep_failure():
            self.monitor.inject_fault(micro_batch)

    def _end_backward(self, micro_batch: int) -> None:
        self.backwards.end(micro_batch)
        self.monitor.memory.freed((micro_batch, 0))

    @contextmanager
    def _keep_failure(self) -> Iterator[None]:
        """Keep the block's exception for the stage's own thread: the master would receive it without its type."""
        try:
            yield
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def end_batch(self) -> None:
        """End the batch after the optimizer's step on this stage."""
        if self.rank.device.type == "cuda":
            torch.cuda.synchronize(self.rank.device)  # the step was another call's, on a stream of its own
        with self._keep_failure():
            self.monitor.check(self.stage.weights)
        self.stage.batch += 1
        self.rank.recorder.log(self.clock.batch_done(), step=self.stage.batch)
        self.rank.recorder.summarize("batch", self.stage.batch, self.stage.config.batches)

    def test(self, inputs: Any) -> Tensor:
        """Return the activations of test images."""
        arrived: Tensor = inputs.to_here()
        with self.turns.any(), self._keep_failure():
            began = time.perf_counter()
            outputs = self.stage.test(arrived.to(self.rank.device))
            finish(self.rank.device)
            with self.busy_lock:
                self.busy_s["evaluate"] += time.perf_counter() - began
            self._record_bytes(arrived, outputs)
            return self._to_send(outputs)

    def _to_send(self, outputs: Tensor) -> Tensor:
        """Return the outputs on a device that the receiver has: the master has no GPU."""
        return outputs.cpu() if self.stage.is_last else outputs

    def start_clock(self) -> None:
        """Start the next batch."""
        self.clock.start()

    def end(self) -> None:
        """End the run of this stage."""
        self.done.set()


# ------------------------------------------------------------------------------------------------------------------
# Ordering in a stage that is called from several threads: forwards take turns, overlapping backwards count once.


class ForwardTurns:
    """Serializes calls from any thread.

    Those of a batch's micro-batches run in order, because batch-norm's running statistics depend on it.
    """

    def __init__(self, splits: int) -> None:
        self._splits = splits
        self._next = 0
        self._free = threading.Condition()

    @contextmanager
    def of(self, micro_batch: int) -> Iterator[None]:
        """Wait for the turns of all earlier micro-batches, then take the next."""
        with self._free:
            self._free.wait_for(lambda: self._next == micro_batch)
            try:
                yield
            finally:  # a failed call ends its turn too
                self._next = (self._next + 1) % self._splits
                self._free.notify_all()

    @contextmanager
    def any(self) -> Iterator[None]:
        """Take a turn between two others."""
        with self._free:
            yield


class OpenBackwards:
    """The active backwards of a stage; only the one that began last counts as work, so that no time counts twice.

    Distributed autograd may switch between them within a thread, and runs up to two at a time in two threads.
    """

    def __init__(self, work: Callable[[int], AbstractContextManager[None]]) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._open: list[int] = []
        self._counted = ExitStack()
        """The work of the counted one."""

    def begin(self, micro_batch: int) -> None:
        """Make the backward of this micro-batch the counted one."""
        with self._turn:
            self._counted.close()
            self._open.append(micro_batch)
            self._counted.enter_context(self._work(micro_batch))

    def end(self, micro_batch: int) -> None:
        """End this backward; if it was the counted one, the active one that began last is counted again."""
        with self._turn:
            if self._open[-1] != micro_batch:
                self._open.remove(micro_batch)
                return
            self._counted.close()
            self._open.pop()
            if self._open:
                self._counted.enter_context(self._work(self._open[-1]))


def deepest_node(node: Any) -> Any:
    """Return the node that autograd reaches last: the first layer's, created before all others."""
    found, ways = node, [node]
    seen = {node}
    while ways:
        for inner, _ in ways.pop().next_functions:
            if inner is not None and inner.next_functions and inner not in seen:
                seen.add(inner)
                ways.append(inner)
                found = min(found, inner, key=lambda each: each._sequence_nr())
    return found
