"""Which values go with which field, and what is made of them: a text of a time becomes a moment, a share a
percentage.
"""

from datetime import datetime

from engine.filter.names import Names, near
from engine.filter.times import read_length, read_moment
from engine.filter.tree import Field, Moment, Op, Value
from engine.metrics import metric

STATUSES = ("queued", "starting", "running", "stopping", "finished", "failed", "cancelled", "lost")
ORDERS: tuple[Op, ...] = ("<", "<=", ">", ">=")
LARGEST = 1e18


class Misfit(Exception):
    """A value that does not go with its field; the message is the rule and the cure."""


def fitted(field: Field, op: Op, value: Value, names: Names, now: datetime) -> Value:
    """Return the value as the store compares the field with it; raises Misfit."""
    name = field.written
    if value is None:
        return _none(field, op)
    if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= LARGEST:
        raise Misfit(f"A number lies between -{LARGEST:.0e} and {LARGEST:.0e}.")
    if field.kind in ("text", "tags"):
        return _text(field, op, value, names)
    if field.kind == "any":
        return _setting(name, op, value)
    if op == "contains":
        raise Misfit(f"contains looks into texts and tags; {name} is neither. Compare it with ==, <, > or in.")
    if field.kind == "time":
        return _moment(name, value, now)
    if field.kind == "flag":
        if not isinstance(value, bool) or op in ORDERS:
            raise Misfit(f"{name} is true or false: write {name} or not {name}.")
        return value
    return _number(field, value)


def note_on(field: Field, value: Value) -> str:
    """Return how a small number about a percentage is read, empty where nothing is to be said."""
    if not _is_small_percentage(field, value):
        return ""
    if is_share(field, value):
        return f"{field.written} is a percentage: {value:g} is read as {as_percent(value):g} %."
    return f"{field.written} is a percentage: {value:g} is read as {value:g} %, not as {as_percent(value):g} %."


def is_share(field: Field, value: Value) -> bool:
    """Say whether a number is read as a share of 1: between 0 and 1, about a percentage of which more is better, such
    as accuracy.
    """
    return _is_small_percentage(field, value) and metric(field.name).better == "max"


def as_percent(share: Value) -> float:
    """Return a share of 1 as a percentage."""
    assert isinstance(share, int | float)
    return round(share * 100, 10)


def _is_small_percentage(field: Field, value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        return False
    return field.source == "metric" and field.of != "count" and metric(field.name).unit == "%"


def _none(field: Field, op: Op) -> Value:
    if op != "==":
        raise Misfit(f"none goes with == and != alone: {field.written} == none finds runs that lack it.")
    return "" if (field.source, field.kind) == ("run", "text") else None


def _moment(name: str, value: Value, now: datetime) -> Moment:
    found = read_moment(value, now) if isinstance(value, str) else None
    if found is None:
        raise Misfit(
            f'{name} is a time, such as "7d ago", "yesterday", "2026-11-01" or "2026-11-01 14:30" (in UTC), in quotes.'
        )
    return found


def _text(field: Field, op: Op, value: Value, names: Names) -> str:
    if op in ORDERS:
        raise Misfit(
            f"{field.name} is {'a list of words' if field.kind == 'tags' else 'a text'} and has no order: "
            "compare it with ==, !=, in or contains."
        )
    if not isinstance(value, str):
        raise Misfit(f'{field.name} is compared with a text, in quotes: {field.name} == "{value}".')
    known = {"status": STATUSES, "experiment": sorted(names.experiments)}.get(field.name, ())
    if known and op != "contains" and value not in known:
        raise Misfit(f"{field.name} is never '{value}'{near(value, known, 'It is one of')}")
    return value


def _setting(name: str, op: Op, value: Value) -> Value:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if op in ORDERS and not is_number:
        raise Misfit(f"{op} compares numbers: give {name} a number, or compare with == or in.")
    if op == "contains" and not isinstance(value, str):
        raise Misfit(f'contains looks for a text, in quotes: {name} contains "{value}".')
    return value


def _number(field: Field, value: Value) -> int | float:
    if isinstance(value, str) and field.kind == "seconds":
        seconds = read_length(value)
        if seconds is None:
            raise Misfit(
                f'{field.written} is a length of time: seconds, or a text such as "90 s", "5 min" or "2 h 30 min".'
            )
        return seconds
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(f"{field.written} is a number: compare it with one, without quotes.")
    return as_percent(value) if is_share(field, value) else value
