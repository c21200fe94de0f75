"""Convert a filter to a condition on `runs`: the SQL contains only this module's own words; all user input is bound to
a `?`.
"""

import json
from collections.abc import Sequence
from typing import Any

from engine.filter.tree import Both, Comparison, Field, Filter, Moment, Negation, Node, Of, SortOrder, Value
from engine.launch_options import HERE
from engine.metrics import is_rate, metric
from engine.store.runs.rows import AGENT

# ------------------------------------------------------------------------------------------------------------------
# A metric's single number of a run, from the summary rows only: the whole run's if recorded, otherwise over its
# ranks.

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
    "nullif(coalesce(runs.execution_time_s, runs.time_before_s + "
    "86400 * (julianday(coalesce(runs.ended_at, iif(runs.report_key IS NULL, NULL, runs.heartbeat_at), 'now')) "
    "- julianday(runs.started_at))), 0)"
)
"""`RunRow.elapsed_s` as SQL."""
_RATE = (
    "(SELECT progress.done / nullif(iif(runs.command_id IS NOT NULL AND runs.ended_at IS NOT NULL, "
    f"{ELAPSED}, runs.execution_time_s), 0) FROM progress WHERE progress.run_id = runs.id AND "
    "progress.done > 0 AND 'perf/' || replace(progress.unit, ' ', '_') || '_per_second' = ?)"
)
"""`engine.metrics.throughput` as SQL."""

_CLONED = "(SELECT clones.origin FROM clones WHERE clones.run_id = runs.id)"
_RUNS = {
    "id": "runs.id",
    "sweep": "runs.sweep_id",
    "resumes": "iif(runs.resumes, runs.parent_id, NULL)",
    "retry_of": "iif(runs.resumes, NULL, runs.parent_id)",
    "clone_of": _CLONED,
    "origin": "CASE WHEN runs.parent_id IS NOT NULL THEN iif(runs.resumes, 'resumes ', 'retry of ') || runs.parent_id "
    f"ELSE 'clone of ' || {_CLONED} END",
    "duration": ELAPSED,
    "waited": "86400 * (julianday(coalesce(runs.claimed_at, iif(runs.status = 'queued', 'now', NULL))) "
    "- julianday(runs.created_at))",
    "startup": "runs.startup_time_s",
    "cores": "runs.cores",
    "gpus": "runs.gpus",
    "ranks": "runs.ranks",
    "target": f"iif(runs.target = '', '{HERE}', runs.target)",
    "seeding": "runs.seeding",
    "created": "runs.created_at",
    "started": "runs.started_at",
    "ended": "runs.ended_at",
    "source": "coalesce((SELECT replace(kind, 'parallab', 'bundle') FROM origins WHERE origins.run_id = runs.id), "
    "iif(runs.report_key IS NULL, 'here', 'reported'))",
    "imported": "EXISTS (SELECT 1 FROM origins WHERE origins.run_id = runs.id)",
    "starred": "runs.starred_by IS NOT NULL",
    "pinned": "runs.pinned_by IS NOT NULL",
    "archived": "runs.archived_by IS NOT NULL",
    **{name: f"coalesce(runs.{name}, '')" for name in ("experiment", "preset", "name", "owner", "status", "cause")},
    "via": AGENT,
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
    return ordered(sorted_by(order.field), order.descending, "runs")


def ordered(place: Sql, descending: bool, table: str) -> Sql:
    """Return the ORDER BY terms of a table's rows by their place in an order; the newest first among equals."""
    sql, values = place
    return f"{sql} {'DESC' if descending else 'ASC'} NULLS LAST, {table}.id DESC", values


def behind(place: Sql, descending: bool, table: str, last: int) -> Sql:
    """Return the condition of a table's rows that come after the row with the id `last` in an order.

    That row's value is read in the same statement, so that values which grow with the time, such as durations of active
    runs, are of one moment.
    """
    sql, bound = place
    own, mark = f"(SELECT {sql} FROM {table} WHERE {table}.id = ?)", [*bound, last]
    condition = (
        f"({sql} {'<' if descending else '>'} {own} OR {sql} IS {own} AND {table}.id < ? "
        f"OR {sql} IS NULL AND {own} IS NOT NULL)"
    )
    return condition, [*bound, *mark, *bound, *mark, last, *bound, *mark]


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


# ---- Filter sql ----------------------------------------------------------------------------------------------------

_OPS = {op: op if op != "==" else "=" for op in ("==", "<", "<=", ">", ">=")}
_JSON_TYPES: dict[type, str] = {str: "('text')", int: "('integer', 'real')", float: "('integer', 'real')"}


def condition(filter: Filter) -> Sql:
    """Return the condition of a filter, with the values to bind; it is 1 or 0, never NULL."""
    return _node(filter.tree)


def _node(node: Node) -> Sql:
    if isinstance(node, Comparison):
        sql, values = _comparison(node)
        return f"coalesce({sql}, 0)", values
    if isinstance(node, Negation):
        sql, values = _node(node.part)
        return f"NOT {sql}", values
    word, empty = (" AND ", "1") if isinstance(node, Both) else (" OR ", "0")
    return _joined([_node(part) for part in node.parts], word, empty)


def _comparison(node: Comparison) -> Sql:
    field, value = node.field, node.value
    if isinstance(value, tuple):
        return _joined([_comparison(Comparison(field, "==", each)) for each in value], " OR ", "0")
    if isinstance(value, Field):
        one, other = number_of(field), number_of(value)
        return f"{one[0]} {_OPS[node.op]} {other[0]}", one[1] + other[1]
    if field.kind == "tags":
        return _tags(value)
    if field.source == "config":
        return _setting(field, node.op, value)
    sql, values = number_of(field)
    if node.op == "contains":
        return f"instr(lower({sql}), lower(?))", [*values, value]
    if isinstance(value, Moment):
        return _moment(sql, node.op, value)
    if value is None:
        return f"{sql} IS NULL", values
    return f"({sql}) {_OPS[node.op]} ?", [*values, value]


def _tags(value: Value) -> Sql:
    if value is None:
        return "NOT EXISTS (SELECT 1 FROM tags WHERE tags.run_id = runs.id)", []
    return "EXISTS (SELECT 1 FROM tags WHERE tags.run_id = runs.id AND tags.tag = ?)", [value]


def _setting(field: Field, op: str, value: Value) -> Sql:
    kind, held, at = setting(field)
    if value is None:
        return f"coalesce({kind}, 'null') = 'null'", [at]
    if isinstance(value, bool):
        return f"{kind} = ?", [at, "true" if value else "false"]
    is_like = f"{kind} IN {_JSON_TYPES[type(value)]}"
    if op == "contains":
        return f"{is_like} AND instr(lower({held}), lower(?))", [at, at, value]
    return f"{is_like} AND {held} {_OPS[op]} ?", [at, at, value]


def _moment(sql: str, op: str, moment: Moment) -> Sql:
    """Compare with a whole day: later means after its last moment, from means from its first."""
    if op == "==":
        return f"{sql} BETWEEN ? AND ?", [moment.first, moment.last]
    return f"{sql} {_OPS[op]} ?", [moment.first if op in ("<", ">=") else moment.last]


def _joined(parts: Sequence[Sql], word: str, empty: str) -> Sql:
    values: list[Any] = [value for _, bound in parts for value in bound]
    return (f"({word.join(f'({sql})' for sql, _ in parts)})" if parts else empty), values
