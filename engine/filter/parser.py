"""Parser of filters: walks Python's syntax tree and accepts the language's subset; anything else is an error with its
position.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches

from engine.errors import FilterError
from engine.filter.syntax import QUOTED, error_at, syntax_tree
from engine.filter.tree import (
    OF,
    TIMES,
    WORDS,
    Both,
    Comparison,
    Field,
    Filter,
    Moment,
    Names,
    Negation,
    Node,
    One,
    Op,
    SortOrder,
    Value,
    metric_written,
    near,
    quoted,
    read_length,
    read_moment,
)
from engine.metrics import metric

Operand = Value | tuple[ast.expr, ...] | Field
DEEPEST = 40
"""Maximum nesting depth."""
_WORDS: dict[str, Value] = {"true": True, "false": False, "none": None, "null": None}
_OPS: dict[type[ast.cmpop], tuple[Op, bool]] = {
    ast.Eq: ("==", True),
    ast.NotEq: ("==", False),
    ast.Lt: ("<", True),
    ast.LtE: ("<=", True),
    ast.Gt: (">", True),
    ast.GtE: (">=", True),
    ast.In: ("in", True),
    ast.NotIn: ("in", False),
    ast.Is: ("contains", True),
    ast.IsNot: ("contains", False),
}
"""Python's operators as ours, and whether they are not negated."""
_FLIPPED: dict[Op, Op] = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_REFUSED: dict[type[ast.expr], str] = {
    ast.Call: "Calls aren't supported. Write a metric's values with a dot: test/accuracy.best.",
    ast.Lambda: "Functions aren't supported.",
    ast.BinOp: "Arithmetic isn't supported; write e.g. trainers > 4.",
    ast.IfExp: "if and else aren't supported: combine conditions with and, or, not.",
    ast.Dict: "Dictionaries aren't supported: write several values as (1, 2, 4).",
}
_PHRASE = re.compile(r"(?<!\w)W(?: +W)+".replace("W", rf"(?!\d|(?:{'|'.join(sorted(WORDS))})\b)\w+"), re.IGNORECASE)
"""Several words without an operator between them."""
_USUAL = "Not a field, number or text in quotes."


def read_filter(text: str, names: Names | None = None, now: datetime | None = None) -> Filter:
    """Parse a filter; a blank text matches every run. Raises FilterError.

    `names` are the known settings, metrics and experiments (default: those of this version); times such as "7d ago" are
    relative to `now`.
    """
    if not text.strip():
        return Filter("", Both(()))
    reading = _Reading(text, names or Names.usual(), now or datetime.now(UTC))
    with _brackets_named(text, reading.names):
        tree = reading.condition(syntax_tree(text), 0)
    return Filter(text.strip(), tree, tuple(dict.fromkeys(reading.notes)))


def read_field(text: str, names: Names | None = None) -> Field:
    """Parse a single field, such as `duration` or `test/accuracy.best`; the name of a setting or metric may also be
    written without brackets and quotes. Raises FilterError.
    """
    if not text.strip():
        raise FilterError("The field is empty: write a name, such as duration or test/accuracy.best.", 0, 0)
    reading = _Reading(text, names or Names.usual(), datetime.now(UTC))
    try:
        with _brackets_named(text, reading.names):
            return reading.field(syntax_tree(text))
    except FilterError as error:
        if (field := reading.names.as_written(text.strip())) is not None:
            return field
        sentence = str(error).replace("The filter", "The field")
        raise FilterError(sentence, error.start, error.end) from None


def read_order(text: str, names: Names | None = None) -> SortOrder:
    """Parse a sort order: a field, in descending order after a minus, such as `-test/accuracy.best`. Raises
    FilterError.
    """
    descending = text.strip().startswith("-")
    try:
        field = read_field(text.replace("-", " ", 1) if descending else text, names)
    except FilterError as error:
        raise FilterError(str(error), error.start, error.end, "sort") from None
    if field.kind == "tags":
        raise FilterError("Runs can't be sorted by tags. Sort by another field, such as created.", 0, len(text), "sort")
    return SortOrder(field, descending)


@contextmanager
def _brackets_named(text: str, names: Names) -> Iterator[None]:
    """Turn the error at a name that must be in brackets and quotes into one that shows how it is written."""
    try:
        yield
    except FilterError as error:
        found = _bare_name(text, names, error)
        if found is None:
            raise
        raise error_at(text, *found) from None


def _bare_name(text: str, names: Names, error: FilterError) -> tuple[int, int, str] | None:
    """Return the place of a name without its brackets, or of a text without its quotes, at an error, with the rule and
    the cure; None if none is there.
    """
    rule = "A name with spaces or signs must be in brackets and quotes:"
    bare = QUOTED.sub(lambda found: "\0" * len(found[0]), text)
    known = names.in_brackets()

    def is_there(found: re.Match[str]) -> bool:
        return bare[found.start()] != "\0" and found.start() <= error.end and error.start <= found.end() + 1

    for name in sorted((each for each in known if re.search(r"\w", each)), key=len, reverse=True):
        of_name = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)(\.({'|'.join(OF)})\b)?", re.IGNORECASE)
        if found := next(filter(is_there, of_name.finditer(text)), None):
            ends = {True: found[1] or "", False: ""}
            written = [f"{each}{ends[each.startswith('metric[')]}" for each in known[name]]
            return *found.span(), f"{rule} {' or '.join(written)}."
    for found in filter(is_there, _PHRASE.finditer(bare)):
        if re.search(r"([=<>]|\b(in|contains)) *$", bare[: found.start()], re.IGNORECASE):
            return *found.span(), f"A text must be in quotes: {quoted(found[0])}."
        if isinstance(names.field(found[0].split()[0]), str):
            alike = get_close_matches(found[0], known, n=1, cutoff=0.6)
            written = known[alike[0]] if alike else [f"config[{quoted(found[0])}]", metric_written(found[0])]
            return *found.span(), f"{rule} {' or '.join(written)}."
    return None


class _Reading:
    """State of parsing one text."""

    def __init__(self, text: str, names: Names, now: datetime) -> None:
        self.text, self.names, self.now = text, names, now
        self.notes: list[str] = []

    def condition(self, node: ast.expr, depth: int) -> Node:
        """Return the condition of a part."""
        if depth > DEEPEST:
            raise self.error(node, f"The filter is nested more than {DEEPEST} levels deep. Remove brackets and nots.")
        if isinstance(node, ast.BoolOp):
            parts = tuple(self.condition(each, depth + 1) for each in node.values)
            return Both(parts) if isinstance(node.op, ast.And) else One(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Negation(self.condition(node.operand, depth + 1))
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = tuple(self.comparison(*found) for found in zip(sides, node.ops, sides[1:], strict=False))
            return parts[0] if len(parts) == 1 else Both(parts)
        return self.flag(node)

    def flag(self, node: ast.expr) -> Node:
        """Return the condition of a field alone: that it is true."""
        found = self.operand(node)
        if isinstance(found, Field) and found.kind in ("flag", "any"):
            return Comparison(found, "==", True)
        if isinstance(found, Field):
            raise self.error(node, f"A condition is missing: compare the field, such as {_example(found)}.")
        raise self.error(node, "A value alone is not a condition: compare a field with it.")

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Node:
        """Return one comparison; at least one side must be a field."""
        word, holds = _OPS[type(op)]
        one = self.operand(left)
        other = self.operand(right, for_text=isinstance(one, Field) and one.kind in ("text", "tags", "time", "any"))
        if word == "in" and isinstance(other, Field):
            if other.kind not in ("text", "tags", "any"):
                raise self.error(
                    right,
                    f"{other.written} is neither a text nor tags and doesn't support in. Compare it with ==, < or >.",
                )
            word, one, other, left, right = "contains", other, one, right, left
        elif not isinstance(one, Field) and isinstance(other, Field) and word in _FLIPPED:
            word, one, other, left, right = _FLIPPED[word], other, one, right, left
        one, other = self.metric_meant(one, other), self.metric_meant(other, one)
        if not isinstance(one, Field):
            raise self.error(left, "A comparison needs a field on one side, such as trainers >= 4.")
        found = Comparison(one, word, self.value(one, word, other, right))
        return found if holds else Negation(found)

    def metric_meant(self, side: Operand, other: Operand) -> Operand:
        """Return one side of a comparison; for a setting of text, compared with a number, the metric of its name."""
        is_number = other.kind == "number" if isinstance(other, Field) else type(other) in (int, float)
        if not (is_number and isinstance(side, Field) and side.source == "config" and side.kind == "text"):
            return side
        found = self.names.metric(side.name)
        return side if isinstance(found, str) else found

    def value(self, field: Field, op: Op, other: Operand, node: ast.expr) -> "Value | tuple[Value, ...] | Field":
        """Return the other side of a comparison, in the field's type."""
        if isinstance(other, Field):
            numbers = ("number", "seconds", "any")
            if field.kind not in numbers or other.kind not in numbers or op in ("in", "contains"):
                raise self.error(node, "Only numeric fields can be compared with each other; put text in quotes.")
            return other
        if isinstance(other, tuple):
            if op != "in":
                raise self.error(node, f"Several values need in: {field.written} in (…).")
            return tuple(self.fitted(field, "==", self.constant(each), each) for each in other)
        if op == "in":
            raise self.error(
                node,
                (f'in needs several values, such as {field.written} in (1, 2, 4), or a text and a field: "x" in note.'),
            )
        return self.fitted(field, op, other, node)

    def fitted(self, field: Field, op: Op, value: Value, node: ast.expr) -> Value:
        """Return a value in the field's type."""
        try:
            found = fitted(field, op, value, self.names, self.now)
        except Misfit as misfit:
            raise self.error(node, str(misfit)) from None
        if note := note_on(field, value):
            self.notes.append(note)
        return found

    def operand(self, node: ast.expr, *, for_text: bool = False) -> Operand:
        """Return one side of a comparison: a field, a value, or the parts of a list of values. For a field of text, the
        error at an unknown name says that a text must be in quotes.
        """
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return tuple(node.elts)
        if isinstance(node, ast.Constant | ast.UnaryOp) or (isinstance(node, ast.Name) and node.id in _WORDS):
            return self.constant(node)
        return self.field(node, for_text=for_text)

    def constant(self, node: ast.expr) -> Value:
        """Return a number, text, true, false or none."""
        if isinstance(node, ast.Name) and node.id in _WORDS:
            return _WORDS[node.id]
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub | ast.UAdd)
            and isinstance(node.operand, ast.Constant)
        ):
            number = self.constant(node.operand)
            if isinstance(number, int | float) and not isinstance(number, bool):
                return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str | int | float)):
            return node.value
        raise self.error(
            node, _REFUSED.get(type(node), ("A value must be a number, a text in quotes, true, false or none."))
        )

    def field(self, node: ast.expr, *, for_text: bool = False) -> Field:
        """Return the field of a part."""
        named = self.subscript(node)
        found = named if named is not None else self.names.field(self.written(node))
        if isinstance(found, str):
            said = found.replace("Unknown field", "Unknown field (text must be in quotes)", 1) if for_text else found
            raise self.error(node, said)
        return found

    def subscript(self, node: ast.expr) -> Field | str | None:
        """Return the metric of `metric["any name"].min` or the setting of `config["any name"]`; None for other
        parts.
        """
        if isinstance(node, ast.Subscript):
            inner, of = node, ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Subscript):
            inner, of = node.value, node.attr
        else:
            return None
        name = inner.slice.value if isinstance(inner.slice, ast.Constant) else None
        if isinstance(inner.value, ast.Name) and isinstance(name, str):
            if inner.value.id == "metric":
                return self.names.metric(name, of or OF[0])
            if inner.value.id == "config" and not of:
                return self.names.setting(name)
        return 'Square brackets are only for names: metric["my number"].last, config["my setting"].'

    def written(self, node: ast.expr) -> str:
        """Return a name as written, such as config.seed or test/accuracy.best."""
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute | ast.BinOp):
            return f"{self.written(node.value)}.{node.attr}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return f"{self.written(node.left)}/{self.written(node.right)}"
        raise self.error(node, _REFUSED.get(type(node), _USUAL))

    def error(self, node: ast.expr, rule: str) -> FilterError:
        """Return the error for a part of the text."""
        return error_at(self.text, node.col_offset, node.end_col_offset or 0, rule)


def _example(field: Field) -> str:
    examples = {"text": '{} == "…"', "tags": '"…" in {}', "time": '{} > "7d ago"', "seconds": '{} > "5 min"'}
    return examples.get(field.kind, "{} > 1").format(field.written)


# ---- Validation and conversion of values for fields: a text becomes a time, a fraction a percentage ----------------

STATUSES = ("queued", "starting", "running", "stopping", "finished", "failed", "cancelled", "lost")
SOURCES = ("here", "reported", "bundle", "tensorboard", "mlflow")
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
        raise Misfit(f"{name} is a time: write it in quotes, {TIMES}.")
    return found


def _text(field: Field, op: Op, value: Value, names: Names) -> str:
    if op in ORDERS:
        raise Misfit(
            f"{field.name} is {'a list of tags' if field.kind == 'tags' else 'a text'} and has no order; "
            "compare it with ==, !=, in or contains."
        )
    if not isinstance(value, str):
        raise Misfit(f'{field.name} needs a text in quotes: {field.name} == "{value}".')
    every = {"status": STATUSES, "source": SOURCES, "experiment": sorted(names.experiments)}
    known = every.get(field.name, ()) if field.source == "run" else ()
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
