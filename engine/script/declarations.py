"""What one call of `add_argument` or one decorator of click declares, as an option."""

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from engine.script.field import Kind
from engine.script.values import Function, Library, Made, is_constant
from engine.script.words import Option, kind_of, name_of


def argparse_option(flags: list[str], kwargs: dict[str, Any], title: str, command: tuple[str, ...]) -> Option | None:
    """Return the option that `add_argument` declares; None for help and version."""
    is_positional = not flags[0].startswith("-")
    destination = kwargs.get("dest")
    long = next((each for each in flags if each.startswith("--")), flags[0])
    name = destination if isinstance(destination, str) else name_of(long) if not is_positional else flags[0]
    action = kwargs.get("action")
    said = kwargs.get("help")
    default = kwargs.get("default")
    default = default if is_constant(default) else None
    base = Option(
        name,
        () if is_positional else tuple(flags),
        help=" ".join(said.split()).replace("%%", "%") if isinstance(said, str) else "",
        group=title,
        command=command,
        required=kwargs.get("required") is True or (is_positional and kwargs.get("nargs") not in ("?", "*")),
    )
    if said == "==SUPPRESS==" or action in ("help", "version"):
        return None
    constant = kwargs.get("const")
    match action:
        case "store_true":
            return replace(base, type="bool", action="on", default=bool(default))
        case "store_false":
            return replace(base, type="bool", action="off", default=True if default is None else bool(default))
        case "store_const" | "append_const":
            on = isinstance(constant, bool)
            return replace(base, type="bool", action="on" if constant else "off", default=default) if on else None
        case "count":
            return replace(base, type="int", action="count", default=default or 0)
        case Library() if action.name.endswith("BooleanOptionalAction"):
            off = tuple(f"--no-{each[2:]}" for each in flags if each.startswith("--"))
            return replace(base, type="bool", action="pair", off_flags=off, default=default)
    return _valued(base, kwargs, default)


def _valued(base: Option, kwargs: dict[str, Any], default: Any) -> Option:
    """Return an option that takes values."""
    kind, literals = _kind_of_type(kwargs.get("type"), default)
    nargs = str(kwargs["nargs"]) if isinstance(kwargs.get("nargs"), str | int) else ""
    nargs = "..." if nargs == "A..." or isinstance(kwargs.get("nargs"), Library) else nargs
    choices = kwargs.get("choices")
    choices = tuple(choices) if isinstance(choices, list | tuple | dict | set) and is_constant(choices) else ()
    if kwargs.get("type") is None and choices and all(kind_of(each) == "str" for each in choices):
        kind = "str"
    action = "append" if kwargs.get("action") == "append" else "extend" if kwargs.get("action") == "extend" else "store"
    is_list = nargs not in ("", "?") or action != "store"
    constant = kwargs.get("const")
    if nargs == "?" and isinstance(constant, bool) and kwargs.get("type") is None:
        kind, default = "str", None if isinstance(default, bool) else default
    return replace(
        base,
        type=kind,
        action=action,  # type: ignore[arg-type]
        nargs=nargs,
        default=typed(default, kind, is_list),
        choices=choices if kind != "bool" else (),
        literals=literals,
        constant=constant if is_constant(constant) else None,
    )


def _kind_of_type(kind: Any, default: Any) -> tuple[Kind, tuple[str, str]]:
    """Return the type that a converter returns, and how it reads False and True."""
    if isinstance(kind, Function):
        return converter_kind(getattr(kind.node, "name", "<lambda>"), ast.unparse(kind.node), default)
    name = kind.name.rsplit(".", 1)[-1] if isinstance(kind, Library | Made) else "" if kind is None else "unknown"
    return converter_kind(name, "", default)


def converter_kind(name: str, source: str, default: Any) -> tuple[Kind, tuple[str, str]]:
    """Return the type that a converter of argparse returns, by its name and, if it is the script's own, its source;
    without a converter the default's. Also how it reads False and True.
    """
    spelled, last, text = ("False", "True"), name.lower(), source.lower()
    if not name:
        inner = default[0] if isinstance(default, list | tuple) and default else default
        known = inner is not None and not isinstance(inner, bool | list | tuple | dict)
        return (kind_of(inner) if known else "str"), spelled
    if last == "bool":
        return "bool", ("", "True")  # bool("False") is True
    is_truth = re.search(r"lower\(\).{0,20}(true|'yes'|'t'|\('|\[')", text) is not None
    if "bool" in last or "strtobool" in text or is_truth:
        return "bool", spelled
    if last in ("int", "int32", "int64", "float", "float32"):
        return ("int" if last.startswith("int") else "float"), spelled
    if source:
        returned = re.findall(r"(?:return|lambda \w+:) (int|float)\(", text)
        if returned and "split" not in text:
            return ("int" if returned[0] == "int" else "float"), spelled
        if isinstance(default, int | float):
            return kind_of(default), spelled
    return "str", spelled


def typed(default: Any, kind: Kind, is_list: bool) -> Any:
    """Return a default as its type has it, as argparse converts text; None if that isn't known."""
    if default is None:
        return None
    if is_list:
        values: Iterable[Any] = default if isinstance(default, list | tuple | set) else [default]
        return [typed(each, kind, False) for each in values]
    if isinstance(default, dict | list | tuple | set | bytes):
        return str(default) if default else None
    try:
        return _converted(default, kind)
    except (ValueError, OverflowError):
        return None


def _converted(default: Any, kind: Kind) -> Any:
    match kind:
        case "bool":
            return default.lower() in ("true", "yes", "1", "t", "y") if isinstance(default, str) else bool(default)
        case "str":
            return default if isinstance(default, str) else None if isinstance(default, bool) else str(default)
        case "float":
            number = float(default)
            return number if abs(number) < float("inf") else None
    return int(default) if isinstance(default, str) or default == int(default) else default


def click_option(made: Made) -> Option | None:
    """Return the option that a decorator of click declares."""
    texts = [each for each in made.args if isinstance(each, str)]
    flags = [each for each in texts if each.startswith("-")]
    if not texts:
        return None
    explicit = next((each for each in texts if not each.startswith("-")), "")
    on = [each.split("/")[0].strip() for each in flags]
    off = [each.split("/")[1].strip() for each in flags if "/" in each]
    longest = max(on, key=lambda each: len(each) - len(each.lstrip("-")), default="")
    name = explicit or name_of(longest).lower()
    default, kwargs = made.kwargs.get("default"), made.kwargs
    default = default if is_constant(default) else None
    said = kwargs.get("help")
    is_argument = made.name.endswith("argument")
    base = Option(
        name.replace("-", "_"),
        () if is_argument else tuple(on),
        help=" ".join(said.split()) if isinstance(said, str) else "",
        required=kwargs.get("required", is_argument and "default" not in kwargs) is True,
    )
    kind, choices = _click_type(kwargs.get("type"), default)
    if (
        off
        or kwargs.get("is_flag") is True
        or (kwargs.get("is_flag") is not False and isinstance(default, bool) and kwargs.get("type") is None)
    ):
        return replace(
            base,
            type="bool",
            action="pair" if off else "off" if default is True and not off else "on",
            off_flags=tuple(off),
            default=bool(default),
        )
    if kwargs.get("count") is True:
        return replace(base, type="int", action="count", default=default or 0)
    is_multiple = kwargs.get("multiple") is True
    number = kwargs.get("nargs", 1)
    nargs = "*" if number == -1 else str(number) if isinstance(number, int) and number > 1 else ""
    return replace(
        base,
        type=kind,
        action="append" if is_multiple else "store",
        nargs=nargs,
        default=typed(default, kind, is_multiple or bool(nargs)),
        choices=choices,
    )


def _click_type(kind: Any, default: Any) -> tuple[Kind, tuple[Any, ...]]:
    if isinstance(kind, Made) and kind.name.endswith("Choice"):
        values = kind.args[0] if kind.args else ()
        return "str", tuple(values) if isinstance(values, list | tuple) and is_constant(values) else ()
    if isinstance(kind, list | tuple) and is_constant(kind):
        return "str", tuple(kind)
    named = kind.name.rsplit(".", 1)[-1].lower() if isinstance(kind, Library | Made) else ""
    kinds: tuple[Kind, ...] = ("int", "float", "bool")
    for each in kinds:
        if named.startswith(each):
            return each, ()
    inner = default[0] if isinstance(default, list | tuple) and default else default
    return (kind_of(inner) if not named and inner is not None and not isinstance(inner, list) else "str"), ()


def known_help(node: ast.Call, kwargs: dict[str, Any]) -> dict[str, str]:
    """Return what is known of a help text that is put together."""
    described = next((each.value for each in node.keywords if each.arg == "help"), None)
    is_known = described is None or isinstance(kwargs.get("help"), str)
    return {} if described is None or is_known else {"help": _known_text(described)}


def _known_text(node: ast.expr) -> str:
    """Return what is known of a text that is put together, with … for the rest."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _known_text(left) + _known_text(right)
        case ast.JoinedStr(values=values):
            return "".join(map(_known_text, values))
    return "…"


def add_option(options: list[Option], option: Option) -> None:
    """Add an option; two flags that write True and False of one value are a pair, and a later one replaces its like."""
    for at, each in enumerate(options):
        if (each.name, each.command) != (option.name, option.command) or option.action == "command":
            continue
        if {each.action, option.action} == {"on", "off"}:
            on, off = (each, option) if each.action == "on" else (option, each)
            options[at] = replace(
                each, action="pair", flags=on.flags, off_flags=off.flags, default=each.default, help=on.help or off.help
            )
        elif each.flags == option.flags:
            options[at] = option
        elif each.action == "store" and option.is_switch:
            options[at] = replace(each, help=each.help or option.help)
        return
    options.append(option)
