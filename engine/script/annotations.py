"""Options that dataclasses and signatures declare by annotations, in the dialect of their parser."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from engine.script.field import Kind
from engine.script.interpreter import Interpreter, Scope
from engine.script.values import UNKNOWN, Class, Function, Instance, Library, Made, is_constant
from engine.script.words import Option, kind_of

_LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "set", "Set", "frozenset", "Iterable", "Collection"}
_KINDS: dict[str, Kind] = {"int": "int", "float": "float", "bool": "bool", "str": "str", "Path": "str"}
_THROUGH = {"Annotated", "Optional", "Final", "Positional", "Fixed", "InitVar", "ClassVar", "Required"}
_FIELDS = {"field", "Field", "attrib", "ib", "arg", "flag", "mutable", "list_field", "choice", "subgroups"}
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


def class_options(
    cls: Class, dialect: str, interpreter: Interpreter, prefix: str = "", depth: int = 0
) -> Iterator[Option]:
    """Yield the options of a dataclass, those of its bases first."""
    seen: dict[str, Option] = {}
    for each in reversed([each for each in cls.line() if isinstance(each, Class)]):
        scope = Scope(each.module, each.names)
        helps = _helps(each)
        for node in each.node.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.target.id[0] == "_":
                continue
            name = node.target.id
            value = each.names.get(name, UNKNOWN) if node.value else UNKNOWN
            for option in _options(
                name,
                node.annotation,
                value,
                node.value is not None,
                helps.get(name, ""),
                dialect,
                interpreter,
                scope,
                prefix,
                depth,
            ):
                seen[option.name] = option
    for base in cls.line():
        if isinstance(base, Class):
            for name, value in base.names.items():  # a subclass may change a default without an annotation
                full = f"{prefix}{name}"
                if full in seen and is_constant(value) and base is cls:
                    seen[full] = replace(seen[full], default=value)
    yield from seen.values()


def function_options(function: Function, dialect: str, interpreter: Interpreter, prefix: str = "") -> Iterator[Option]:
    """Yield the options of a function's parameters."""
    spec = function.node.args
    scope = Scope(function.module, {}, function.around)
    plain = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [*([None] * (len(plain) - len(spec.defaults))), *spec.defaults]
    helps = _documented(ast.get_docstring(function.node) or "") if not isinstance(function.node, ast.Lambda) else {}
    helps = {**_commented(plain + spec.kwonlyargs, function.module.text), **helps}
    for at, (each, default) in enumerate(
        [*zip(plain, defaults, strict=True), *zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    ):
        if each.arg in ("self", "cls") and at == 0:
            continue
        value = interpreter.value(default, scope) if default is not None else UNKNOWN
        yield from _options(
            each.arg,
            each.annotation,
            value,
            default is not None,
            helps.get(each.arg, ""),
            dialect,
            interpreter,
            scope,
            prefix,
            0,
        )


def _options(
    name: str,
    annotation: ast.expr | None,
    value: Any,
    has_default: bool,
    text: str,
    dialect: str,
    interpreter: Interpreter,
    scope: Scope,
    prefix: str,
    depth: int,
) -> Iterator[Option]:
    """Yield the option of one name, or those of its inner class."""
    style = DIALECTS[dialect]
    noted = _noted(annotation, interpreter, scope)
    if noted.is_fixed:
        return
    extra = next((each for each in noted.extra if isinstance(each, Made)), None)
    made = (
        value if isinstance(value, Made) and value.name.rsplit(".", 1)[-1] in {*_FIELDS, "Option", "Argument"} else None
    )
    settings = {**(extra.kwargs if extra else {}), **(made.kwargs if made else {})}
    if settings.get("init") is False:
        return
    inner = noted.inner
    if inner is None and isinstance(value, Instance):
        inner = value.cls
    factory = settings.get("default_factory", settings.get("factory"))
    if isinstance(factory, Function) and isinstance(built := interpreter.enter(factory, [], {}), Instance):
        value, inner = built, inner or built.cls
    if inner is None and isinstance(factory, Class) and not _is_enum(factory):
        inner = factory
    if inner is not None and depth < _DEEPEST:
        outer = f"{prefix}{name}." if style.nested else prefix
        for option in class_options(inner, dialect, interpreter, outer, depth + 1):
            given = value.names.get(option.name.rsplit(".", 1)[-1], UNKNOWN) if isinstance(value, Instance) else UNKNOWN
            yield replace(option, default=given) if is_constant(given) else option
        return
    default, has_default = _default(value, made, settings, has_default, interpreter)
    yield _option(f"{prefix}{name}", noted, default, has_default, text, style, settings, made or extra)


def _default(
    value: Any, made: Made | None, settings: dict[str, Any], has_default: bool, interpreter: Interpreter
) -> tuple[Any, bool]:
    """Return a default, and whether there is one."""
    if made is not None:
        is_first = (
            made.name.rsplit(".", 1)[-1] in ("Field", "Option", "Argument", "flag", "arg", "mutable") and made.args
        )
        value = made.args[0] if is_first else settings.get("default", UNKNOWN)
        has_default = value is not UNKNOWN
        factory = settings.get("default_factory", settings.get("factory"))
        if factory is not None and not has_default:
            value, has_default = [] if factory == Library("builtins.list") else UNKNOWN, True
            if isinstance(factory, Function):
                value = interpreter.enter(factory, [], {})
        if value is Ellipsis:
            value, has_default = UNKNOWN, False
    if isinstance(value, Library | Made | Instance) or not is_constant(value):
        value = None
    return (list(value) if isinstance(value, tuple | set) else value), has_default


def _option(
    name: str,
    noted: _Noted,
    default: Any,
    has_default: bool,
    text: str,
    style: Dialect,
    settings: dict[str, Any],
    made: Made | None,
) -> Option:
    """Return the option of a name with a plain value."""
    said, choices = _said(settings, text, noted)
    kind = noted.kind if noted.is_known or default is None else kind_of(default)
    is_list = noted.is_list or kind == "list"
    if kind == "list":
        kind = kind_of(default[0]) if default else "str"
    if not is_list:
        default = _fitting(default, kind)
    outer, _, last = name.rpartition(".")
    start = f"--{outer.replace('_', style.word)}." if outer else "--"
    word = last.replace("_", style.word)
    flags, off = _named(made, f"{start}{word}", f"{start}no-{word}")
    by_typer = made.name.rsplit(".", 1)[-1] if made else ""
    if by_typer == "Argument" or (style.positional and not has_default and by_typer != "Option"):
        flags = ()
    base = Option(
        name,
        flags,
        kind,
        default=default,
        help=" ".join(said.split()),
        choices=choices,
        group=outer,
        required=not has_default,
        style="joined" if style.joined else "separate",
    )
    if is_list and style.lists:
        return replace(base, nargs=style.lists)
    if is_list:
        return replace(base, type="str", default=str(default) if isinstance(default, list) else default)
    return _switch(base, off, style) if kind == "bool" and flags else base


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
    return next((each for each in texts if isinstance(each, str)), ""), tuple(choices)


def _fitting(default: Any, kind: Kind) -> Any:
    if kind == "float" and isinstance(default, int) and not isinstance(default, bool):
        return float(default)
    return str(default) if kind == "str" and default is not None and not isinstance(default, str) else default


def _named(made: Made | None, flag: str, off: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags of an option, and those that write False; typer's may be named."""
    named = [each for each in made.args if isinstance(each, str) and each[:1] == "-"] if made else []
    if made is None or not made.name.startswith("typer") or not named:
        return (flag,), (off,)
    return tuple(each.split("/")[0] for each in named), tuple(each.split("/")[1] for each in named if "/" in each)


def _noted(node: ast.expr | None, interpreter: Interpreter, scope: Scope) -> _Noted:
    """Read an annotation."""
    if node is None:
        return _Noted(is_known=False)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _noted(ast.parse(node.value, mode="eval").body, interpreter, scope)
        except SyntaxError:
            return _Noted(is_known=False)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either([node.left, node.right], interpreter, scope)
    if isinstance(node, ast.Subscript):
        return _subscript(node, interpreter, scope)
    name = ast.unparse(node).rsplit(".", 1)[-1]
    if name in _KINDS:
        return _Noted(_KINDS[name])
    if name in _LISTS:
        return _Noted("str", is_list=True)
    found = interpreter.resolved(interpreter.value(node, scope))
    if isinstance(found, Class):
        if _is_enum(found):
            return _Noted(
                "str", choices=tuple(each for each in found.names if each[0] != "_" and is_constant(found.names[each]))
            )
        return _Noted(inner=found)
    return _Noted(is_known=False)


def _subscript(node: ast.Subscript, interpreter: Interpreter, scope: Scope) -> _Noted:
    name = ast.unparse(node.value).rsplit(".", 1)[-1]
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        values = tuple(interpreter.value(each, scope) for each in parts)
        kinds = {kind_of(each) for each in values if is_constant(each) and each is not None}
        kind: Kind = kinds.pop() if len(kinds) == 1 else "str"
        return _Noted(kind, choices=tuple(each for each in values if is_constant(each)) if kind != "bool" else ())
    if name == "ClassVar":
        return _Noted(is_fixed=True)
    if name in _THROUGH:
        noted = _noted(parts[0], interpreter, scope)
        return replace(noted, extra=tuple(interpreter.value(each, scope) for each in parts[1:]))
    if name == "Union":
        return _either(parts, interpreter, scope)
    if name in _LISTS and parts:
        return replace(_noted(parts[0], interpreter, scope), is_list=True)
    return _Noted(is_known=False)


def _either(parts: list[ast.expr], interpreter: Interpreter, scope: Scope) -> _Noted:
    """Read the alternatives of a union: one that isn't None, or all numbers; else it is text."""
    noted = [
        _noted(each, interpreter, scope)
        for each in parts
        if not (isinstance(each, ast.Constant) and each.value is None)
    ]
    if len(noted) == 1:
        return noted[0]
    if {each.kind for each in noted} <= {"int", "float"} and not any(each.is_list for each in noted):
        return _Noted("float")
    return _Noted("str", is_known=all(each.inner is None for each in noted))


def _is_enum(cls: Class) -> bool:
    return any(isinstance(each, Library) and "enum" in each.name.lower() for each in cls.line())


def _helps(cls: Class) -> dict[str, str]:
    """Return the text of each field: the string below it, the comment beside or above it, or the docstring's."""
    found: dict[str, str] = {}
    lines = cls.module.text.splitlines()
    documented = _documented(ast.get_docstring(cls.node) or "")
    for at, node in enumerate(cls.node.body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        below = cls.node.body[at + 1] if at + 1 < len(cls.node.body) else None
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            found[node.target.id] = below.value.value
        else:
            found[node.target.id] = documented.get(node.target.id) or comment(lines, node)
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


def _commented(parameters: list[ast.arg], text: str) -> dict[str, str]:
    """Return the comments beside parameters that have a line each."""
    lines = text.splitlines()
    found = {}
    for each in parameters:
        line = lines[each.lineno - 1] if each.lineno <= len(lines) else ""
        if match := re.search(r",?\s#\s*(.+)$", line):
            found[each.arg] = match[1]
    return found


def _documented(text: str) -> dict[str, str]:
    """Return what a docstring says of each argument, in the styles of Google, NumPy and Sphinx."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := re.match(r"\s*(?::param\s+(?:\w+\s+)?)?(\w+)(?:\s*\([^)]*\))?\s*:\s+(\S.*)$", line):
            found[match[1]] = match[2]
    return found
