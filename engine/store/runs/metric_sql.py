"""A metric's single number of a run, from the summary rows only: the whole run's if recorded, otherwise over its
ranks.
"""

import json
from typing import Any

from engine.filter.tree import Field, Of, SortOrder
from engine.launch_options import HERE
from engine.metrics import is_rate, metric

OF: dict[str, str] = {
    "last": "coalesce(max(last) FILTER (WHERE rank IS NULL), avg(last))",
    "min": "coalesce(max(low) FILTER (WHERE rank IS NULL), min(low))",
    "max": "coalesce(max(high) FILTER (WHERE rank IS NULL), max(high))",
    "mean": "coalesce(max(mean) FILTER (WHERE rank IS NULL), sum(mean * count) / sum(count))",
    "count": "coalesce(max(count) FILTER (WHERE rank IS NULL), sum(count))",
}
"""Aggregates over the summary rows of one metric of one run: mean over ranks (last, and mean weighted by count),
extreme (min, max), or sum (count).
"""

ELAPSED = (
    "coalesce(runs.execution_time_s, runs.time_before_s + "
    "86400 * (julianday(coalesce(runs.ended_at, 'now')) - julianday(runs.started_at)))"
)
"""`RunRow.elapsed_s` as SQL."""
_RATE = (
    "(SELECT progress.done / nullif(runs.execution_time_s, 0) FROM progress WHERE progress.run_id = runs.id AND "
    "progress.done > 0 AND 'perf/' || replace(progress.unit, ' ', '_') || '_per_second' = ?)"
)
"""`engine.metrics.throughput` as SQL."""

_RUNS = {
    "id": "runs.id",
    "sweep": "runs.sweep_id",
    "resumes": "runs.parent_id",
    "duration": ELAPSED,
    "startup": "runs.startup_time_s",
    "cores": "runs.cores",
    "gpus": "runs.gpus",
    "ranks": "runs.ranks",
    "target": f"iif(runs.target = '', '{HERE}', runs.target)",
    "seeding": "runs.seeding",
    "created": "runs.created_at",
    "started": "runs.started_at",
    "ended": "runs.ended_at",
    "starred": "runs.starred_by IS NOT NULL",
    "pinned": "runs.pinned_by IS NOT NULL",
    "archived": "runs.archived_by IS NOT NULL",
    **{name: f"coalesce(runs.{name}, '')" for name in ("experiment", "preset", "name", "owner", "status", "cause")},
    "note": "coalesce((SELECT text FROM notes WHERE notes.run_id = runs.id), '')",
}
"""Columns of every run, by their names in the filter language."""

Sql = tuple[str, list[Any]]


def number_of(field: Field) -> Sql:
    """Return the field of a run as an expression over `runs`, NULL if it is missing or not a number."""
    if field.source == "run":
        return _RUNS[field.name], []
    if field.source == "config":
        kind, value, at = setting(field)
        return f"CASE WHEN {kind} IN ('integer', 'real') THEN {value} END", [at, at]
    recorded = f"(SELECT {OF[side(field.name, field.of)]} FROM metrics WHERE metrics.run_id = runs.id AND name = ?)"
    if not is_rate(field.name) or field.of == "count":
        return recorded, [field.name]
    return f"iif({recorded} IS NULL, NULL, coalesce({_RATE}, {recorded}))", [field.name] * 3


def order_of(order: SortOrder | None) -> Sql:
    """Return the ORDER BY terms: newest first by default and for equal values."""
    if order is None:
        return "runs.id DESC", []
    sql, values = sorted_by(order.field)
    return f"{sql} {'DESC' if order.descending else 'ASC'} NULLS LAST, runs.id DESC", values


def sorted_by(field: Field) -> Sql:
    """Return the sort expression of runs: like `number_of`, but a setting of any type, and names by `sort_key`."""
    if field.source == "run" and field.name in ("owner", "name"):
        return f"sort_key({_RUNS[field.name]})", []
    if field.source != "config":
        return number_of(field)
    _, value, at = setting(field)
    return value, [at]


def side(name: str, of: Of) -> str:
    """Return the aggregate of `OF` for one of a metric's values: its best is its maximum or minimum; a rate has one."""
    if is_rate(name) and of != "count":
        return "last"
    return (metric(name).better or "max") if of == "best" else of


def setting(field: Field) -> tuple[str, str, str]:
    """Return the JSON type and the value of a setting as SQL, each with one value to bind. A path has the escapes of
    Python's JSON; SQLite's can't have a double quote.
    """
    if '"' in field.name:
        among = "FROM json_each(runs.config) WHERE key = ?)"
        return f"(SELECT type {among}", f"(SELECT value {among}", field.name
    return "json_type(runs.config, ?)", "json_extract(runs.config, ?)", f"$.{json.dumps(field.name)}"
