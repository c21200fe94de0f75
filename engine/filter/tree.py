"""What a filter says, as a tree of plain values. Every condition holds or does not: one about something that a run
lacks does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "tags", "number", "seconds", "time", "flag", "any"]
"""What a field holds; `any`: a setting, whose type is its config's own."""
Op = Literal["==", "<", "<=", ">", ">=", "in", "contains"]
Of = Literal["last", "best", "mean", "min", "max", "count"]
OF: tuple[Of, ...] = ("last", "best", "mean", "min", "max", "count")
"""Which of a metric's many values: all from its summary, as the results table has them."""


@dataclass(frozen=True)
class Field:
    """Something that a run has."""

    source: Literal["run", "config", "metric"]
    name: str
    kind: Kind
    of: Of = "last"
    """For a metric, which of its values."""

    @property
    def written(self) -> str:
        """The field as it is written in a filter."""
        if self.source == "metric":
            return f"{self.name}.{self.of}" if "/" in self.name else f'metric["{self.name}"].{self.of}'
        return self.name


@dataclass(frozen=True)
class Moment:
    """A time: of a whole day its first and its last millisecond, else twice the same, as the store writes times."""

    first: str
    last: str


Value = str | int | float | bool | None | Moment


@dataclass(frozen=True)
class Comparison:
    """A field against a value, several of them (`in`) or another field."""

    field: Field
    op: Op
    value: "Value | tuple[Value, ...] | Field"


@dataclass(frozen=True)
class Negation:
    """What holds where its part does not."""

    part: "Node"


@dataclass(frozen=True)
class Both:
    """What holds where all parts do; without parts, for every run."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class One:
    """What holds where any part does."""

    parts: tuple["Node", ...]


Node = Comparison | Negation | Both | One


@dataclass(frozen=True)
class SortOrder:
    """By what runs are sorted; those that lack it come last."""

    field: Field
    descending: bool = False


@dataclass(frozen=True)
class Filter:
    """A filter that was read."""

    text: str
    tree: Node
    notes: tuple[str, ...] = ()
    """How something was understood that could be meant in two ways, in sentences."""

    @property
    def fields(self) -> set[Field]:
        """All fields that it asks for."""
        return set(_fields(self.tree))

    def mentions(self, name: str) -> bool:
        """Say whether it asks for a field of a run, such as `archived`."""
        return any(field.source == "run" and field.name == name for field in self.fields)


def _fields(node: Node) -> Iterator[Field]:
    if isinstance(node, Comparison):
        yield from (each for each in (node.field, node.value) if isinstance(each, Field))
        return
    for part in (node.part,) if isinstance(node, Negation) else node.parts:
        yield from _fields(part)
