"""A metric's one number of a run, from the summary rows alone: the whole run's where it has one, else over
its ranks.
"""

from typing import Any

from engine.filter.tree import Field, Of, SortOrder
from engine.metrics import metric

OF: dict[str, str] = {
    "last": "coalesce(max(last) FILTER (WHERE rank IS NULL), avg(last))",
    "min": "coalesce(max(low) FILTER (WHERE rank IS NULL), min(low))",
    "max": "coalesce(max(high) FILTER (WHERE rank IS NULL), max(high))",
    "mean": "coalesce(max(mean) FILTER (WHERE rank IS NULL), sum(mean * count) / sum(count))",
    "count": "coalesce(max(count) FILTER (WHERE rank IS NULL), sum(count))",
}
"""Over the summary rows of one metric of one run: the mean over its ranks (last, and mean by count), the extreme (min,
max), or the sum (count).
"""

_RUNS = {
    "id": "runs.id",
    "sweep": "runs.sweep_id",
    "resumes": "runs.parent_id",
    "duration": "runs.execution_time_s",
    "startup": "runs.startup_time_s",
    "cores": "runs.cores",
    "gpus": "runs.gpus",
    "ranks": "runs.ranks",
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
"""What every run has, by the words of the filter language."""

Sql = tuple[str, list[Any]]


def number_of(field: Field) -> Sql:
    """Return the field of a run as an expression over `runs`, NULL where the run lacks it; a setting that is no number
    is NULL too.
    """
    if field.source == "run":
        return _RUNS[field.name], []
    if field.source == "config":
        at = path(field)
        return "CASE WHEN json_type(runs.config, ?) IN ('integer', 'real') THEN json_extract(runs.config, ?) END", [
            at,
            at,
        ]
    return (
        f"(SELECT {OF[side(field.name, field.of)]} FROM metrics WHERE metrics.run_id = runs.id AND metrics.name = ?)",
        [field.name],
    )


def order_of(order: SortOrder | None) -> Sql:
    """Return what follows ORDER BY: the newest first, where nothing else is asked or two are equal."""
    if order is None:
        return "runs.id DESC", []
    sql, values = sorted_by(order.field)
    return f"{sql} {'DESC' if order.descending else 'ASC'} NULLS LAST, runs.id DESC", values


def sorted_by(field: Field) -> Sql:
    """Return what runs are sorted by: as `number_of`, but a setting whatever it holds."""
    return ("json_extract(runs.config, ?)", [path(field)]) if field.source == "config" else number_of(field)


def side(name: str, of: Of) -> str:
    """Return which of `OF` stands for one of a metric's values: its best is its greatest or its least."""
    return (metric(name).better or "max") if of == "best" else of


def path(field: Field) -> str:
    """Return where a setting stands in a config's JSON; its name has been read as a word, so it holds no quote."""
    return f'$."{field.name}"'
