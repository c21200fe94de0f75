"""Validation and conversion of values for fields: a text becomes a time, a fraction a percentage."""

from datetime import datetime

from engine.filter.names import Names, near
from engine.filter.times import read_length, read_moment
from engine.filter.tree import Field, Moment, Op, Value
from engine.metrics import metric

STATUSES = ("queued", "starting", "running", "stopping", "finished", "failed", "cancelled", "lost")
ORDERS: tuple[Op, ...] = ("<", "<=", ">", ">=")
LARGEST = 1e18


class Misfit(Exception):
    """An invalid value for a field; the message is the rule and the cure."""


def fitted(field: Field, op: Op, value: Value, names: Names, now: datetime) -> Value:
    """Return the value as the store compares it; raises Misfit."""
    name = field.written
    if value is None:
        return _none(field, op)
    if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= LARGEST:
        raise Misfit(f"Numbers must be between -{LARGEST:.0e} and {LARGEST:.0e}.")
    if field.kind in ("text", "tags"):
        return _text(field, op, value, names)
    if field.kind == "any":
        return _setting(name, op, value)
    if op == "contains":
        raise Misfit(f"contains supports only texts and tags; {name} is neither. Compare it with ==, <, > or in.")
    if field.kind == "time":
        return _moment(name, value, now)
    if field.kind == "flag":
        if not isinstance(value, bool) or op in ORDERS:
            raise Misfit(f"{name} is true or false: write {name} or not {name}.")
        return value
    return _number(field, value)


def note_on(field: Field, value: Value) -> str:
    """Return a note on the interpretation of a small number for a percentage, empty if clear."""
    if not _is_small_percentage(field, value):
        return ""
    if is_share(field, value):
        return f"{field.written} is a percentage: {value:g} is interpreted as {as_percent(value):g} %."
    return f"{field.written} is a percentage: {value:g} is interpreted as {value:g} %, not as {as_percent(value):g} %."


def is_share(field: Field, value: Value) -> bool:
    """Return whether a number is interpreted as a fraction: between 0 and 1, for a percentage to maximize, such as
    accuracy.
    """
    return _is_small_percentage(field, value) and metric(field.name).better == "max"


def as_percent(share: Value) -> float:
    """Return a fraction as a percentage."""
    assert isinstance(share, int | float)
    return round(share * 100, 10)


def _is_small_percentage(field: Field, value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        return False
    return field.source == "metric" and field.of != "count" and metric(field.name).unit == "%"


def _none(field: Field, op: Op) -> Value:
    if op != "==":
        raise Misfit(f"none supports only == and !=: {field.written} == none matches runs without a value.")
    return "" if (field.source, field.kind) == ("run", "text") else None


def _moment(name: str, value: Value, now: datetime) -> Moment:
    found = read_moment(value, now) if isinstance(value, str) else None
    if found is None:
        raise Misfit(
            f'{name} is a time: write it in quotes, such as "7d ago", '
            '"yesterday", "2026-11-01" or "2026-11-01 14:30" (UTC).'
        )
    return found


def _text(field: Field, op: Op, value: Value, names: Names) -> str:
    if op in ORDERS:
        raise Misfit(
            f"{field.name} is {'a list of tags' if field.kind == 'tags' else 'a text'} and has no order; "
            "compare it with ==, !=, in or contains."
        )
    if not isinstance(value, str):
        raise Misfit(f'{field.name} needs a text in quotes: {field.name} == "{value}".')
    known = {"status": STATUSES, "experiment": sorted(names.experiments)}.get(field.name, ())
    if known and op != "contains" and value not in known:
        raise Misfit(f"Unknown {field.name} '{value}'{near(value, known, 'Known')}")
    return value


def _setting(name: str, op: Op, value: Value) -> Value:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if op in ORDERS and not is_number:
        raise Misfit(f"{op} needs a number: compare {name} with a number, or use == or in.")
    if op == "contains" and not isinstance(value, str):
        raise Misfit(f'contains needs a text in quotes: {name} contains "{value}".')
    return value


def _number(field: Field, value: Value) -> int | float:
    if isinstance(value, str) and field.kind == "seconds":
        seconds = read_length(value)
        if seconds is None:
            raise Misfit(
                f'{field.written} is a duration: write seconds, or a text such as "90 s", "5 min" or "2 h 30 min".'
            )
        return seconds
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(f"{field.written} is a number: compare it with a number, without quotes.")
    return as_percent(value) if is_share(field, value) else value
