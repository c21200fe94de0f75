"""All points of runs as rows, for export and the run page."""

from collections.abc import Iterator, Sequence
from typing import Any

from engine.store import Reader
from engine.store.curve_records import Series
from engine.transfer.tables import Table

COLUMNS = ("run_id", "experiment", "metric", "rank", "role", "step", "passes", "time_s", "value")


def points_table(reader: Reader, run_ids: Sequence[int], metrics: Sequence[str] = ()) -> Table:
    """Return all points of runs, for the given metrics (default: all)."""
    return Table(COLUMNS, [row for run_id in run_ids for row in point_rows(reader, run_id, metrics)])


def point_rows(reader: Reader, run_id: int, metrics: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the points of a run; points of the whole run have no rank and an empty role."""
    experiment = reader.runs.one(run_id).experiment
    roles = {rank.rank: rank.role for rank in reader.details.ranks(run_id)}
    for series in series_of(reader, run_id, metrics):
        where = (
            run_id,
            experiment,
            series.metric,
            series.rank,
            "" if series.rank is None else roles.get(series.rank, ""),
        )
        for point in zip(series.steps, series.passes, series.times_s, series.values, strict=True):
            yield (*where, *point)


def series_of(reader: Reader, run_id: int, metrics: Sequence[str] = ()) -> Iterator[Series]:
    """Yield the series of a run, metric by metric."""
    for name in metrics or sorted({summary.metric for summary in reader.details.summaries(run_id)}):
        yield from reader.curves.series(run_id, [name])
