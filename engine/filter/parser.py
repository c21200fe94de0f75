"""From text to filter: walks Python's syntax tree and takes what the language has; all else is refused with
its place.
"""

import ast
from datetime import UTC, datetime

from engine.errors import FilterError
from engine.filter.names import Names
from engine.filter.syntax import error_at, place, syntax_tree
from engine.filter.tree import OF, Both, Comparison, Field, Filter, Negation, Node, One, Op, SortOrder, Value
from engine.filter.values import Misfit, fitted, note_on

DEEPEST = 40
"""Conditions within conditions."""
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
"""Python's operators as ours, and whether they stand for themselves or for their negation."""
_FLIPPED: dict[Op, Op] = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_REFUSED: dict[type[ast.expr], str] = {
    ast.Call: "A filter calls nothing. A metric's values are written with a dot: test/accuracy.best.",
    ast.Lambda: "A filter has no functions.",
    ast.BinOp: "A filter does not compute: compare the field itself.",
    ast.IfExp: "A filter has no if and else: join conditions with and, or, not.",
    ast.Dict: "A filter has no dictionaries: values stand in brackets, such as (1, 2, 4).",
}
_USUAL = "It is no field, number or text in quotes."


def read_filter(text: str, names: Names | None = None, now: datetime | None = None) -> Filter:
    """Return the filter that a text stands for; a blank text lets every run pass. Raises FilterError.

    `names` are the settings, metrics and experiments there are (default: those of this version), `now` what times such
    as "7d ago" count from.
    """
    if not text.strip():
        return Filter("", Both(()))
    reading = _Reading(text, names or Names.usual(), now or datetime.now(UTC))
    tree = reading.condition(syntax_tree(text), 0)
    return Filter(text.strip(), tree, tuple(dict.fromkeys(reading.notes)))


def read_field(text: str, names: Names | None = None) -> Field:
    """Return the one field that a text names, such as `duration` or `test/accuracy.best`. Raises FilterError."""
    if not text.strip():
        raise FilterError("A field has a name, such as duration or test/accuracy.best.", 0, 0)
    return _Reading(text, names or Names.usual(), datetime.now(UTC)).field(syntax_tree(text))


def read_order(text: str, names: Names | None = None) -> SortOrder:
    """Return the order that a text names: a field, the greatest first with a minus before it, such as
    `-test/accuracy.best`. Raises FilterError.
    """
    descending = text.strip().startswith("-")
    field = read_field(text.replace("-", " ", 1) if descending else text, names)
    if field.kind == "tags":
        raise FilterError("Runs can't be sorted by tags. Sort by another field, such as created.", 0, len(text))
    return SortOrder(field, descending)


class _Reading:
    """One text on its way to a filter."""

    def __init__(self, text: str, names: Names, now: datetime) -> None:
        self.text, self.names, self.now = text, names, now
        self.notes: list[str] = []

    def condition(self, node: ast.expr, depth: int) -> Node:
        """Return what a part says of a run."""
        if depth > DEEPEST:
            raise self.error(node, f"A filter is nested at most {DEEPEST} deep. Take brackets and nots away.")
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
        """Return the condition that a field alone stands for: that it is true."""
        found = self.operand(node)
        if isinstance(found, Field) and found.kind in ("flag", "any"):
            return Comparison(found, "==", True)
        if isinstance(found, Field):
            raise self.error(node, f"Alone it says nothing of a run: compare it, such as {_example(found)}.")
        raise self.error(node, "A value alone says nothing of a run: compare a field with it.")

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Node:
        """Return one comparison; at least one side is a field."""
        word, holds = _OPS[type(op)]
        one, other = self.operand(left), self.operand(right)
        if word == "in" and isinstance(other, Field):
            if other.kind not in ("text", "tags", "any"):
                raise self.error(
                    right,
                    f"{other.written} is neither a text nor tags, so nothing is in it. Compare it with ==, < or >.",
                )
            word, one, other, left, right = "contains", other, one, right, left
        elif not isinstance(one, Field) and isinstance(other, Field) and word in _FLIPPED:
            word, one, other, left, right = _FLIPPED[word], other, one, right, left
        if not isinstance(one, Field):
            raise self.error(left, "A comparison has a field on one side, such as trainers >= 4.")
        found = Comparison(one, word, self.value(one, word, other, right))
        return found if holds else Negation(found)

    def value(
        self, field: Field, op: Op, other: "Value | tuple[ast.expr, ...] | Field", node: ast.expr
    ) -> "Value | tuple[Value, ...] | Field":
        """Return the other side of a comparison, in the field's kind."""
        if isinstance(other, Field):
            numbers = ("number", "seconds", "any")
            if field.kind not in numbers or other.kind not in numbers or op in ("in", "contains"):
                raise self.error(node, "Two fields are compared where both are numbers; a text stands in quotes.")
            return other
        if isinstance(other, tuple):
            if op != "in":
                raise self.error(node, f"Several values go with in: {field.written} in (…).")
            return tuple(self.fitted(field, "==", self.constant(each), each) for each in other)
        if op == "in":
            raise self.error(
                node,
                (
                    f"in looks into several values, such as {field.written} in (1, 2, 4), or for a text in a "
                    'field: "x" in note.'
                ),
            )
        return self.fitted(field, op, other, node)

    def fitted(self, field: Field, op: Op, value: Value, node: ast.expr) -> Value:
        """Return a value in the field's kind."""
        try:
            found = fitted(field, op, value, self.names, self.now)
        except Misfit as misfit:
            raise self.error(node, str(misfit)) from None
        if note := note_on(field, value):
            self.notes.append(note)
        return found

    def operand(self, node: ast.expr) -> "Value | tuple[ast.expr, ...] | Field":
        """Return one side of a comparison: a field, a value, or the parts of a list of values."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return tuple(node.elts)
        if isinstance(node, ast.Constant | ast.UnaryOp) or (isinstance(node, ast.Name) and node.id in _WORDS):
            return self.constant(node)
        return self.field(node)

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
        raise self.error(node, _REFUSED.get(type(node), "A value is a number, a text in quotes, true, false or none."))

    def field(self, node: ast.expr) -> Field:
        """Return the field that a part names."""
        named = self.subscript(node)
        found = named if named is not None else self.names.field(self.written(node))
        if isinstance(found, str):
            raise self.error(node, found)
        return found

    def subscript(self, node: ast.expr) -> Field | str | None:
        """Return the metric that is written `metric["any name"].best`; None where the part is none."""
        inner, of = (node.value, node.attr) if isinstance(node, ast.Attribute) else (node, OF[0])
        if not isinstance(inner, ast.Subscript):
            return None
        name = inner.slice.value if isinstance(inner.slice, ast.Constant) else None
        if isinstance(inner.value, ast.Name) and inner.value.id == "metric" and isinstance(name, str):
            return self.names.metric(name, of)
        return 'Square brackets hold a metric\'s name: metric["my number"].last.'

    def written(self, node: ast.expr) -> str:
        """Return a name as it was written, such as config.seed or test/accuracy.best."""
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute | ast.BinOp):
            return f"{self.written(node.value)}.{node.attr}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return f"{self.written(node.left)}/{self.written(node.right)}"
        raise self.error(node, _REFUSED.get(type(node), _USUAL))

    def error(self, node: ast.expr, rule: str) -> FilterError:
        """Return the error for a part of the text."""
        return error_at(self.text, *place(self.text, node), rule)


def _example(field: Field) -> str:
    examples = {"text": '{} == "…"', "tags": '"…" in {}', "time": '{} > "7d ago"', "seconds": '{} > "5 min"'}
    return examples.get(field.kind, "{} > 1").format(field.written)
