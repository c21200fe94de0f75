"""The tables of the scaling views as plain values, with whole numbers and intervals in separate columns, for files and
reports.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from engine.analysis.run_values import field_in_words, lower_title
from engine.analysis.scaling.laws import SCALABILITY, Fit, best_count
from engine.analysis.scaling.scaling_data import SERVE, SHARES, PhaseBar, Study, axis_of, differing, study
from engine.analysis.scaling.speedup import SpeedupPoint
from engine.analysis.scaling.targets import TargetReached
from engine.analysis.statistics.intervals import Interval
from engine.store import Reader, Sweep
from engine.store.records import RunRow
from engine.transfer.tables import Table

LINE = "line"


def sizes_table(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]]) -> Table:
    """Return a row for each line and size; low and high are the bounds of the 95 % interval."""
    unit = found.unit or "runs"
    columns = (
        LINE,
        found.field,
        "runs",
        *named("time_s", f"{unit}_per_second", "speed_up", "efficiency"),
        "oversubscribed",
    )
    rows = [
        (
            title,
            size.count,
            size.runs,
            *intervals(size.time_s, size.per_second, size.speed_up, size.efficiency),
            size.crowded,
        )
        for title, sizes in lines.items()
        for size in sizes
    ]
    return of_lines(columns, rows)


def laws_table(laws: Mapping[str, Sequence[Fit]]) -> Table:
    """Return a row for each parameter of each fitted law; the best count is empty if none was found."""
    columns = (LINE, "law", "parameter", "value", "low", "high", "best_count", "relative_error")
    return of_lines(columns, [row for title, fits in laws.items() for known in fits for row in _of_law(title, known)])


def _of_law(title: str, known: Fit) -> Iterator[tuple[Any, ...]]:
    best = best_count(known) if known.law is SCALABILITY else None
    for each in known.parameters:
        yield (
            title,
            known.law.name,
            each.name,
            each.value,
            each.low,
            each.high,
            best if best is not None and isfinite(best) else None,
            known.error,
        )


def targets_table(found: Study, reached: Sequence[TargetReached], unit: str) -> Table:
    """Return a row for each line and size with its time to a target; `unit` is what is counted: an update, or
    a step.
    """
    columns = (LINE, found.field, "reached", "runs", *named(f"{unit}s", f"seconds_of_{unit}", "time_s"))
    rows = [
        (
            line_title(found, each.line),
            each.count,
            each.reached,
            each.runs,
            *intervals(each.updates, each.update_s, each.time_s),
        )
        for each in reached
    ]
    return of_lines(columns, rows)


def time_table(found: Study, drawn: Sequence[PhaseBar]) -> Table:
    """Return a row for each bar: seconds, fractions of them, and the time of handler threads."""
    columns = (LINE, found.field, "rank", "seconds", *SHARES, "served_s")
    rows = [
        (
            line_title(found, bar.line),
            bar.count,
            bar.rank,
            bar.whole_s,
            *(bar.share(*phases) for phases in SHARES.values()),
            bar.seconds.get(SERVE),
        )
        for bar in drawn
    ]
    return of_lines(columns, rows)


def of_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return the table, without the column of lines if there is a single unnamed line."""
    first = 0 if any(row[0] for row in rows) else 1
    return Table.of(columns[first:], [row[first:] for row in rows])


def named(*names: str) -> Iterator[str]:
    """Yield the columns of intervals: mean, bounds, and method (range: minimum and maximum)."""
    for name in names:
        yield from (name, f"{name} low", f"{name} high", f"{name} interval")


def intervals(*found: Interval | None) -> Iterator[float | str | None]:
    """Yield the cells of intervals; empty without a value."""
    for each in found:
        yield from (each.mean, each.low, each.high, each.method) if each else (None,) * 4


# ---- Studies of runs by count, for a sweep or for selected runs ----------------------------------------------------

MOST_RUNS = 500


def of_sweep(sweep: Sweep, runs: Sequence[RunRow], reader: Reader, *, with_disturbed: bool = False) -> Study | str:
    """Return the study of a sweep by the count that it varies, or an explanation if there is none."""
    if sweep.draw and len(sweep.fields) > 1:
        return (
            "Scaling needs a grid over one count; this sweep draws several settings at random. Launch a grid over a "
            "number of ranks or splits."
        )
    field = axis_of(sweep.fields)
    if field is None:
        varied = " and ".join(map(lower_title, sweep.fields))
        return (
            f"Scaling needs a sweep over a number of ranks or splits; this one varies {varied}. "
            "Launch a sweep over such a count."
        )
    return study(
        runs,
        reader.studies.surroundings([run.id for run in runs]),
        field,
        [name for name in sweep.fields if name != field],
        with_disturbed=with_disturbed,
        statistic="mean" if sweep.timing is None else "median",
    )


def of_runs(
    runs: Sequence[RunRow],
    reader: Reader,
    field: str | None = None,
    line: str | None = None,
    *,
    with_disturbed: bool = False,
) -> Study | str:
    """Return the study of some runs by a count in which they differ (default: the first), or an explanation if there is
    none.
    """
    field = field or axis_of(differing(runs))
    if field is None:
        return "Scaling needs runs that differ in a number of ranks or splits; these don't. Select other runs."
    around = reader.studies.surroundings([run.id for run in runs])
    return study(runs, around, field, [line] if line else [], with_disturbed=with_disturbed)


def line_title(found: Study, line: Sequence[object]) -> str:
    """Return the name of a line: `batched`, or `lock true`; empty if there is only one line."""
    return ", ".join(map(field_in_words, found.lines, line))
