"""Options that dataclasses and signatures declare by annotations, in the dialect of their parser."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from engine.script.field import Kind
from engine.script.interpreter import Interpreter
from engine.script.values import UNKNOWN, Class, Function, Instance, Library, Made, Scope, is_constant
from engine.script.words import Option, kind_of

_LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "set", "Set", "frozenset", "Iterable", "Collection"}
_KINDS: dict[str, Kind] = {"int": "int", "float": "float", "bool": "bool", "str": "str", "Path": "str"}
_THROUGH = {"Annotated", "Optional", "Final", "Positional", "Fixed", "InitVar", "Required"}
_FIRST = ("Field", "Option", "Argument", "flag", "arg", "mutable")
"""What describes a field, with the default as its first argument."""
_FIELDS = {*_FIRST, "field", "attrib", "ib", "list_field", "choice", "subgroups"}
_DEEPEST = 6


class Dialect(NamedTuple):
    """How a parser writes the options of a class or function."""

    switches: Literal["pair", "optional", "value", "once"]
    """`--x` and `--no-x`, `--x [True]`, `--x True`, or the flag that changes the default."""
    word: str = "_"
    """What stands between the words of a name."""
    lists: str = "*"
    """The number of a list's values, "" where a list is one word."""
    nested: bool = True
    """Whether fields of inner classes are `outer.inner`."""
    positional: bool = False
    """Whether what has no default is positional."""
    joined: bool = False


DIALECTS = {
    "tyro": Dialect("pair", "-"),
    "huggingface": Dialect("optional", lists="+", nested=False),
    "simple_parsing": Dialect("optional", nested=False),
    "draccus": Dialect("value", lists=""),
    "jsonargparse": Dialect("value", lists="+"),
    "tap": Dialect("once", nested=False),
    "typer": Dialect("pair", "-", nested=False, positional=True),
    "fire": Dialect("value", lists="", nested=False, joined=True),
    "hydra": Dialect("value"),
}


@dataclass(frozen=True)
class _Named:
    """A field of a class, or a parameter of a function."""

    name: str
    annotation: ast.expr | None
    value: Any
    """The default; UNKNOWN if there is none."""
    has_default: bool
    help: str
    scope: Scope


@dataclass(frozen=True)
class _Noted:
    """What an annotation says."""

    kind: Kind = "str"
    is_list: bool = False
    choices: tuple[Any, ...] = ()
    inner: Class | None = None
    extra: tuple[Any, ...] = ()
    """What `Annotated` adds."""
    is_known: bool = True
    is_fixed: bool = False


_UNKNOWN = _Noted(is_known=False)


def options_of(of: Class | Function, dialect: str, interpreter: Interpreter, prefix: str = "") -> Iterator[Option]:
    """Yield the options of a function's parameters: of a class, those of its `__init__`, or of its fields."""
    initialise = of.member("__init__") if isinstance(of, Class) else of
    if not isinstance(initialise, Function):
        return class_options(of, dialect, interpreter, prefix)  # type: ignore[arg-type]
    reader = _Reader(dialect, interpreter)
    return (option for each in reader.parameters(initialise) for option in reader.options(each, prefix, 0))


def class_options(cls: Class, dialect: str, interpreter: Interpreter, prefix: str = "") -> Iterator[Option]:
    """Yield the options of a dataclass, those of its bases first."""
    return _Reader(dialect, interpreter).of_fields(cls, prefix, 0)


class _Reader:
    """Reads annotations in a dialect."""

    def __init__(self, dialect: str, interpreter: Interpreter) -> None:
        self.style, self.interpreter = DIALECTS[dialect], interpreter

    def of_fields(self, cls: Class, prefix: str, depth: int) -> Iterator[Option]:
        """Yield the options of a class's fields."""
        found = {option.name: option for each in _fields(cls) for option in self.options(each, prefix, depth)}
        for name, value in cls.names.items():  # a subclass may change a default without an annotation
            if (option := found.get(f"{prefix}{name}")) and is_constant(value):
                found[option.name] = replace(option, default=value)
        yield from found.values()

    def parameters(self, function: Function) -> Iterator[_Named]:
        """Yield the parameters of a function, without `self`."""
        node, scope = function.node, Scope(function.module, {}, function.around)
        parameters = function.parameters()
        helps = _commented([each for each, _ in parameters], function.module.text)
        helps |= _documented("" if isinstance(node, ast.Lambda) else ast.get_docstring(node) or "")
        for at, (each, default) in enumerate(parameters):
            if each.arg not in ("self", "cls") or at > 0:
                value = self.interpreter.value(default, scope) if default is not None else UNKNOWN
                text = helps.get(each.arg, "")
                yield _Named(each.arg, each.annotation, value, default is not None, text, scope)

    def options(self, named: _Named, prefix: str, depth: int) -> Iterator[Option]:
        """Yield the option of one name, or those of its inner class."""
        noted = self._noted(named.annotation, named.scope)
        extra = next((each for each in noted.extra if isinstance(each, Made)), None)
        made = named.value if isinstance(named.value, Made) and _last(named.value) in _FIELDS else None
        settings = {**(extra.kwargs if extra else {}), **(made.kwargs if made else {})}
        if noted.is_fixed or settings.get("init") is False:
            return
        factory = settings.get("default_factory", settings.get("factory"))
        value, has_default = self._default(named, made, settings, factory)
        inner = noted.inner or (value.cls if isinstance(value, Instance) else None)
        if inner is None and isinstance(factory, Class) and not _is_enum(factory):
            inner = factory
        if inner is None or depth >= _DEEPEST:
            default = value if is_constant(value) else None
            default = list(default) if isinstance(default, tuple | set) else default
            yield self._option(
                f"{prefix}{named.name}", noted, default, named.help, settings, made or extra, has_default
            )
            return
        names = value.names if isinstance(value, Instance) else {}
        outer = f"{prefix}{named.name}." if self.style.nested else prefix
        for option in self.of_fields(inner, outer, depth + 1):
            given = names.get(option.name.rpartition(".")[2], UNKNOWN)
            yield replace(option, default=given) if is_constant(given) else option

    def _default(self, named: _Named, made: Made | None, settings: dict[str, Any], factory: Any) -> tuple[Any, bool]:
        """Return a default, and whether there is one."""
        value, has_default = named.value, named.has_default
        if made is not None:
            value = made.args[0] if _last(made) in _FIRST and made.args else settings.get("default", UNKNOWN)
            has_default = value is not UNKNOWN
        if isinstance(factory, Function) and not (made and has_default):
            built = self.interpreter.enter(factory, [], {})
            return (built, True) if made or isinstance(built, Instance) else (value, has_default)
        if made and factory is not None and not has_default:
            return ([] if factory == Library("builtins.list") else UNKNOWN), True
        return (UNKNOWN, False) if value is Ellipsis else (value, has_default)

    def _option(
        self,
        name: str,
        noted: _Noted,
        default: Any,
        text: str,
        settings: dict[str, Any],
        made: Made | None,
        has_default: bool,
    ) -> Option:
        """Return the option of a name with a plain value."""
        style = self.style
        said, choices = _said(settings, text, noted)
        kind = noted.kind if noted.is_known or default is None else kind_of(default)
        is_list = noted.is_list or kind == "list"
        if kind == "list":
            kind = kind_of(default[0]) if default else "str"
        outer, _, last = name.rpartition(".")
        start = f"--{outer.replace('_', style.word)}." if outer else "--"
        word = last.replace("_", style.word)
        flags, off = _flags(made, f"{start}{word}", f"{start}no-{word}")
        by_typer = _last(made) if made else ""
        if by_typer == "Argument" or (style.positional and not has_default and by_typer != "Option"):
            flags = ()
        default = default if is_list else _fitting(default, kind)
        how: Literal["joined", "separate"] = "joined" if style.joined else "separate"
        base = Option(name, flags, kind, "store", "", default, said, choices, outer, not has_default, style=how)
        if is_list and style.lists:
            return replace(base, nargs=style.lists)
        if is_list:
            return replace(base, type="str", default=str(default) if isinstance(default, list) else default)
        return _switch(base, off, style) if kind == "bool" and flags else base

    # ---- annotations -----------------------------------------------------------------------------------------------

    def _noted(self, node: ast.expr | None, scope: Scope) -> _Noted:
        """Read an annotation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self._noted(ast.parse(node.value, mode="eval").body, scope)
            except SyntaxError:
                return _UNKNOWN
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._either([node.left, node.right], scope)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, scope)
        if node is None:
            return _UNKNOWN
        name = ast.unparse(node).rpartition(".")[2]
        if name in _KINDS or name in _LISTS:
            return _Noted(_KINDS.get(name, "str"), is_list=name in _LISTS)
        found = self.interpreter.resolved(self.interpreter.value(node, scope))
        if not isinstance(found, Class):
            return _UNKNOWN
        if not _is_enum(found):
            return _Noted(inner=found)
        return _Noted(choices=tuple(each for each in found.names if each[0] != "_" and is_constant(found.names[each])))

    def _subscript(self, node: ast.Subscript, scope: Scope) -> _Noted:
        name = ast.unparse(node.value).rpartition(".")[2]
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            values = tuple(filter(is_constant, (self.interpreter.value(each, scope) for each in parts)))
            kinds = {kind_of(each) for each in values if each is not None}
            kind: Kind = kinds.pop() if len(kinds) == 1 else "str"
            return _Noted(kind, choices=values if kind != "bool" else ())
        if name == "ClassVar":
            return _Noted(is_fixed=True)
        if name in _THROUGH:
            extra = tuple(self.interpreter.value(each, scope) for each in parts[1:])
            return replace(self._noted(parts[0], scope), extra=extra)
        if name == "Union":
            return self._either(parts, scope)
        return replace(self._noted(parts[0], scope), is_list=True) if name in _LISTS and parts else _UNKNOWN

    def _either(self, parts: Sequence[ast.expr], scope: Scope) -> _Noted:
        """Read the alternatives of a union: one that isn't None, or all numbers; else it is text."""
        is_none = [isinstance(each, ast.Constant) and each.value is None for each in parts]
        noted = [self._noted(each, scope) for each, no in zip(parts, is_none, strict=True) if not no]
        if len(noted) == 1:
            return noted[0]
        if {each.kind for each in noted} <= {"int", "float"} and not any(each.is_list for each in noted):
            return _Noted("float")
        return _Noted(is_known=all(each.inner is None for each in noted))


def _fields(cls: Class) -> Iterator[_Named]:
    """Yield the fields of a class, those of its bases first."""
    for each in reversed([each for each in cls.line() if isinstance(each, Class)]):
        scope, helps = Scope(each.module, each.names), _helps(each)
        for node in each.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
                name = node.target.id
                value = each.names.get(name, UNKNOWN) if node.value else UNKNOWN
                yield _Named(name, node.annotation, value, node.value is not None, helps.get(name, ""), scope)


def _last(made: Made) -> str:
    return made.name.rpartition(".")[2]


def _switch(base: Option, off: tuple[str, ...], style: Dialect) -> Option:
    match style.switches:
        case "pair":
            return replace(base, action="pair", off_flags=off)
        case "optional":
            no = (f"--no_{base.name}", f"--no-{base.name}") if base.default else ()
            return replace(base, nargs="?", constant=True, no_flags=no)
        case "once":
            return replace(base, action="off" if base.default else "on")
    return replace(base, literals=("False", "True") if style.joined else ("false", "true"))


def _said(settings: dict[str, Any], text: str, noted: _Noted) -> tuple[str, tuple[Any, ...]]:
    """Return the help and the choices of a field."""
    metadata = settings.get("metadata")
    further = metadata if isinstance(metadata, dict) else {}
    texts = (settings.get("help"), settings.get("description"), further.get("help"), text)
    choices = further.get("choices", settings.get("choices"))
    if noted.choices or not isinstance(choices, list | tuple) or not is_constant(choices):
        choices = noted.choices
    return " ".join(next((each for each in texts if isinstance(each, str)), "").split()), tuple(choices)


def _fitting(default: Any, kind: Kind) -> Any:
    if kind == "float" and isinstance(default, int) and not isinstance(default, bool):
        return float(default)
    return str(default) if kind == "str" and default is not None and not isinstance(default, str) else default


def _flags(made: Made | None, flag: str, off: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags of an option, and those that write False; typer's may be named."""
    named = [each for each in made.args if isinstance(each, str) and each[:1] == "-"] if made else []
    if made is None or not made.name.startswith("typer") or not named:
        return (flag,), (off,)
    return tuple(each.split("/")[0] for each in named), tuple(each.split("/")[1] for each in named if "/" in each)


def _is_enum(cls: Class) -> bool:
    return any(isinstance(each, Library) and "enum" in each.name.lower() for each in cls.line())


# ---- help texts ----------------------------------------------------------------------------------------------------


def _helps(cls: Class) -> dict[str, str]:
    """Return the text of each field: the string below it, the comment beside or above it, or the docstring's."""
    found: dict[str, str] = {}
    lines = cls.module.text.splitlines()
    documented = _documented(ast.get_docstring(cls.node) or "")
    for node, below in zip(cls.node.body, [*cls.node.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            name = node.target.id
            found[name] = text if isinstance(text, str) else documented.get(name) or comment(lines, node)
    return found


def comment(lines: list[str], node: ast.stmt) -> str:
    """Return the comment beside a statement, else those directly above it."""
    end = (node.end_lineno or node.lineno) - 1
    after = lines[end].encode()[node.end_col_offset or 0 :].decode(errors="replace").strip() if end < len(lines) else ""
    if after.startswith("#"):
        return after.lstrip("# ")
    above: list[str] = []
    at = node.lineno - 2
    while at >= 0 and lines[at].strip().startswith("#") and len(above) < 4:
        above.insert(0, lines[at].strip().lstrip("# "))
        at -= 1
    return " ".join(above)


def _commented(parameters: Sequence[ast.arg], text: str) -> dict[str, str]:
    """Return the comments beside parameters that have a line each."""
    lines = [*text.splitlines(), ""]
    beside = ((each.arg, re.search(r",?\s#\s*(.+)$", lines[min(each.lineno, len(lines)) - 1])) for each in parameters)
    return {name: match[1] for name, match in beside if match}


def _documented(text: str) -> dict[str, str]:
    """Return what a docstring says of each argument, in the styles of Google, NumPy and Sphinx."""
    pattern = r"\s*(?::param\s+(?:\w+\s+)?)?(\w+)(?:\s*\([^)]*\))?\s*:\s+(\S.*)$"
    return {match[1]: match[2] for line in text.splitlines() if (match := re.match(pattern, line))}
