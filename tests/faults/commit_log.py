"""A log of committed writes, one line after each transaction of a worker: a crash must lose none of them."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.home import ROOT
from engine.recorder import Point
from engine.store import Reader
from engine.store.records import RankBatch
from engine.store.worker_writes import WorkerCommands

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


def environment(path: Path) -> dict[str, str]:
    """Return the environment of a runner whose workers log to a file."""
    return {VARIABLE: str(path), "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "hooks"), str(ROOT)])}


def follow() -> None:
    """Make this process log each write to a store that returned."""
    write = WorkerCommands.write
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    counts: dict[Curve, int] = {}

    def followed(
        commands: WorkerCommands,
        run_id: int,
        batches: Sequence[RankBatch],
        run_points: Sequence[Point] = (),
        *more: Any,
    ) -> None:
        write(commands, run_id, batches, run_points, *more)
        told: dict[Curve, tuple[int, float]] = {}
        for rank, points in [*((batch.rank, batch.points) for batch in batches), (None, run_points)]:
            for point in points:
                curve = (point.name, rank)
                counts[curve] = counts.get(curve, 0) + 1
                told[curve] = (point.step, point.value)
        lines = ([run_id, *curve, counts[curve], step, repr(float(value))] for curve, (step, value) in told.items())
        os.write(file, "".join(f"{json.dumps(line)}\n" for line in lines).encode())

    WorkerCommands.write = followed  # type: ignore[method-assign]


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
