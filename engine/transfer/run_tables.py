"""Runs as tables for other programs: a row per run, or a row per point. Torch-free."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from engine.analysis.differences import flattened
from engine.analysis.result import ranked
from engine.analysis.run_values import EXECUTION, STARTUP, metric_names, ways
from engine.analysis.total_work import work_of
from engine.metrics import metric
from engine.store import Reader, Surroundings
from engine.store.curve_records import Series
from engine.store.records import RunRow
from engine.store.schema.config_text import LEFT_OUT
from engine.transfer.tables import Table, headed

COLUMNS = ("run_id", "experiment", "metric", "unit", "rank", "role", "step", "passes", "time_s", "value")
Cells = Mapping[str, Any]
_APART = (EXECUTION, STARTUP, "perf/disturbance")
"""Metrics that are columns of their own."""
_OF_WINDOWS = ("perf/staleness_mean", "perf/staleness_p99")
"""Metrics of which no value is of a whole run, each being of the last gradients only; `perf/staleness` is of all."""


def runs_table(reader: Reader, runs: Sequence[RunRow], about: Mapping[int, Cells] = MappingProxyType({})) -> Table:
    """Return a row per run: what it is, its times, work, disturbance and result, then all settings and all metrics
    but those of a window of gradients.

    Headings have the unit; settings have their names in filters. `about` has further cells of runs, such as the
    strategy in a duel.
    """
    around = reader.studies.surroundings([run.id for run in runs])
    facts = [{**_facts(run, around.get(run.id)), **about.get(run.id, {})} for run in runs]
    settings = [flattened(_settings(reader, run)) for run in runs]
    metrics = [_metrics(run, metric_names(runs)) for run in runs]
    columns, rows = list[str](), [list[Any]() for _ in runs]
    for part in (facts, settings, metrics):  # each apart: a setting may have the name of a fact
        names = dict.fromkeys(name for cells in part for name in cells)
        columns += names
        for row, cells in zip(rows, part, strict=True):
            row += [cells.get(name) for name in names]
    return Table.of(columns, rows)


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
            metric(series.metric).unit,
            series.rank,
            "" if series.rank is None else roles.get(series.rank, ""),
        )
        for point in zip(series.steps, series.passes, series.times_s, series.values, strict=True):
            yield (*where, *point)


def series_of(reader: Reader, run_id: int, metrics: Sequence[str] = ()) -> Iterator[Series]:
    """Yield the series of a run, metric by metric."""
    for name in metrics or sorted({summary.metric for summary in reader.details.summaries(run_id)}):
        yield from reader.curves.series(run_id, [name])


def _facts(run: RunRow, around: Surroundings | None) -> dict[str, Any]:
    work, result = work_of(run, around), ranked(run)
    return {
        "run": run.id,
        "name": run.name,
        "experiment": run.experiment,
        "preset": run.preset,
        "owner": run.owner,
        "status": run.status,
        "cause": run.cause,
        "sweep": run.sweep_id,
        "tags": list(run.tags),
        "cluster": run.target or None,
        "host": around.host if around else None,
        "git_commit": around.commit if around else None,
        "launched": _time(run.created_at),
        "started": _time(run.started_at),
        "ended": _time(run.ended_at),
        "execution_time_s": run.elapsed_s,
        "startup_time_s": run.startup_time_s,
        "work": work and work.amount,
        "work_unit": work and work.unit,
        "passes": work and work.passes,
        "updates": work and work.updates,
        headed("disturbance", "%"): None if run.disturbance is None else 100 * run.disturbance,
        "disturbed": None if run.disturbance is None else run.disturbed,
        "result": result and result.value,
        "result_metric": result and headed(f"{result.result.metric}.{result.result.of}", _unit(result.result.metric)),
    }


def _metrics(run: RunRow, names: Sequence[str]) -> dict[str, Any]:
    """Return every statistic of the metrics, None where the run has none; the number of values that are NaN or infinite
    only where there are any.
    """
    found: dict[str, Any] = {}
    for name in names:
        if name not in (*_APART, *_OF_WINDOWS):
            found |= {headed(f"{name}.{way}", _unit(name)): getattr(run, way).get(name) for way in ways(name)}
    return found | {f"{name}.nonfinite": count for name, count in run.nonfinite.items()}


def _settings(reader: Reader, run: RunRow) -> Mapping[str, Any]:
    """Return all settings; lists leave out those of very large configs."""
    return reader.runs.one(run.id).config if LEFT_OUT in run.config else run.config


def _unit(name: str) -> str:
    return metric(name).unit


def _time(at: str | None) -> datetime | None:
    return datetime.fromisoformat(at) if at else None
