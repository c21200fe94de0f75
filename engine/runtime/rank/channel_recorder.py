"""The recorder of a real rank: points wait in a bounded buffer, and a separate thread sends them to the worker.

The training step only appends to a deque; if the buffer is full, a point is counted as dropped and the step doesn't
wait.
"""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.runtime.rank.rank import Saved
from engine.system.run_files import moment
from engine.trace.ring import TraceWriter

CAPACITY = 200_000
FLUSH_S = 0.2
EAGER_FLUSH_S = 0.05
EXCHANGED_S = 0.5
"""Seconds between points of exchanged data."""
EXCHANGED, MB = "perf/exchanged", 1e6
EAGER_S = 1.5
"""Seconds after the start during which points are sent at the eager interval, so that the first ones appear soon."""

LEARNING = ("train/", "test/", "charts/")
"""Begins of the metrics in a rank's log; a rank that recorded none of them gives all others."""

Fields = tuple[str, int, float, float, float | None]
"""The fields of a `Point`, which the worker makes of them: a plain tuple is made and pickled at a tenth of the cost."""


class RoundEnd(NamedTuple):
    """A place between the points of a rank where its log gets a line."""

    what: str
    step: int | None
    time_s: float
    at: float


@dataclass
class Flush:
    """Content of each message, sent every `FLUSH_S`: new points and histogram counts, and totals of everything else."""

    points: list[Fields] = field(default_factory=list)
    histograms: dict[tuple[str, int], int] = field(default_factory=dict)
    progress: tuple[int, int, str] = (0, 0, "samples")
    progress_at: float = 0.0
    last_step: int | None = None
    """A step whose points, and those of all steps before, are in this message or in earlier ones."""
    dropped: int = 0


class ChannelRecorder:
    """A `Recorder` that passes its records to `send`, from a separate thread, every `FLUSH_S`.

    The thread also writes the stacks when the worker asks for them.
    """

    def __init__(
        self,
        send: Callable[[Flush], None],
        capacity: int = CAPACITY,
        trace: TraceWriter | None = None,
        write_stacks: Callable[[], None] = lambda: None,
        is_read: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_read` says whether somebody reads the newest points; they are then sent at the eager interval."""
        self.trace = trace or TraceWriter()
        self.phase, self.spend = self.trace.phase, self.trace.spend
        self.operation, self.note = self.trace.operation, self.trace.note
        self._started = False
        self._send = send
        self._write_stacks = write_stacks
        self._is_read = is_read
        self._asked = self.trace.asked
        self._capacity = capacity
        self._points: deque[Fields | RoundEnd] = deque()
        self._means: dict[str, list[float]] = {}
        """Since the last summary, by metric: sum and number of values."""
        self._histograms: dict[str, Counter[int]] = defaultdict(Counter)
        self._histogram_lock = threading.Lock()
        self._flushing = threading.Lock()
        self._dropped = 0
        self._last_step: int | None = None
        self._exchanged = self._exchanged_told = 0
        self._exchanged_at = 0.0
        self._progress = (0, 0, "samples")
        self._progress_at = 0.0
        self._zero = time.monotonic()
        self._before_s = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._flush_until_closed, name="recorder", daemon=True)
        self._thread.start()

    def start(self, zero: float, before_s: float = 0.0) -> None:
        """Start counting: `zero` is the time (monotonic, s) at which all ranks were ready; anything earlier is set-up.

        Points of a resumed run count time from `before_s`, the training time of the run it resumes.
        """
        self._zero = zero
        self._before_s = before_s
        self.trace.clear_sums()
        self._started = True

    def log(self, values: Mapping[str, float], *, step: int, passes: float | None = None) -> None:
        now = time.monotonic() - self._zero + self._before_s
        self.trace.log_step(step)
        points = self._points
        if len(points) + len(values) > self._capacity:
            self._dropped += len(values)
        else:
            for name, value in values.items():
                points.append((name, step, float(value), now, passes))
        self._last_step = step

    def histogram(self, name: str, bucket: int, count: int = 1) -> None:
        with self._histogram_lock:
            self._histograms[name][bucket] += count

    def exchanged(self, size: int) -> None:
        self._exchanged += size

    def progress(self, done: int, total: int, unit: str = "samples") -> None:
        self._progress = (done, total, unit)
        self._progress_at = time.monotonic()

    def summarize(self, what: str, number: int | None = None, total: int | None = None) -> None:
        if number is not None:
            what += f" {number:,}" + (f" of {total:,}" if total else "")
        time_s = time.monotonic() - self._zero + self._before_s
        self._points.append(RoundEnd(what, self._last_step, time_s, time.time()))

    def close(self, at: float | None = None) -> None:
        """Add the phase `other` (the rest of the execution time, which ended `at` or ends now) and send the rest;
        `serve` is other threads' time.
        """
        if self._started:
            elapsed, sums = (time.monotonic() if at is None else at) - self._zero, self.trace.sums()
            self.trace.spend("other", max(0.0, elapsed - sum(sums.values()) + sums.get("serve", 0.0)))
        self._closing.set()
        self._thread.join()
        self._tell_exchanged()
        self.flush()

    def flush(self) -> None:
        with self._flushing:
            self._flush()

    def _flush_until_closed(self) -> None:
        while not self._closing.wait(self._pause_s()):
            if self._asked != self.trace.asked:
                self._asked = self.trace.asked
                self._write_stacks()
            if time.monotonic() - self._exchanged_at >= EXCHANGED_S:
                self._tell_exchanged()
            try:
                self.flush()
            except OSError:  # the worker has exited; this rank will be stopped
                return

    def _pause_s(self) -> float:
        is_eager = time.monotonic() - self._zero < EAGER_S or self._is_read()
        return EAGER_FLUSH_S if is_eager else FLUSH_S

    def _tell_exchanged(self) -> None:
        """Record the data exchanged so far, if it has changed."""
        if self._exchanged != self._exchanged_told:
            self._exchanged_told, self._exchanged_at = self._exchanged, time.monotonic()
            time_s = self._exchanged_at - self._zero + self._before_s
            self._points.append((EXCHANGED, self._last_step or 0, self._exchanged_told / MB, time_s, None))

    def _flush(self) -> None:
        points, last_step = self._points, self._last_step  # the step first: all of its points are sent with it
        with self._histogram_lock:
            counts = {
                (name, bucket): count for name, buckets in self._histograms.items() for bucket, count in buckets.items()
            }
            self._histograms.clear()
        self._send(
            Flush(
                points=self._without_ends([points.popleft() for _ in range(len(points))]),
                histograms=counts,
                progress=self._progress,
                progress_at=self._progress_at,
                last_step=last_step,
                dropped=self._dropped,
            )
        )

    def _without_ends(self, records: list[Fields | RoundEnd]) -> list[Fields]:
        """Return the points, and write each summary to the log with the means of the points before it."""
        points: list[Fields] = []
        for record in records:
            if isinstance(record, RoundEnd):
                with suppress(OSError):  # a full disk must not stop the measurements
                    print(f"{self._line(record)}\n", end="", flush=True)  # one write
                self._means.clear()
            else:
                points.append(record)
                mean = self._means.setdefault(record[0], [0.0, 0.0])
                mean[0] += record[2]
                mean[1] += 1
        return points

    def _line(self, end: RoundEnd) -> str:
        where = [end.what, *([] if end.step is None else [f"step {end.step:,}"]), f"{end.time_s:.1f} s"]
        learning = {name for name in self._means if name.startswith(LEARNING)}
        means = [
            f"{name} {total / count:.4g}"
            for name, (total, count) in sorted(self._means.items())
            if name in learning or not learning
        ]
        return f"{moment(end.at)} INFO {', '.join(where)}" + (f": {', '.join(means)}" if means else "")


# ---- Messages between a rank and its worker ------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """A rank's first message: its identity and environment."""

    pid: int
    preloaded: bool


@dataclass(frozen=True)
class Meeting:
    """A rank waits at a barrier."""

    name: str


@dataclass(frozen=True)
class Said:
    """A rank's entry for the run's events."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Done:
    """A rank's function returned, at this time (monotonic clock)."""

    at: float


@dataclass(frozen=True)
class Failed:
    """A rank's function raised."""

    sentence: str
    traceback: str
    at: float
    echo: bool = False
    """Whether it only lost another rank, whose end is the cause."""


@dataclass(frozen=True)
class Go:
    """The worker's answer at a barrier: all ranks have arrived; `at` is the same time for all."""

    name: str
    at: float


Message = Hello | Flush | Meeting | Said | Saved | Done | Failed
