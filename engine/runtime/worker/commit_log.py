"""A log of committed writes, one line after each transaction, to test that a crash loses none.

Off unless `PARALLAB_COMMITS` names a file.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.recorder import Point
from engine.runtime.worker.sink import Sink
from engine.store import Reader
from engine.store.curve_records import MachineSample
from engine.store.records import RankBatch, RankRow
from engine.system.network_isolation import Network
from engine.trace.health import Health
from engine.trace.layout import TraceWindow

VARIABLE = "PARALLAB_COMMITS"
Curve = tuple[str, int | None]
"""A metric and the rank that recorded it."""


@dataclass(frozen=True)
class Committed:
    """The last committed state of one curve."""

    count: int
    step: int
    value: str
    """The value as text, in which NaN equals NaN."""


class CommitLog:
    """A sink that forwards everything to another one and logs each write that returned."""

    def __init__(self, sink: Sink, run_id: int, path: Path) -> None:
        self._sink = sink
        self._run_id = run_id
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._counts: dict[Curve, int] = {}

    def ranks(self, rows: Sequence[RankRow]) -> None:
        self._sink.ranks(rows)

    def network(self, network: Network) -> None:
        self._sink.network(network)

    def running(self, startup_time_s: float) -> None:
        self._sink.running(startup_time_s)

    def other_programs(self, programs: Sequence[tuple[str, float]]) -> None:
        self._sink.other_programs(programs)

    def trace_requests(self) -> list[float]:
        return self._sink.trace_requests()

    def standstill(self, kind: str, sentence: str) -> None:
        self._sink.standstill(kind, sentence)

    def health(self, health: Health) -> None:
        self._sink.health(health)

    def event(self, kind: str, detail: str) -> None:
        self._sink.event(kind, detail)

    def sync(self) -> None:
        self._sink.sync()

    def write(
        self,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point],
        progress: tuple[int, int, str],
        samples: Sequence[MachineSample],
        windows: Sequence[TraceWindow],
    ) -> None:
        self._sink.write(batches, run_points, progress, samples, windows)
        told: dict[Curve, tuple[int, float]] = {}
        for rank, points in [*((batch.rank, batch.points) for batch in batches), (None, run_points)]:
            for point in points:
                curve = (point.name, rank)
                self._counts[curve] = self._counts.get(curve, 0) + 1
                told[curve] = (point.step, point.value)
        lines = (
            [self._run_id, *curve, self._counts[curve], step, repr(float(value))]
            for curve, (step, value) in told.items()
        )
        os.write(self._file, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def committed(path: Path) -> dict[int, dict[Curve, Committed]]:
    """Return the last committed position of each curve of each run; a truncated last line is skipped."""
    found: dict[int, dict[Curve, Committed]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            run_id, metric, rank, count, step, value = json.loads(line)
        except ValueError:
            continue
        found.setdefault(run_id, {})[metric, rank] = Committed(count, step, value)
    return found


def lost(reader: Reader, run_id: int, curves: dict[Curve, Committed]) -> list[str]:
    """Return the committed points of a run that are missing from its store, in words."""
    stored = {
        (one.metric, one.rank): one for one in reader.curves.series(run_id, sorted({metric for metric, _ in curves}))
    }
    missing = []
    for (metric, rank), known in curves.items():
        one = stored.get((metric, rank))
        kept = one is not None and len(one.ids) >= known.count
        if (
            not kept
            or one is None
            or (one.steps[known.count - 1], _text(one.values[known.count - 1])) != (known.step, known.value)
        ):
            missing.append(f"run {run_id}: {metric} of rank {rank} at point {known.count:,}")
    return missing


def points(curves: Iterable[Committed]) -> int:
    """Return the number of committed points."""
    return sum(curve.count for curve in curves)


def _text(value: float) -> str:
    return "nan" if math.isnan(value) else repr(value)
