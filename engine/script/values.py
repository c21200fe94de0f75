"""Values of a script that is followed without being executed: constants, and what stands for all else."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_ITEMS = 500
_MOST_VALUES = 5_000
_LARGEST = 10**300
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}
CONSTANTS = (str, bytes, int, float, complex, bool, list, tuple, dict, set, type(None))
_METHODS = {"format", "join", "split", "keys", "items", "values", "copy", "upper", "lower", "get", "replace", "strip"}
_METHODS |= {"startswith", "endswith", "islower", "isupper", "isdigit", "title", "capitalize"}
_CHANGES = {"append", "extend", "update", "setdefault", "pop", "insert", "add"}


class Unknown:
    """A value that only running the script would tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Library:
    """Something of a library or of Python, by its dotted name."""

    name: str


@dataclass(eq=False)
class Module:
    """A file of the script's folder."""

    path: Path
    tree: ast.Module
    text: str
    names: dict[str, Any] = field(default_factory=dict)
    is_entry: bool = False
    state: str = "unread"


@dataclass(frozen=True, eq=False)
class Lazy:
    """A module of the folder, or a name in it, that is followed once it is used."""

    module: Path
    name: str = ""


@dataclass(frozen=True, eq=False)
class Function:
    """A function, with the names around it; `decorators` are its decorators' values."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Module
    around: dict[str, Any]
    decorators: tuple[Any, ...] = ()
    instance: Any = None
    owner: "Class | None" = None


@dataclass(frozen=True, eq=False)
class Class:
    """A class, with its body's names."""

    node: ast.ClassDef
    module: Module
    bases: tuple[Any, ...]
    names: dict[str, Any]
    decorators: tuple[Any, ...] = ()

    def line(self) -> Iterator["Class | Library"]:
        """Yield it and its bases, nearest first."""
        yield self
        for base in self.bases:
            if isinstance(base, Class):
                yield from base.line()
            elif isinstance(base, Library):
                yield base


@dataclass(eq=False)
class Instance:
    """An object of a class of the folder; `of_library` is what the library's part of it is."""

    cls: Class
    names: dict[str, Any] = field(default_factory=dict)
    of_library: Any = None


@dataclass(frozen=True, eq=False)
class Made:
    """What a call of a library returned, with its arguments."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a value."""

    of: Any
    name: str


@dataclass(frozen=True, eq=False)
class Super:
    """What `super()` returns in a method of a class."""

    instance: Instance
    owner: Class


def is_constant(value: Any) -> bool:
    """Return whether a value is a constant of moderate size, all the way down."""
    left, size = [value], 0
    while left:
        each = left.pop()
        size += 1 + (len(each) // 100 if isinstance(each, str | bytes) else 0)
        if size > _MOST_VALUES or not isinstance(each, CONSTANTS):
            return False
        if isinstance(each, list | tuple | set):
            left.extend(each)
        elif isinstance(each, dict):
            left.extend([*each, *each.values()])
        elif isinstance(each, int) and abs(each) > _LARGEST:
            return False
    return True


def computed(op: ast.operator | ast.cmpop, left: Any, right: Any) -> Any:
    if not is_constant(left) or not is_constant(right):
        if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        return UNKNOWN
    if type(op) is ast.Pow:
        small = (
            isinstance(left, int | float) and isinstance(right, int | float) and abs(right) <= 100 and abs(left) < 1e6
        )
        return left**right if small else UNKNOWN
    if isinstance(op, ast.Mod) and isinstance(left, str) and re.search(r"%[^a-z%]*(\d{3}|\*)", left):
        return UNKNOWN
    if isinstance(op, ast.Mult) and (isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple)):
        size = left * len(right) if isinstance(left, int) else len(left) * right if isinstance(right, int) else 0
        return left * right if size < MOST_ITEMS else UNKNOWN
    return _OPERATORS[type(op)](left, right) if type(op) in _OPERATORS else UNKNOWN


def method_of(of: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return what a method of a constant returns."""
    if isinstance(of, dict) and name == "keys":
        return list(of)
    if not all(map(is_constant, [of, *args, *kwargs.values()])) and name not in _CHANGES:
        return UNKNOWN
    if isinstance(of, str) and name == "format" and re.search(r"\{[^}]*[:\[.]", of):
        return UNKNOWN
    if name in _CHANGES and isinstance(of, list | dict | set) and len(of) < MOST_ITEMS:
        return getattr(of, name)(*args, **kwargs)
    if name not in _METHODS or not hasattr(of, name):
        return UNKNOWN
    found = getattr(of, name)(*args, **kwargs)
    return found if isinstance(found, CONSTANTS) else list(found)
