"""Staleness tables as plain values, for files and reports."""

from collections.abc import Mapping, Sequence

from app.scaling.tables import LINE, intervals, named, of_lines
from engine.analysis.scaling.staleness import Stale, StalenessPoint
from engine.analysis.statistics.groups import Counts, mean, percentile
from engine.transfer.tables import Table


def sizes_frame(by_line: Mapping[str, Sequence[StalenessPoint]], result: str) -> Table:
    """Return a row for each line and number of trainers; low and high are the bounds of the 95 % interval, `result` is
    a metric.
    """
    columns = (
        LINE,
        "trainers",
        "runs",
        "expected",
        *named("mean_staleness"),
        "p99",
        "highest",
        *(named(result) if result else ()),
    )
    rows = [
        (
            *(name, size.trainers, size.runs, size.expected),
            *(*intervals(size.mean), size.p99, size.highest),
            *(intervals(size.result) if result else ()),
        )
        for name, own in by_line.items()
        for size in own
    ]
    return of_lines(columns, rows)


def runs_frame(lines: Mapping[str, Sequence[Stale]], counts: Mapping[int, Mapping[str, Counts]], result: str) -> Table:
    """Return a row for each run and trainer, by the trainer's `counts`."""
    columns = (
        LINE,
        "run",
        "trainers",
        "trainer",
        "gradients",
        "mean_staleness",
        "p99",
        "highest",
        *([result] if result else []),
    )
    rows = [
        (
            name,
            run.run_id,
            run.trainers,
            role,
            sum(own.values()),
            mean(own),
            percentile(own, 99),
            max(own),
            *([run.result] if result else []),
        )
        for name, runs in lines.items()
        for run in runs
        for role, own in counts[run.run_id].items()
        if own
    ]
    return of_lines(columns, rows)
