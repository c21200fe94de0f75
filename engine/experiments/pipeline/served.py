"""Mode rpc, a stage's side: what the master's remote calls reach, and how distributed autograd's work in it
is timed.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import Tensor

from engine.errors import RunFailed
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.fault import named
from engine.experiments.pipeline.links import device_maps
from engine.experiments.pipeline.stage import Stage, forget_peak
from engine.experiments.pipeline.staged import log_memory, make_stage
from engine.experiments.pipeline.timing import Timing
from engine.runtime.transport import rpc
from engine.runtime.worker.ranks import Rank

LOOK_S = 0.05
OTHER_CALLS = 4
"""Calls that a stage can take besides those that wait for activations: each of these waits in a thread."""
_served: list["Served"] = []


def serve(rank: Rank, config: PipelineConfig, costs: Tensor, devices: tuple[str, ...], patience_s: float) -> None:
    """Be a stage, until the master says that all is done."""
    stage, _ = make_stage(rank, rank.index - 1, config, costs)
    _served[:] = [Served(rank, stage)]
    with rpc.joined(rank, patience_s, device_maps(config, devices, rank), config.splits + OTHER_CALLS):
        rank.barrier("served")
        forget_peak(rank.device)
        _served[0].timing.ready(rank.ready())
        _served[0].until_done()
        _served.clear()
        rank.barrier("through")
    log_memory(rank, stage)


def place() -> "Served":
    """Return this rank's stage; the master holds a reference to it."""
    return _served[0]


class Served:
    """A stage that is asked by remote calls; they come in several threads and take turns, forwards in the order of
    their micro-batches.
    """

    def __init__(self, rank: Rank, stage: Stage) -> None:
        self.rank = rank
        self.stage = stage
        self.timing = Timing(rank.recorder, stage.config, stage.number, rank.device)
        self.turns = Turns(stage.config.splits)
        self.failure: BaseException | None = None
        self.done = threading.Event()
        self.backwards = Backwards(lambda micro_batch: self._at_work("backward", micro_batch))
        self.books = threading.Lock()
        """Held by who counts busy seconds, or takes them away to report them."""
        self.busy_s = 0.0
        self.since = 0.0
        self.at_work = ""
        """What the stage is in the middle of, since then."""

    def until_done(self) -> None:
        """Wait until the master says so; raise what went wrong in a call."""
        while not self.done.wait(LOOK_S):
            self.check()
            self._report()
        self._report()

    def check(self) -> None:
        """Raise what went wrong in a call, if something did, and where one takes too long."""
        if self.failure is not None:
            raise self.failure
        limit = self.stage.config.timeout_s
        if self.at_work and time.perf_counter() - self.since > limit:
            raise RunFailed(
                f"{self.stage.role} has been in {self.at_work} for {limit:g} s (timeout_s). Raise timeout_s "
                "where it takes that long."
            )

    @contextmanager
    def _at_work(self, what: str, micro_batch: int) -> Iterator[None]:
        """Count the block as work of the stage, and record it as a span."""
        with self.timing.span(what, micro_batch):
            self.timing.first()
            self.since, self.at_work = (
                time.perf_counter(),
                f"the {what} of micro-batch {micro_batch}, batch {self.stage.batch + 1}",
            )
            yield
            self.at_work = ""
            with self.books:
                self.busy_s += (spent := time.perf_counter() - self.since)
                self.timing.busy_s += spent

    def _report(self) -> None:
        with self.books:
            busy, self.busy_s = self.busy_s, 0.0
        self.rank.recorder.spend("compute", busy)

    def parameters(self) -> list[Any]:
        """Return references to the stage's parameters."""
        return [rpc.reference_to(parameter) for parameter in self.stage.net.parameters()]

    def forward(self, inputs: Any, micro_batch: int) -> Tensor:
        """Return the activations of a micro-batch, whose inputs are fetched from where they are."""
        arrived: Tensor = inputs.to_here()
        arrived = arrived.to(self.rank.device)
        stage = self.stage
        with self.turns.of(micro_batch), self._kept(), self._at_work("forward", micro_batch):
            with named(stage.role, "forward", stage.batch, micro_batch), stage.memory.kept(micro_batch):
                outputs: Tensor = stage.net(arrived)
            self._watch_backward(arrived, outputs, micro_batch)
            self._count(arrived, outputs)
        return self._given(outputs)

    def _count(self, arrived: Tensor, outputs: Tensor) -> None:
        """Count what comes in, and of the last stage what goes to the master; what has a gradient gets it back the same
        way.
        """
        sizes = [
            arrived.nbytes * (1 + arrived.requires_grad),
            outputs.nbytes * (1 + outputs.requires_grad) if self.stage.is_last else 0,
        ]
        self.rank.recorder.exchanged(sum(sizes))

    def _watch_backward(self, arrived: Tensor, outputs: Tensor, micro_batch: int) -> None:
        """Record the backward, which distributed autograd carries out: it begins with the outputs' gradient and ends at
        the inputs.
        """
        outputs.register_hook(lambda gradient: self._begin(micro_batch))  # type: ignore[no-untyped-call]
        if arrived.requires_grad:
            arrived.register_hook(lambda gradient: self._end(micro_batch))  # type: ignore[no-untyped-call]
        else:
            _deepest(outputs.grad_fn).register_hook(lambda *gradients: self._end(micro_batch))

    def _begin(self, micro_batch: int) -> None:
        self.backwards.begin(micro_batch)
        with self._kept(), named(self.stage.role, "backward", self.stage.batch, micro_batch):
            self.stage.fault.strike(self.stage.batch, micro_batch, self.stage.weights)

    def _end(self, micro_batch: int) -> None:
        self.backwards.end(micro_batch)
        self.stage.memory.freed(micro_batch)

    def _kept(self) -> "_Kept":
        return _Kept(self)

    def updated(self) -> None:
        """End the batch: the optimizer has taken this stage's step."""
        with self._kept():
            self.stage.check(self.stage.weights)
        self.stage.batch += 1
        self.stage.memory.counting = False
        self.rank.recorder.log(self.timing.batch_done(), step=self.stage.batch)

    def test(self, inputs: Any) -> Tensor:
        """Return the activations of images that are only tested on."""
        arrived: Tensor = inputs.to_here()
        with self.turns.any(), self._kept():
            outputs = self.stage.test(arrived.to(self.rank.device))
            self._count(arrived, outputs)
            return self._given(outputs)

    def _given(self, outputs: Tensor) -> Tensor:
        """Return the outputs where they can travel from: the master has no GPU."""
        return outputs.cpu() if self.stage.is_last else outputs

    def begin(self) -> None:
        """Let the next batch begin now."""
        self.timing.start()

    def end(self) -> None:
        """Let the stage's own thread end."""
        self.done.set()


class Turns:
    """Lets calls go one at a time, whichever thread they come in.

    Those of a batch's micro-batches go in order, since batch-norm's running statistics depend on it.
    """

    def __init__(self, splits: int) -> None:
        self._splits = splits
        self._next = 0
        self._free = threading.Condition()

    @contextmanager
    def of(self, micro_batch: int) -> Iterator[None]:
        """Wait until all micro-batches before this one have had their turn, and take the next."""
        with self._free:
            self._free.wait_for(lambda: self._next == micro_batch)
            try:
                yield
            finally:  # the turn of one that failed is over too
                self._next = (self._next + 1) % self._splits
                self._free.notify_all()

    @contextmanager
    def any(self) -> Iterator[None]:
        """Take a turn between two others."""
        with self._free:
            yield


class Backwards:
    """The backwards under way in a stage; of several the one that began last is the stage's work, so that no moment
    counts twice.

    Distributed autograd may leave one for another within a thread, and has two threads carry out two at a time.
    """

    def __init__(self, work: Callable[[int], AbstractContextManager[None]]) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._open: list[int] = []
        self._now: AbstractContextManager[None] | None = None

    def begin(self, micro_batch: int) -> None:
        """Have the backward of this micro-batch be the work."""
        with self._turn:
            self._leave()
            self._open.append(micro_batch)
            self._enter()

    def end(self, micro_batch: int) -> None:
        """Have it no longer be under way; where it was the work, the one that began last before it is again."""
        with self._turn:
            if self._open[-1] != micro_batch:
                self._open.remove(micro_batch)
                return
            self._leave()
            self._open.pop()
            self._enter()

    def _enter(self) -> None:
        if self._open:
            self._now = self._work(self._open[-1])
            self._now.__enter__()

    def _leave(self) -> None:
        if self._now:
            now, self._now = self._now, None
            now.__exit__(None, None, None)


class _Kept:
    """Keeps what goes wrong in the block for the stage's own thread, which names it better than what the
    master hears.
    """

    def __init__(self, served: Served) -> None:
        self._served = served

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._served.failure = self._served.failure or error


def _deepest(node: Any) -> Any:
    """Return the node that autograd comes to last: that of the layer which the images went into, made before all
    others.
    """
    found, ways = node, [node]
    seen = {node}
    while ways:
        for inner, _ in ways.pop().next_functions:
            if inner is not None and inner.next_functions and inner not in seen:
                seen.add(inner)
                ways.append(inner)
                found = min(found, inner, key=lambda each: each._sequence_nr())
    return found
