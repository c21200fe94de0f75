"""The parser that a script builds, found in its source: of argparse and what wraps it, click, typer, absl, tyro."""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.script.annotations import class_options, comment, function_options
from engine.script.configurations import yaml_options
from engine.script.declarations import add_option, argparse_option, click_option, known_help, typed
from engine.script.field import Kind
from engine.script.interpreter import Finished, Interpreter, Scope
from engine.script.values import UNKNOWN, Class, Function, Instance, Library, Made, Module, is_constant
from engine.script.words import Option

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
    computed: list[str] = field(default_factory=list)
    """Options that are known only when the script runs: the class that declares them, "" for a single one."""
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
        self.folder = folder
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
        if last == "merge" and any(isinstance(each, Made) and each.name.endswith("from_cli") for each in args):
            return self._merged(args)
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
            key, group = kwargs.get("name", args[0] if args else None), kwargs.get("group")
            if isinstance(key, str):
                key = f"{group}/{key}" if isinstance(group, str) else key
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
        if isinstance(function, Class) and any(_name(each) == "LightningCLI" for each in function.line()):
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
                self._dataclass(made, each)
        if name.startswith("simple_parsing"):
            made.dialect = "simple_parsing"
        if name.startswith("jsonargparse"):
            made.dialect = "jsonargparse"
        self.parsers.append(made)
        return made

    def _dataclass(self, parser: Parser, cls: Any) -> None:
        """Add the options of a dataclass to a parser of Hugging Face; of a library's class only its name is known."""
        if isinstance(cls, Class):
            group = cls.node.name
            parser.options.extend(replace(each, group=group) for each in class_options(cls, "huggingface", self))
        for base in cls.line() if isinstance(cls, Class) else [cls]:
            if base != Library("builtins.object") and not isinstance(base, Class):
                parser.computed.append(_name(base) if isinstance(base, Library) else "")

    def _of_parser(
        self, of: Parser | ArgumentGroup, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call
    ) -> Any:
        parser, title = (of.parser, of.title) if isinstance(of, ArgumentGroup) else (of, "")
        match name:
            case "add_argument" | "add" | "add_arg" | "add_option":
                self._argument(parser, title, args, {**kwargs, **known_help(node, kwargs)})
            case "add_argument_group":
                said = kwargs.get("title", args[0] if args else "")
                return ArgumentGroup(parser, said if isinstance(said, str) else "")
            case "add_mutually_exclusive_group":
                return ArgumentGroup(parser, title)
            case "add_subparsers":
                parser.options.append(Option("command", action="command", command=parser.command))
                return Subparsers(parser, len(parser.options) - 1)
            case "set_defaults":
                for key, value in kwargs.items():
                    _change_default(parser, key, value)
            case "parse_args" | "parse_known_args" | "parse_args_into_dataclasses" | "parse" | "parse_args_and_config":
                return self._parsed(parser, name, args, kwargs)
            case "add_arguments" | "add_dataclass_arguments" | "add_class_arguments" if args:
                self._class_arguments(parser, args, kwargs)
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
                    for one in class_options(args[0], "simple_parsing", self, str(kwargs.get("prefix", "")))
                )
            else:
                parser.options.extend(self.constructed(args[0], f"{destination}." if destination else ""))
        else:
            parser.computed.append(_name(args[0]) if isinstance(args[0], Library) else "")

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
            parser.computed.append("")
            return
        option = argparse_option(flags, kwargs, title, parser.command)
        if option is not None:
            add_option(parser.options, option)

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
            self.flags.computed.append("")
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
        add_option(self.flags.options, option)
        return UNKNOWN

    def _entry(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        dialect = _ENTRIES[name]
        if kwargs.get("return_unknown_args") is True:  # the rest is for another parser
            return (UNKNOWN, UNKNOWN)
        wanted = args[0] if args else kwargs.get("config_class", kwargs.get("component", UNKNOWN))
        parser = Parser(is_parsed=True, dialect=dialect)
        self.parsers.append(parser)
        self.kind = name.split(".")[0]
        if dialect == "fire" or (dialect == "jsonargparse" and isinstance(wanted, dict)):
            self._functions(parser, wanted, dialect)
        elif isinstance(wanted, Class):
            build = class_options if dialect in ("tyro", "simple_parsing", "draccus", "hydra") else None
            parser.options.extend(build(wanted, dialect, self) if build else self.constructed(wanted, "", dialect))
        elif isinstance(wanted, Function):
            parser.options.extend(function_options(wanted, dialect, self))
        else:
            parser.computed.append(_name(wanted) if isinstance(wanted, Library) else "")
        if dialect == "hydra":
            parser.options = [replace(each, style="assigned") for each in parser.options]
        raise Finished

    def _functions(self, parser: Parser, wanted: Any, dialect: str) -> None:
        """Add the options of a function, or of each function of a class, dictionary or module as a subcommand."""
        if isinstance(wanted, Function):
            parser.options.extend(function_options(wanted, dialect, self))
            return
        if isinstance(wanted, Class):
            parser.options.extend(self.constructed(wanted, "", dialect))
        names = wanted.names if isinstance(wanted, Class) else wanted if isinstance(wanted, dict) else None
        if names is None:
            entry = self.modules[self.script]
            names = {name: each for name, each in entry.names.items() if isinstance(each, Function)}
        known = {str(name): self.resolved(each) for name, each in names.items()}
        chosen = {name: each for name, each in known.items() if isinstance(each, Function) and name[0] != "_"}
        parser.options.append(Option("command", action="command", subcommands=tuple(chosen)))
        for name, each in chosen.items():
            parser.options.extend(replace(one, command=(name,)) for one in function_options(each, dialect, self))

    def _merged(self, args: list[Any]) -> Any:
        """Keep the configurations that OmegaConf merges with the words of the command line."""
        parser = Parser(is_parsed=True)
        for each in args:
            first = each.args[0] if isinstance(each, Made) and each.args else None
            cls = each if isinstance(each, Class) else first
            if isinstance(cls, Class):
                made = list(class_options(cls, "hydra", self))
            elif isinstance(first, str) and each.name.endswith("load"):
                made = self._loaded(first)
            else:
                continue
            for option in made:
                add_option(parser.options, replace(option, style="assigned", flags=(option.name,)))
        self.parsers.append(parser)
        self.kind = "omegaconf"
        raise Finished

    def _loaded(self, name: str) -> list[Option]:
        for root in (self.folder, self.script.parent):
            with suppress(OSError):
                return yaml_options(root / name, prefix="")
        return []

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
                option = click_option(made)
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
            pass
        if not any(each.options for each in self.parsers):
            self._scan(entry)

    def _scan(self, entry: Module) -> None:
        """Take each `add_argument` of the script as one of a single parser, where following it led to none."""
        parser = Parser()
        scope = Scope(entry, entry.names)
        self.steps, self.until = 0, self.until + 0.3
        with suppress(Finished, RecursionError):
            for node in ast.walk(entry.tree):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "add_argument"
                ):
                    kwargs = {each.arg: self.value(each.value, scope) for each in node.keywords if each.arg}
                    self._argument(parser, "", [self.value(each, scope) for each in node.args], kwargs)
        self.parsers.append(parser)

    def found(self) -> tuple[list[Option], list[str]]:
        """Return the options of the parsers that parse the command line, and what is known only when it runs."""
        parsed = [each for each in self.parsers if each.is_parsed and not each.command] or self.parsers
        options: list[Option] = []
        for parser in parsed:
            for option in parser.options:
                if not any(option is each for each in options):
                    add_option(options, option)
        return options, [each for parser in parsed for each in parser.computed]


def _name(kind: Class | Library) -> str:
    return kind.node.name if isinstance(kind, Class) else kind.name.rsplit(".", 1)[-1]


def _is_text(node: ast.expr) -> bool:
    """Return whether an expression can only be text, whatever its parts: nanoGPT's `'run' + str(time.time())`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant)


def _change_default(parser: Parser, name: str, value: Any) -> None:
    for at, option in enumerate(parser.options):
        if option.name == name and option.command == parser.command and is_constant(value):
            parser.options[at] = replace(option, default=value, required=False)


def _within(made: Made) -> Any:
    group = made.kwargs.get("within")
    return group.node if isinstance(group, Function) else None


def _command_name(made: Made, function: Function) -> str:
    named = made.kwargs.get("name", made.args[0] if made.args else None)
    own: str = function.node.name if not isinstance(function.node, ast.Lambda) else ""
    return named if isinstance(named, str) else re.sub(r"-(command|cmd|group)$", "", own.lower().replace("_", "-"))
