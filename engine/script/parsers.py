"""The parser that a script builds, found in its source: of argparse and what wraps it, click, typer, absl, tyro."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.script.annotations import class_options, comment, function_options
from engine.script.field import Kind
from engine.script.interpreter import (
    UNKNOWN,
    Class,
    Finished,
    Function,
    Instance,
    Interpreter,
    Library,
    Made,
    Module,
    Scope,
    is_constant,
)
from engine.script.words import Option, kind_of, name_of

_PARSER = re.compile(r"(Arg|Argument|Option|HfArgument|Trl)s?Parser$|ArgumentParser$|(^|\.)Tap$")
_FLAGS: dict[str, tuple[Kind, str]] = {
    "string": ("str", ""),
    "integer": ("int", ""),
    "float": ("float", ""),
    "bool": ("bool", ""),
    "boolean": ("bool", ""),
    "enum": ("str", ""),
    "list": ("str", ""),
    "multi_string": ("str", "append"),
    "multi_integer": ("int", "append"),
    "multi_float": ("float", "append"),
}
_ENTRIES = {
    "tyro.cli": "tyro",
    "tyro.extras.overridable_config_cli": "tyro",
    "simple_parsing.parse": "simple_parsing",
    "pyrallis.parse": "draccus",
    "draccus.parse": "draccus",
    "fire.Fire": "fire",
    "jsonargparse.CLI": "jsonargparse",
    "jsonargparse.auto_cli": "jsonargparse",
    "typer.run": "typer",
    "defopt.run": "typer",
    "chz.entrypoint": "hydra",
    "chz.nested_entrypoint": "hydra",
}
_WRAPS = {"pyrallis.wrap": "draccus", "draccus.wrap": "draccus"}


@dataclass(eq=False)
class Parser:
    """A parser of argparse, or of what wraps it."""

    options: list[Option] = field(default_factory=list)
    command: tuple[str, ...] = ()
    is_parsed: bool = False
    computed: int = 0
    """Number of options that only running the script would tell."""
    groups: int = 0
    dialect: str = ""


@dataclass(frozen=True, eq=False)
class ArgumentGroup:
    """A group of a parser's options."""

    parser: Parser
    title: str


@dataclass(frozen=True, eq=False)
class Subparsers:
    """The subcommands of a parser."""

    parser: Parser
    at: int


@dataclass(eq=False)
class Hydra:
    """What `hydra.main` says."""

    path: str | None
    name: str | None
    stored: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Lightning:
    """What `LightningCLI` was made with."""

    options: list[Option]


class ScriptParsers(Interpreter):
    """Follows a script and keeps the parsers that it makes."""

    def __init__(self, script: Path, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(script, folder, environment)
        self.parsers: list[Parser] = []
        self.flags = Parser()
        self.commands: list[tuple[Any, Function]] = []
        """Functions that click, typer or Hydra decorate."""
        self.hydra: Hydra | None = None
        self.lightning: Lightning | None = None
        self.constants: dict[str, tuple[Any, str]] | None = None
        """What a configurator may change, with its comment."""
        self.kind = ""
        self.stored: dict[str, Any] = {}

    # ---- calls -----------------------------------------------------------------------------------------------------

    def called(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return what a call of a library returns."""
        last = name.rsplit(".", 1)[-1]
        if _PARSER.search(name):
            return self._parser(name, args, kwargs)
        if last.startswith("DEFINE_"):
            return self._flag(last.removeprefix("DEFINE_"), args, kwargs)
        if name in _ENTRIES:
            return self._entry(name, args, kwargs)
        if last == "LightningCLI":
            return self._lightning(args, kwargs)
        if last == "exec" and "configurator" in ast.unparse(node):
            return self._configurator(scope)
        if name.endswith(("app.run", "absl.app.run")) and self.flags.options:
            self.flags.is_parsed = True
            self.kind = "absl"
            self.parsers.append(self.flags)
            raise Finished
        if name == "click.Choice":
            return Made(name, tuple(args), kwargs)
        return Made(name, tuple(args), kwargs)

    def method(self, of: Any, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Return what a method of a parser, of a group or of an application returns."""
        if isinstance(of, Subparsers) and name == "add_parser":
            return self._subparser(of, args, kwargs)
        if isinstance(of, Parser | ArgumentGroup):
            return self._of_parser(of, name, args, kwargs, node)
        if isinstance(of, Made) and of.name.endswith("ConfigStore.instance") and name == "store":
            key = kwargs.get("name", args[0] if args else None)
            group = kwargs.get("group")
            if isinstance(key, str) and not group:
                self.stored[key.removesuffix(".yaml")] = kwargs.get("node", args[1] if len(args) > 1 else None)
        if isinstance(of, Made) and of.name == "typer.Typer" and name == "command":
            return Made("typer.command", (*args,), {**kwargs, "app": of})
        if isinstance(of, Made) and name in ("option", "argument", "command", "group"):
            return Made(f"click.{name}", tuple(args), kwargs)
        if isinstance(of, Function) and name in ("command", "group"):
            return Made(f"click.{name}", tuple(args), {**kwargs, "within": of})
        return UNKNOWN

    def decorated(self, decorator: Any, function: Function, scope: Scope) -> None:
        """Keep a function that click, typer, Hydra or draccus start the script with."""
        if isinstance(decorator, Library) and decorator.name in ("click.command", "click.group"):
            decorator = Made(decorator.name)
        if not isinstance(decorator, Made):
            return
        if (
            decorator.name in ("click.command", "click.group", "typer.command", "hydra.main")
            or decorator.name in _WRAPS
        ):
            self.commands.append((decorator, function))

    def enter(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow a call of a function; a decorated one parses the command line."""
        for decorator, known in self.commands:
            if known.node is function.node:
                self._start(decorator, known)
        return super().enter(function, args, kwargs)

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return what a call returns; that of a typer application parses the command line."""
        if isinstance(function, Made) and function.name == "typer.Typer":
            self._typer(function)
        if isinstance(function, Class) and any(
            isinstance(each, Library) and each.name.endswith("LightningCLI") for each in function.line()
        ):
            super().call(function, args, kwargs, node, scope)
            return self._lightning(args, kwargs)
        return super().call(function, args, kwargs, node, scope)

    # ---- argparse --------------------------------------------------------------------------------------------------

    def _parser(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Parser:
        made = Parser()
        if name.endswith("Tap") and args and isinstance(args[0], Instance):
            made.dialect = "tap"
            made.options.extend(class_options(args[0].cls, "tap", self))
        for parent in kwargs.get("parents") or ():
            if isinstance(parent, Parser):
                made.options.extend(parent.options)
        if re.search(r"(HfArgument|TrlParser|H4Argument)", name):
            made.dialect = "huggingface"
            types = kwargs.get("dataclass_types", next(iter(args), ()))
            for each in types if isinstance(types, list | tuple) else [types]:
                if isinstance(each, Class):
                    group = each.node.name
                    made.options.extend(replace(one, group=group) for one in class_options(each, "huggingface", self))
                if not isinstance(each, Class) or any(isinstance(base, Library) for base in each.line()):
                    made.computed += not isinstance(each, Class) or not _is_plain(each)
        if name.startswith("simple_parsing"):
            made.dialect = "simple_parsing"
        if name.startswith("jsonargparse"):
            made.dialect = "jsonargparse"
        self.parsers.append(made)
        return made

    def _of_parser(
        self, of: Parser | ArgumentGroup, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call
    ) -> Any:
        parser, title = (of.parser, of.title) if isinstance(of, ArgumentGroup) else (of, "")
        match name:
            case "add_argument" | "add" | "add_arg" | "add_option":
                self._argument(parser, title, args, kwargs)
            case "add_argument_group":
                said = kwargs.get("title", args[0] if args else "")
                return ArgumentGroup(parser, said if isinstance(said, str) else "")
            case "add_mutually_exclusive_group":
                return ArgumentGroup(parser, title)
            case "add_subparsers":
                destination = kwargs.get("dest")
                named = destination if isinstance(destination, str) else f"command{len(parser.command) or ''}"
                parser.options.append(Option(named, action="command", command=parser.command))
                return Subparsers(parser, len(parser.options) - 1)
            case "set_defaults":
                for key, value in kwargs.items():
                    _change_default(parser, key, value)
            case "parse_args" | "parse_known_args" | "parse_args_into_dataclasses" | "parse" | "parse_args_and_config":
                return self._parsed(parser, name, args, kwargs)
            case "add_arguments" | "add_dataclass_arguments" | "add_class_arguments" if args:
                self._class_arguments(parser, args, kwargs)
            case "add_argument_group_from" | "error" | "print_help":
                pass
        return UNKNOWN

    def _parsed(self, parser: Parser, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        words = kwargs.get("args", args[0] if args else None)
        if isinstance(words, list) and is_constant(words):
            return UNKNOWN
        parser.is_parsed = True
        self.kind = self.kind or "argparse"
        if name == "parse_known_args":
            return (UNKNOWN, UNKNOWN)
        if parser.options:
            raise Finished
        return UNKNOWN

    def _class_arguments(self, parser: Parser, args: list[Any], kwargs: dict[str, Any]) -> None:
        destination = kwargs.get("dest", kwargs.get("nested_key", args[1] if len(args) > 1 else ""))
        if isinstance(args[0], Class):
            if parser.dialect == "simple_parsing":
                parser.options.extend(
                    replace(one, group=one.group or args[0].node.name)
                    for one in class_options(args[0], "simple_parsing", self)
                )
            else:
                parser.options.extend(self.constructed(args[0], f"{destination}." if destination else ""))
        else:
            parser.computed += 1

    def constructed(self, cls: Class, prefix: str, dialect: str = "jsonargparse") -> Iterator[Option]:
        """Yield the options of a class's `__init__`, or of a dataclass."""
        initialise = self.member(cls, "__init__")
        if isinstance(initialise, Function):
            yield from function_options(initialise, dialect, self, prefix)
        else:
            yield from class_options(cls, dialect, self, prefix)

    def _subparser(self, of: Subparsers, args: list[Any], kwargs: dict[str, Any]) -> Parser:
        named = args[0] if args and isinstance(args[0], str) else kwargs.get("name", "")
        made = Parser(command=(*of.parser.command, str(named)))
        made.options = of.parser.options  # one list, in which each option has its subcommand
        for parent in kwargs.get("parents") or ():
            if isinstance(parent, Parser):
                made.options.extend(replace(each, command=made.command) for each in list(parent.options))
        place = of.parser.options[of.at]
        of.parser.options[of.at] = replace(place, subcommands=(*place.subcommands, str(named)))
        return made

    def _argument(self, parser: Parser, title: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        flags = [each for each in args if isinstance(each, str)]
        if not flags and isinstance(kwargs.get("dest"), str):
            flags = [kwargs["dest"]]
        if not flags or len(flags) < len([each for each in args if not isinstance(each, Instance)]):
            parser.computed += 1
            return
        option = _argparse_option(flags, kwargs, title, parser.command)
        if option is not None:
            _add(parser.options, option)

    # ---- other libraries -------------------------------------------------------------------------------------------

    def _flag(self, kind: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        named = kwargs.get("name", args[0] if args else None)
        default = kwargs.get("default", args[1] if len(args) > 1 else None)
        texts = [each for each in args[2:] if isinstance(each, str)]
        said = kwargs.get("help", texts[0] if texts else "")
        if not isinstance(named, str):
            return UNKNOWN
        if kind in ("config_file", "config_dict"):
            self.flags.options.append(
                Option(named, (f"--{named}",), "str", default=default if isinstance(default, str) else None)
            )
            self.flags.computed += 1
            return UNKNOWN
        element, action = _FLAGS.get(kind, ("str", ""))
        values = kwargs.get("enum_values", args[2] if kind == "enum" and len(args) > 2 else ())
        option = Option(
            named,
            (f"--{named}",),
            element,
            "append" if action else "pair" if element == "bool" else "store",
            default=typed(default, element, bool(action)),
            help=said if isinstance(said, str) else "",
            choices=tuple(values) if isinstance(values, list | tuple) else (),
            off_flags=(f"--no{named}",) if element == "bool" else (),
            style="joined",
        )
        _add(self.flags.options, option)
        return UNKNOWN

    def _entry(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        dialect = _ENTRIES[name]
        wanted = args[0] if args else kwargs.get("config_class", kwargs.get("component", UNKNOWN))
        parser = Parser(is_parsed=True, dialect=dialect)
        self.parsers.append(parser)
        self.kind = name.split(".")[0]
        if dialect == "fire":
            self._fire(parser, wanted)
        elif isinstance(wanted, Class):
            build = class_options if dialect in ("tyro", "simple_parsing", "draccus", "hydra") else None
            parser.options.extend(build(wanted, dialect, self) if build else self.constructed(wanted, "", dialect))
        elif isinstance(wanted, Function):
            parser.options.extend(function_options(wanted, dialect, self))
        else:
            parser.computed += 1
        if dialect == "hydra":
            parser.options = [replace(each, style="assigned") for each in parser.options]
        raise Finished

    def _fire(self, parser: Parser, wanted: Any) -> None:
        """Add the options of a function, or of each function of a class, dictionary or module as a subcommand."""
        if isinstance(wanted, Function):
            parser.options.extend(function_options(wanted, "fire", self))
            return
        if isinstance(wanted, Class):
            parser.options.extend(self.constructed(wanted, "", "fire"))
        names = wanted.names if isinstance(wanted, Class) else wanted if isinstance(wanted, dict) else None
        if names is None:
            entry = self.modules[self.script]
            names = {name: each for name, each in entry.names.items() if isinstance(each, Function)}
        chosen = {name: each for name, each in names.items() if isinstance(each, Function) and name[0] != "_"}
        parser.options.append(Option("command", action="command", subcommands=tuple(chosen)))
        for name, each in chosen.items():
            parser.options.extend(replace(one, command=(name,)) for one in function_options(each, "fire", self))

    def _configurator(self, scope: Scope) -> Any:
        """Keep the constants so far: nanoGPT's configurator takes `--name=value` for each of them."""
        lines = scope.module.text.splitlines()
        found: dict[str, tuple[Any, str]] = {}
        for node in scope.module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                value = scope.names.get(name, UNKNOWN)
                if name[0] != "_" and (isinstance(value, bool | int | float | str) or _is_text(node.value)):
                    found[name] = (value if is_constant(value) else None, comment(lines, node))
        self.constants = found
        raise Finished

    def _lightning(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        options: list[Option] = []
        places = [each for each in args if not isinstance(each, Instance)]
        for at, (name, prefix) in enumerate((("model_class", "model."), ("datamodule_class", "data."))):
            cls = kwargs.get(name, places[at] if at < len(places) else None)
            if isinstance(cls, Class):
                options.extend(replace(each, group=prefix[:-1]) for each in self.constructed(cls, prefix))
        self.lightning = Lightning(options)
        self.kind = "lightning"
        raise Finished

    # ---- decorated functions ---------------------------------------------------------------------------------------

    def _start(self, decorator: Made, function: Function) -> None:
        """Keep the options of a decorated function as those of the script."""
        parser = Parser(is_parsed=True)
        if decorator.name == "hydra.main":
            path, name = (
                decorator.kwargs.get(each, decorator.args[at] if at < len(decorator.args) else None)
                for at, each in enumerate(("config_path", "config_name"))
            )
            self.hydra = Hydra(
                path if isinstance(path, str) else None, name if isinstance(name, str) else None, self.stored
            )
            self.kind = "hydra"
            raise Finished
        self.parsers.append(parser)
        if decorator.name in _WRAPS:
            self.kind = decorator.name.split(".")[0]
            parameter = next(iter(function.node.args.args), None)
            wanted = (
                self.resolved(self.value(parameter.annotation, Scope(function.module, {})))
                if parameter and parameter.annotation
                else None
            )
            if isinstance(wanted, Class):
                parser.options.extend(class_options(wanted, "draccus", self))
            raise Finished
        self.kind = "click"
        parser.options.extend(self._click(function))
        if decorator.name == "click.group":
            self._subcommands(parser, function, ())
        raise Finished

    def _subcommands(self, parser: Parser, group: Function, command: tuple[str, ...]) -> None:
        inner = [(made, each) for made, each in self.commands if _within(made) is group.node]
        names = [_command_name(made, each) for made, each in inner]
        parser.options.append(Option("command", action="command", command=command, subcommands=tuple(names)))
        for name, (made, each) in zip(names, inner, strict=True):
            parser.options.extend(replace(one, command=(*command, name)) for one in self._click(each))
            if made.name == "click.group":
                self._subcommands(parser, each, (*command, name))

    def _click(self, function: Function) -> Iterator[Option]:
        for decorator in function.decorators:
            made = decorator
            if isinstance(made, Made) and made.name.rsplit(".", 1)[-1] in ("option", "argument"):
                option = _click_option(made)
                if option is not None:
                    yield option

    def _typer(self, app: Made) -> None:
        inner = [(made, each) for made, each in self.commands if made.kwargs.get("app") is app]
        if not inner:
            return
        parser = Parser(is_parsed=True)
        self.parsers.append(parser)
        self.kind = "typer"
        if len(inner) == 1:
            parser.options.extend(function_options(inner[0][1], "typer", self))
        else:
            names = [_command_name(*each) for each in inner]
            parser.options.append(Option("command", action="command", subcommands=tuple(names)))
            for name, (_, each) in zip(names, inner, strict=True):
                parser.options.extend(replace(one, command=(name,)) for one in function_options(each, "typer", self))
        raise Finished

    # ---- the outcome -----------------------------------------------------------------------------------------------

    def finish(self, entry: Module) -> None:
        """Where the script parsed nothing, take the function that a library decorates, or follow what wasn't called."""
        if self.kind or any(each.is_parsed for each in self.parsers):
            return
        try:
            if self.commands:
                self._start(*self.commands[0])
            for name, value in list(entry.names.items()):
                if isinstance(value, Function) and not self.calls.get(id(value.node)):
                    self.enter(value, [], {})
                entry.names.setdefault(name, value)
            if self.flags.options:
                self.parsers.append(self.flags)
        except (Finished, RecursionError):
            return

    def found(self) -> tuple[list[Option], int]:
        """Return the options of the parsers that parse the command line, and how many are computed."""
        parsed = [each for each in self.parsers if each.is_parsed and not each.command] or self.parsers
        options: list[Option] = []
        for parser in parsed:
            for option in parser.options:
                if not any(option is each for each in options):
                    _add(options, option)
        return options, sum(each.computed for each in parsed)


def _is_plain(cls: Class) -> bool:
    return all(not isinstance(each, Library) or each.name == "builtins.object" for each in cls.line())


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression can only be text, whatever its parts: nanoGPT's `'run' + str(time.time())`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant)


def _change_default(parser: Parser, name: str, value: Any) -> None:
    for at, option in enumerate(parser.options):
        if option.name == name and option.command == parser.command and is_constant(value):
            parser.options[at] = replace(option, default=value, required=False)


def _add(options: list[Option], option: Option) -> None:
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


def _argparse_option(flags: list[str], kwargs: dict[str, Any], title: str, command: tuple[str, ...]) -> Option | None:
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


def _within(made: Made) -> Any:
    group = made.kwargs.get("within")
    return group.node if isinstance(group, Function) else None


def _command_name(made: Made, function: Function) -> str:
    named = made.kwargs.get("name", made.args[0] if made.args else None)
    own: str = function.node.name if not isinstance(function.node, ast.Lambda) else ""
    return named if isinstance(named, str) else re.sub(r"-(command|cmd|group)$", "", own.lower().replace("_", "-"))


def _click_option(made: Made) -> Option | None:
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
