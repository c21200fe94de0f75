"""Convert a filter to a condition on `runs`: the SQL contains only this module's own words; all user input is bound to
a `?`.
"""

from collections.abc import Sequence
from typing import Any

from engine.filter.tree import Both, Comparison, Field, Filter, Moment, Negation, Node, Value
from engine.store.runs.metric_sql import Sql, number_of, setting

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
