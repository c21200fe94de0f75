"""The parser that a script builds, found in its source: of argparse and what wraps it, click, typer, absl, tyro."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from engine.script.annotations import class_options, comment, options_of
from engine.script.configurations import yaml_options
from engine.script.declarations import absl_option, add_option, argparse_option, click_option, known_help
from engine.script.expressions import Finished
from engine.script.interpreter import Interpreter
from engine.script.values import UNKNOWN, Class, Function, Instance, Library, Made, Module, Scope, is_constant
from engine.script.words import Option

_PARSERS = {
    r"^simple_parsing.*Arg\w*Parser$": "simple_parsing",
    r"^jsonargparse.*Arg\w*Parser$": "jsonargparse",
    r"(HfArgument|Trl|H4Argument)Parser$": "huggingface",
    r"(^|\.)Tap$": "tap",
    r"(Arg|Argument|Option)s?Parser$": "",
}
"""Dialects of the classes of parsers, by what matches their names."""
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
"""Dialects of the functions that are given a class or a function, and parse."""
_WRAPS = ("pyrallis.wrap", "draccus.wrap")
_STARTS = ("click.command", "click.group", "typer.command", "hydra.main", *_WRAPS)
"""Decorators of the function that a script starts with."""
_PARSES = ("parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse", "parse_args_and_config")
_ADDS_CLASS = ("add_arguments", "add_dataclass_arguments", "add_class_arguments")
_T = TypeVar("_T")


@dataclass(eq=False)
class Parser:
    """A parser of argparse, or of what wraps it; also a group of its options, or its subcommands, with its lists."""

    options: list[Option] = field(default_factory=list)
    computed: list[str] = field(default_factory=list)
    """Options that are known only when the script runs: the class that declares them, "" for a single one."""
    dialect: str = ""
    command: tuple[str, ...] = ()
    group: str = ""
    at: int = -1
    """The option that chooses a subcommand."""
    is_parsed: bool = False

    def inherit(self, parents: Any) -> None:
        """Take the options of the parsers that `parents=` names."""
        for parent in parents or ():
            if isinstance(parent, Parser):
                self.options += [replace(each, command=(*self.command, *each.command)) for each in parent.options]


class ScriptParsers(Interpreter):
    """Follows a script and keeps the parsers that it makes."""

    def __init__(self, script: Path, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(script, folder, environment)
        self.folder = folder
        self.parsers: list[Parser] = []
        self.flags = Parser()
        """The flags of absl."""
        self.commands: list[tuple[Made, Function]] = []
        """Functions that click, typer, Hydra or draccus decorate."""
        self.hydra: tuple[str | None, str | None] = None, None
        """The path and the name of the configuration that `hydra.main` says."""
        self.stored: dict[str, Any] = {}
        """What Hydra's store of configurations has."""
        self.constants: dict[str, tuple[Any, str]] = {}
        """What a configurator may change, with its comment."""
        self.kind = ""
        """What parses the command line, "" if that isn't known."""

    def _complete(self, kind: str, options: Iterable[Option] = (), computed: Sequence[str] = ()) -> NoReturn:
        """Keep these options as those of the script, and end."""
        self.kind = kind
        self.parsers.append(parser := Parser(computed=list(computed), is_parsed=True))
        parser.options.extend(options)
        raise Finished

    # ---- calls -----------------------------------------------------------------------------------------------------

    def called(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return what a call of a library returns."""
        last = name.rsplit(".", 1)[-1]
        for pattern, dialect in _PARSERS.items():
            if re.search(pattern, name):
                return self._parser(dialect, args, kwargs)
        if last.startswith("DEFINE_"):
            return self._flag(last.removeprefix("DEFINE_"), args, kwargs)
        if name in _ENTRIES:
            return self._entry(name, args, kwargs)
        if last == "merge" and any(isinstance(each, Made) and each.name.endswith("from_cli") for each in args):
            self._merged(args)
        if last == "LightningCLI":
            self._lightning(args, kwargs)
        if last == "exec" and "configurator" in ast.unparse(node):
            self._configurator(scope)
        if name.endswith("app.run") and self.flags.options:
            self._complete("absl", self.flags.options, self.flags.computed)
        return Made(name, tuple(args), kwargs)

    def method(self, of: Any, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Return what a method of a parser, of a group or of an application returns."""
        if isinstance(of, Parser):
            return self._of_parser(of, name, args, kwargs, node)
        if isinstance(of, Function) and name in ("command", "group"):
            return Made(f"click.{name}", tuple(args), {**kwargs, "within": of.node})
        if not isinstance(of, Made):
            return UNKNOWN
        if of.name.endswith("ConfigStore.instance") and name == "store":
            key, group = kwargs.get("name", args[0] if args else None), kwargs.get("group")
            if isinstance(key, str):
                key = f"{group}/{key}" if isinstance(group, str) else key
                self.stored[key.removesuffix(".yaml")] = kwargs.get("node", args[1] if len(args) > 1 else None)
        if of.name == "typer.Typer" and name == "command":
            return Made("typer.command", tuple(args), {**kwargs, "within": of})
        is_click = name in ("option", "argument", "command", "group")
        return Made(f"click.{name}", tuple(args), kwargs) if is_click else UNKNOWN

    def decorated(self, decorator: Any, function: Function) -> None:
        """Keep a function that click, typer, Hydra or draccus start the script with."""
        made = Made(decorator.name) if isinstance(decorator, Library) else decorator
        if isinstance(made, Made) and made.name in _STARTS and (made is decorator or made.name.startswith("click")):
            self.commands.append((made, function))

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
        if isinstance(function, Class) and any(_name(each) == "LightningCLI" for each in function.line()):
            self._lightning(args, kwargs)
        return super().call(function, args, kwargs, node, scope)

    # ---- argparse --------------------------------------------------------------------------------------------------

    def _parser(self, dialect: str, args: list[Any], kwargs: dict[str, Any]) -> Parser:
        made = Parser(dialect=dialect)
        made.inherit(kwargs.get("parents"))
        if dialect == "tap" and args and isinstance(args[0], Instance):
            made.options.extend(class_options(args[0].cls, "tap", self))
        if dialect == "huggingface":
            types = kwargs.get("dataclass_types", next(iter(args), ()))
            for each in types if isinstance(types, list | tuple) else [types]:
                self._dataclass(made, each)
        self.parsers.append(made)
        return made

    def _dataclass(self, parser: Parser, cls: Any) -> None:
        """Add the options of a dataclass to a parser of Hugging Face; of a library's class only its name is known."""
        if isinstance(cls, Class):
            found = class_options(cls, "huggingface", self)
            parser.options.extend(replace(each, group=cls.node.name) for each in found)
        for base in cls.line() if isinstance(cls, Class) else [cls]:
            if base != Library("builtins.object") and not isinstance(base, Class):
                parser.computed.append(_name(base))

    def _of_parser(self, of: Parser, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        first = args[0] if args else None
        match name:
            case "add_argument" | "add" | "add_arg" | "add_option":
                self._argument(of, args, {**kwargs, **known_help(node, kwargs)})
            case "add_argument_group":
                title = kwargs.get("title", first)
                return replace(of, group=title if isinstance(title, str) else "")
            case "add_mutually_exclusive_group":
                return of
            case "add_subparsers":
                of.options.append(Option("command", action="command", command=of.command))
                return replace(of, at=len(of.options) - 1)
            case "add_parser" if of.at >= 0:
                return _subparser(of, str(kwargs.get("name", first)), kwargs.get("parents"))
            case "set_defaults":
                of.options[:] = [_with_default(of, each, kwargs) for each in of.options]
        if name in _PARSES:
            return self._parsed(of, name, kwargs.get("args", first))
        if name in _ADDS_CLASS and args:
            self._class_arguments(of, args, kwargs)
        return UNKNOWN

    def _argument(self, parser: Parser, args: list[Any], kwargs: dict[str, Any]) -> None:
        flags = [each for each in args if isinstance(each, str)]
        if not flags and isinstance(kwargs.get("dest"), str):
            flags = [kwargs["dest"]]
        if not flags or len(flags) < len([each for each in args if not isinstance(each, Instance)]):
            parser.computed.append("")
        elif option := argparse_option(flags, kwargs, parser.group, parser.command):
            add_option(parser.options, option)

    def _parsed(self, parser: Parser, name: str, words: Any) -> Any:
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
        cls, place = args[0], kwargs.get("dest", kwargs.get("nested_key", args[1] if len(args) > 1 else ""))
        if not isinstance(cls, Class):
            parser.computed.append(_name(cls))
        elif parser.dialect == "simple_parsing":
            found = class_options(cls, "simple_parsing", self, str(kwargs.get("prefix", "")))
            parser.options.extend(replace(each, group=each.group or cls.node.name) for each in found)
        else:
            parser.options.extend(options_of(cls, "jsonargparse", self, f"{place}." if place else ""))

    # ---- other libraries -------------------------------------------------------------------------------------------

    def _flag(self, kind: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if option := absl_option(kind, args, kwargs):
            add_option(self.flags.options, option)
            if kind in ("config_file", "config_dict"):
                self.flags.computed.append("")
        return UNKNOWN

    def _entry(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        dialect, kind = _ENTRIES[name], name.split(".")[0]
        if kwargs.get("return_unknown_args") is True:  # the rest is for another parser
            return (UNKNOWN, UNKNOWN)
        wanted = args[0] if args else kwargs.get("config_class", kwargs.get("component", UNKNOWN))
        if dialect == "fire" or (dialect == "jsonargparse" and isinstance(wanted, dict)):
            self._complete(kind, self._functions(wanted, dialect))
        if not isinstance(wanted, Class | Function):
            self._complete(kind, computed=[_name(wanted)])
        options = options_of(wanted, dialect, self)
        return self._complete(
            kind, (replace(each, style="assigned") for each in options) if dialect == "hydra" else options
        )

    def _functions(self, wanted: Any, dialect: str) -> Iterator[Option]:
        """Yield the options of a function, or of each function of a class, dictionary or module as a subcommand."""
        if isinstance(wanted, Function | Class):
            yield from options_of(wanted, dialect, self)
        if isinstance(wanted, Function):
            return
        names = wanted.names if isinstance(wanted, Class) else wanted if isinstance(wanted, dict) else None
        if names is None:
            entry = self.modules[self.script]
            names = {name: each for name, each in entry.names.items() if isinstance(each, Function)}
        known = {str(name): self.resolved(each) for name, each in names.items()}
        chosen = {name: each for name, each in known.items() if isinstance(each, Function) and name[0] != "_"}
        yield from _subcommands(chosen, lambda each: options_of(each, dialect, self))

    def _merged(self, args: list[Any]) -> NoReturn:
        """Keep the configurations that OmegaConf merges with the words of the command line."""
        found: list[Option] = []
        for each in args:
            first = each.args[0] if isinstance(each, Made) and each.args else None
            cls = each if isinstance(each, Class) else first
            made: Iterable[Option] = ()
            if isinstance(cls, Class):
                made = class_options(cls, "hydra", self)
            elif isinstance(first, str) and each.name.endswith("load"):
                made = self._loaded(first)
            for option in made:
                add_option(found, replace(option, style="assigned", flags=(option.name,)))
        self._complete("omegaconf", found)

    def _loaded(self, name: str) -> list[Option]:
        for root in (self.folder, self.script.parent):
            with suppress(OSError):
                return yaml_options(root / name, prefix="")
        return []

    def _configurator(self, scope: Scope) -> NoReturn:
        """Keep the constants so far: nanoGPT's configurator takes `--name=value` for each of them."""
        lines = scope.module.text.splitlines()
        for node in scope.module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                value = scope.names.get(name, UNKNOWN)
                if name[0] != "_" and (isinstance(value, bool | int | float | str) or _is_text(node.value)):
                    self.constants[name] = (value if is_constant(value) else None, comment(lines, node))
        self._complete("configurator")

    def _lightning(self, args: list[Any], kwargs: dict[str, Any]) -> NoReturn:
        options: list[Option] = []
        places = [each for each in args if not isinstance(each, Instance)]
        for at, (name, group) in enumerate((("model_class", "model"), ("datamodule_class", "data"))):
            cls = kwargs.get(name, places[at] if at < len(places) else None)
            if isinstance(cls, Class):
                found = options_of(cls, "jsonargparse", self, f"{group}.")
                options.extend(replace(each, group=group) for each in found)
        self._complete("lightning", options)

    # ---- decorated functions ---------------------------------------------------------------------------------------

    def _start(self, decorator: Made, function: Function) -> NoReturn:
        """Keep the options of a decorated function as those of the script."""
        if decorator.name == "hydra.main":
            said = {**dict(zip(("config_path", "config_name"), decorator.args, strict=False)), **decorator.kwargs}
            path, name = (said.get(each) for each in ("config_path", "config_name"))
            self.hydra = path if isinstance(path, str) else None, name if isinstance(name, str) else None
            self._complete("hydra")
        if decorator.name in _WRAPS:
            parameter = next(iter(function.node.args.args), None)
            annotation = parameter.annotation if parameter else None
            cls = self.resolved(self.value(annotation, Scope(function.module, {}))) if annotation else None
            options = class_options(cls, "draccus", self) if isinstance(cls, Class) else ()
            self._complete(decorator.name.split(".")[0], options)
        self._complete("click", self._click((decorator, function)))

    def _within(self, group: Any) -> dict[str, tuple[Made, Function]]:
        """Return the commands of a group of click or an application of typer, by their names."""
        return {_command_name(*each): each for each in self.commands if each[0].kwargs.get("within") is group}

    def _click(self, command: tuple[Made, Function]) -> Iterator[Option]:
        decorator, function = command
        for made in function.decorators:
            if isinstance(made, Made) and made.name.rsplit(".", 1)[-1] in ("option", "argument"):
                option = click_option(made)
                if option is not None:
                    yield option
        if decorator.name == "click.group":
            yield from _subcommands(self._within(function.node), self._click)

    def _typer(self, app: Made) -> None:
        inner = self._within(app)
        if len(inner) == 1:
            self._complete("typer", options_of(next(iter(inner.values()))[1], "typer", self))
        if inner:
            self._complete("typer", _subcommands(inner, lambda each: options_of(each[1], "typer", self)))

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
            pass
        if not any(each.options for each in self.parsers):
            self._scan(entry)

    def _scan(self, entry: Module) -> None:
        """Take each `add_argument` of the script as one of a single parser, where following it led to none."""
        self.parsers.append(parser := Parser())
        scope = Scope(entry, entry.names)
        self.steps, self.until = 0, self.until + 0.3
        with suppress(Finished, RecursionError):
            for node in ast.walk(entry.tree):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                    kwargs = {each.arg: self.value(each.value, scope) for each in node.keywords if each.arg}
                    self._argument(parser, [self.value(each, scope) for each in node.args], kwargs)

    def found(self) -> tuple[list[Option], list[str]]:
        """Return the options of the parsers that parse the command line, and what is known only when it runs."""
        parsed = [each for each in self.parsers if each.is_parsed] or self.parsers
        options: list[Option] = []
        for parser in parsed:
            for option in parser.options:
                if not any(option is each for each in options):
                    add_option(options, option)
        return options, [each for parser in parsed for each in parser.computed]


def _name(kind: Any) -> str:
    """Return the name of a class; "" of anything else."""
    return (
        kind.node.name if isinstance(kind, Class) else kind.name.rsplit(".", 1)[-1] if isinstance(kind, Library) else ""
    )


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression can only be text, whatever its parts: nanoGPT's `'run' + str(time.time())`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant)


def _with_default(of: Parser, option: Option, defaults: Mapping[str, Any]) -> Option:
    value = defaults.get(option.name, UNKNOWN)
    is_changed = option.command == of.command and is_constant(value)
    return replace(option, default=value, required=False) if is_changed else option


def _subparser(of: Parser, name: str, parents: Any) -> Parser:
    """Return the parser of a subcommand; its options are in the list of its parser, each with its subcommand."""
    made = replace(of, command=(*of.command, name), group="", at=-1)
    made.inherit(parents)
    place = of.options[of.at]
    of.options[of.at] = replace(place, subcommands=(*place.subcommands, name))
    return made


def _subcommands(inner: Mapping[str, _T], read: Callable[[_T], Iterable[Option]]) -> Iterator[Option]:
    """Yield the option that chooses a subcommand, then the options of each."""
    yield Option("command", action="command", subcommands=tuple(inner))
    for name, each in inner.items():
        yield from (replace(option, command=(name, *option.command)) for option in read(each))


def _command_name(made: Made, function: Function) -> str:
    named = made.kwargs.get("name", made.args[0] if made.args else None)
    own: str = function.node.name if not isinstance(function.node, ast.Lambda) else ""
    return named if isinstance(named, str) else re.sub(r"-(command|cmd|group)$", "", own.lower().replace("_", "-"))
