"""What a script declares of one option, in the words of argparse, as an option: read from a call in its source, or from
the parser that a probe found.
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.script.field import Kind
from engine.script.values import Function, Library, Made, is_constant
from engine.script.words import Option, kind_of, name_of

Said = Mapping[str, Any]
"""A declaration: `dest`, `flags` (none of a positional argument); `action`, `type` (a name), `source` (of a converter
that the script defines), `nargs`, `const`, `default`, `choices`, `help`, `required` as in argparse; `off` (the flags
that write False), `group`, `command` (its subcommand), `style`.
"""


def option_of(said: Said) -> Option | None:
    """Return the option of a declaration; None for help, version and constants."""
    action, default, constant = said.get("action") or "store", said.get("default"), said.get("const")
    flags, nargs = tuple(map(str, said.get("flags") or ())), said.get("nargs")
    base = Option(
        str(said["dest"]),
        flags,
        help=" ".join(str(said.get("help") or "").split()),
        group=str(said.get("group") or ""),
        command=tuple(map(str, said.get("command") or ())),
        required=bool(said["required"]) if "required" in said else not flags and nargs not in ("?", "*"),
        style=said.get("style", "separate"),
    )
    if action in ("store_const", "append_const") and isinstance(constant, bool):
        action = "store_true" if constant else "store_false"
    match action:
        case "help" | "version" | "store_const" | "append_const":
            return None
        case "command":
            return replace(base, action="command", required=False, subcommands=tuple(map(str, said["choices"])))
        case "store_true":
            return replace(base, type="bool", action="on", default=bool(default))
        case "store_false":
            return replace(base, type="bool", action="off", default=default is None or bool(default))
        case "count":
            return replace(base, type="int", action="count", default=default or 0)
        case "pair" | "BooleanOptionalAction":
            off = tuple(said.get("off") or [each for each in flags if re.match(r"--(.*\.)?no-", each)])
            on = tuple(each for each in flags if each not in off)
            off = off or tuple(f"--no-{each[2:]}" for each in flags if each.startswith("--"))
            return replace(base, flags=on, type="bool", action="pair", off_flags=off, default=default)
    return _valued(base, said, str(action))


def _valued(base: Option, said: Said, action: str) -> Option:
    """Return an option that takes values."""
    default, constant, converter = said.get("default"), said.get("const"), str(said.get("type") or "")
    kind, literals = converter_kind(converter, str(said.get("source") or ""), default)
    nargs = str(said["nargs"]).replace("A...", "...") if isinstance(said.get("nargs"), str | int) else ""
    listed = said.get("choices")
    choices = tuple(listed) if isinstance(listed, list | tuple | dict | set) else ()
    if not converter and choices and all(isinstance(each, str) for each in choices):
        kind = "str"
    if nargs == "?" and isinstance(constant, bool) and not converter:
        kind, default = "str", None if isinstance(default, bool) else default
    option = replace(
        base,
        type=kind,
        action=action if action in ("append", "extend") else "store",  # type: ignore[arg-type]
        nargs=nargs,
        choices=choices if kind != "bool" else (),
        literals=literals,
        constant=constant,
    )
    return replace(option, default=typed(default, kind, option.is_list))


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


# ---- from the source -----------------------------------------------------------------------------------------------


def argparse_option(flags: Sequence[str], kwargs: Said, group: str, command: tuple[str, ...]) -> Option | None:
    """Return the option that a call of `add_argument` declares."""
    is_positional = not flags[0].startswith("-")
    long = next((each for each in flags if each.startswith("--")), flags[0])
    said = _constants(kwargs)
    destination = said.get("dest")
    said["dest"] = destination if isinstance(destination, str) else flags[0] if is_positional else name_of(long)
    said |= {"flags": () if is_positional else flags, "group": group, "command": command}
    said |= {"type": _last_name(kwargs.get("type")), "help": str(said.get("help") or "").replace("%%", "%")}
    if isinstance(kind := kwargs.get("type"), Function):
        said |= {"type": getattr(kind.node, "name", "<lambda>"), "source": ast.unparse(kind.node)}
    if isinstance(kwargs.get("action"), Library):
        said["action"] = _last_name(kwargs["action"])
    if isinstance(kwargs.get("nargs"), Library):  # argparse.REMAINDER
        said["nargs"] = "..."
    if said.pop("required", None) is True:
        said["required"] = True
    return option_of(said)


def click_option(made: Made) -> Option | None:
    """Return the option that a decorator of click declares."""
    texts = [each for each in made.args if isinstance(each, str)]
    flags = [each for each in texts if each.startswith("-")]
    if not texts:
        return None
    is_argument = made.name.endswith("argument")
    on = [each.split("/")[0].strip() for each in flags]
    longest = max(on, key=lambda each: len(each) - len(each.lstrip("-")), default="")
    explicit = next((each for each in texts if not each.startswith("-")), "")
    said = _constants(made.kwargs)
    said["dest"] = (explicit or name_of(longest).lower()).replace("-", "_")
    said |= {"flags": () if is_argument else on, "off": [each.split("/")[1].strip() for each in flags if "/" in each]}
    said["required"] = said.get("required", is_argument and "default" not in made.kwargs) is True
    kind = made.kwargs.get("type")
    if "is_flag" not in said:
        said["is_flag"] = isinstance(said.get("default"), bool) and kind is None
    said["type"] = _last_name(kind)
    choices = kind.args[0] if isinstance(kind, Made) and said["type"].endswith("Choice") and kind.args else kind
    if isinstance(choices, list | tuple):
        said |= {"type": "choice", "choices": choices if is_constant(choices) else ()}
    return option_of(click_words(said))


def absl_option(kind: str, args: Sequence[Any], kwargs: Said) -> Option | None:
    """Return the flag that a call of absl's `DEFINE_…` declares."""
    said = _constants({**dict(zip(("name", "default"), args, strict=False)), **kwargs})
    if not isinstance(name := said.get("name"), str):
        return None
    said.setdefault("help", next((each for each in args[2:] if isinstance(each, str)), ""))
    said["choices"] = kwargs.get("enum_values", args[2] if kind == "enum" and len(args) > 2 else ())
    said |= {"dest": name, "type": kind, "off": [f"--no{name}"] if kind.startswith("bool") else []}
    return option_of(absl_words({**said, "flags": [f"--{name}"]}))


def _constants(kwargs: Said) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if is_constant(value)}


def _last_name(kind: Any) -> str:
    """Return the name of a library's type; "" of none."""
    return kind.name.rpartition(".")[2] if isinstance(kind, Library | Made) else "" if kind is None else "unknown"


# ---- the words of other libraries ----------------------------------------------------------------------------------


def click_words(said: Said) -> Said:
    """Return what click says of a parameter in the words of argparse."""
    default, number = said.get("default"), said.get("nargs", 1)
    action = "append" if said.get("multiple") else "count" if said.get("count") else "store"
    if said.get("off"):
        action, default = "pair", bool(default)
    elif said.get("is_flag"):
        action = "store_false" if default is True else "store_true"
    nargs = "*" if number == -1 else str(number) if isinstance(number, int) and number > 1 else None
    return {**said, "action": action, "default": default, "nargs": nargs, "type": _plain_type(said.get("type"))}


def absl_words(said: Said) -> Said:
    """Return what absl says of a flag in the words of argparse."""
    kind = str(said["type"])
    action = "pair" if said.get("off") else "append" if kind.startswith("multi") else "store"
    element = _plain_type(kind[6:] if action == "append" else kind)
    return {"required": False, **said, "action": action, "type": element, "style": "joined"}


def fire_words(said: Said) -> Said:
    """Return what fire reads from a parameter in the words of argparse."""
    return {**said, "type": _plain_type(said["type"]), "style": "joined"}


def _plain_type(name: Any) -> str:
    """Return the converter of argparse that is like a type of another library, such as `integer range`."""
    starts = {"int": "int", "float": "float", "bool": "boolean"}
    return next((kind for start, kind in starts.items() if str(name).lower().startswith(start)), name and "text")


# ---- several calls -------------------------------------------------------------------------------------------------


def known_help(node: ast.Call, kwargs: Said) -> dict[str, str]:
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
            options[at] = replace(each, action="pair", flags=on.flags, off_flags=off.flags, help=on.help or off.help)
        elif each.flags == option.flags:
            options[at] = option
        elif each.action == "store" and option.is_switch:
            options[at] = replace(each, help=each.help or option.help)
        return
    options.append(option)
