"""Values of a script that is followed without being executed: constants, what stands for all else, and names."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
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
    is_followed: bool = False


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

    def bound(self, instance: Any, owner: "Class") -> "Function":
        """Return it as a method of a class, of an instance if there is one."""
        return replace(self, instance=instance, owner=owner)

    def is_made_by(self, decorator: str) -> bool:
        """Return whether a decorator of Python makes it, such as `staticmethod`."""
        return Library(f"builtins.{decorator}") in self.decorators

    def parameters(self) -> list[tuple[ast.arg, ast.expr | None]]:
        """Return its parameters with their defaults, without `*args` and `**kwargs`."""
        spec = self.node.args
        plain = [*spec.posonlyargs, *spec.args]
        defaults = [*([None] * (len(plain) - len(spec.defaults))), *spec.defaults, *spec.kw_defaults]
        return list(zip([*plain, *spec.kwonlyargs], defaults, strict=True))


@dataclass(frozen=True, eq=False)
class Class:
    """A class, with its body's names."""

    node: ast.ClassDef
    module: Module
    bases: tuple[Any, ...]
    names: dict[str, Any]

    def line(self) -> Iterator["Class | Library"]:
        """Yield it and its bases, nearest first."""
        yield self
        for base in self.bases:
            if isinstance(base, Class):
                yield from base.line()
            elif isinstance(base, Library):
                yield base

    def member(self, name: str, after: "Class | None" = None) -> Any:
        """Return what it or its bases have by a name; with `after`, only the bases after that class."""
        line = [each for each in self.line() if isinstance(each, Class)]
        for each in line[line.index(after) + 1 if after in line else 0 :]:
            if name in each.names:
                found = each.names[name]
                return found.bound(None, each) if isinstance(found, Function) else found
        return UNKNOWN


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


class Scope:
    """The names of a block, and those around it."""

    def __init__(self, module: Module, names: dict[str, Any], around: dict[str, Any] | None = None) -> None:
        self.module, self.names, self.around = module, names, around or {}
        self.returned: Any = None
        """What a branch that Python might not execute returned."""

    def inner(self) -> "Scope":
        """Return the scope of a class's body, a function or a comprehension in this one."""
        return Scope(self.module, {}, self.chain())

    def chain(self) -> dict[str, Any]:
        """Return the names that an inner function sees, besides the module's."""
        return self.around if self.names is self.module.names else {**self.around, **self.names}

    def lookup(self, name: str) -> Any:
        """Return the value of a name, which may be one of Python's."""
        for names in (self.names, self.around, self.module.names):
            if name in names:
                return names[name]
        if name == "__name__":
            return "__main__" if self.module.is_entry else self.module.path.stem
        return str(self.module.path) if name == "__file__" else Library(f"builtins.{name}")


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
    """Return what an operator gives of two values."""
    kind = type(op)
    if not is_constant(left) or not is_constant(right):
        return left + right if kind is ast.Add and isinstance(left, list) and isinstance(right, list) else UNKNOWN
    if kind is ast.Pow:
        is_number = isinstance(left, int | float) and isinstance(right, int | float)
        return left**right if is_number and abs(right) <= 100 and abs(left) < 1e6 else UNKNOWN
    if kind is ast.Mod and isinstance(left, str) and re.search(r"%[^a-z%]*(\d{3}|\*)", left):
        return UNKNOWN
    if kind is ast.Mult and isinstance(left, str | list | tuple) != isinstance(right, str | list | tuple):
        size = left * len(right) if isinstance(left, int) else len(left) * right
        return left * right if size < MOST_ITEMS else UNKNOWN
    return _OPERATORS[kind](left, right) if kind in _OPERATORS else UNKNOWN


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
