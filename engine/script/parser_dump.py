"""Run a script until it parses its command line, and write the parser as JSON. The person's interpreter runs this file.

    python parser_dump.py OUTPUT SECONDS MODE SCRIPT ARGUMENT ...

MODE is `file` or `module` (stop at the parser), or `whole` (run SCRIPT to its end, for what it prints itself).
Standard library alone, Python 3.8 and later: nothing else of Parallab is there.
"""

import argparse
import importlib.abc
import importlib.util
import inspect
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any, Dict, List

MOST_FILE_BYTES = 64 * 1024 * 1024
MOST_DATA_BYTES = 16 * 1024 * 1024 * 1024
PLAIN = (str, int, float, bool, type(None))
ACTIONS = {
    "StoreTrueAction": "store_true",
    "StoreFalseAction": "store_false",
    "StoreConstAction": "store_const",
    "AppendConstAction": "append_const",
    "AppendAction": "append",
    "ExtendAction": "extend",
    "CountAction": "count",
    "BooleanOptionalAction": "pair",
}
"""Words for actions by the classes of argparse, which its copies have too."""
OPTIONS: List[Dict[str, Any]] = []
OUTPUT = ""
PARSE_ARGS = argparse.ArgumentParser.parse_args
PARSE_KNOWN = argparse.ArgumentParser.parse_known_args


def limit(seconds: Any) -> None:
    """Limit CPU time, memory and the size of files of this process and of those that it starts."""
    try:
        import resource
    except ImportError:
        return
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: MOST_FILE_BYTES,
        resource.RLIMIT_DATA: MOST_DATA_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    for name, most in limits.items():
        hard = resource.getrlimit(name)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (most, most))


def stop() -> Any:
    """Write what was found and end at once: nothing after the parser runs, exit handlers included."""
    with Path(OUTPUT).open("w", encoding="utf-8") as output:
        json.dump({"options": OPTIONS}, output)
    os._exit(0)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; an enum by its name, others as text."""
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if type(value) in PLAIN:
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in list(value)[:500]]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in list(value.items())[:500]}
    if callable(value) or " object at 0x" in repr(value):
        return None
    return getattr(value, "name", None) if hasattr(value, "value") else str(value)


def add(library: str, **said: Any) -> None:
    """Keep what a library says of an option, in its own words."""
    OPTIONS.append({"library": library, **{name: plain(value) for name, value in said.items()}})


def add_commands(command: Any, inner: Any, add_each: Any) -> None:
    """Keep the names of subcommands, then the options of each."""
    add("argparse", dest="command", action="command", choices=list(inner), command=command)
    for name, each in inner.items():
        add_each(each, (*command, name))


# ---- argparse ----------------------------------------------------------------------------------------------------


def add_parser(parser: Any, command: Any = ()) -> None:
    """Keep the options of a parser of argparse, or of a copy of it, and those of its subcommands."""
    titles = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    for action in parser._actions:
        kinds = [each.__name__.strip("_") for each in type(action).__mro__]
        if "Help" in kinds[0] or "Version" in kinds[0] or kinds[0] == "ActionPrintConfig":
            continue
        if kinds[0].endswith("SubParsersAction") or (
            isinstance(action.choices, dict) and hasattr(action, "add_parser")
        ):
            add_commands(command, action.choices, add_parser)
            continue
        title, takes = titles.get(id(action), ""), action.nargs != 0
        said = {} if not action.option_strings else {"required": action.required}
        add(
            "argparse",
            dest=action.dest,
            flags=list(action.option_strings),
            action=next((ACTIONS[each] for each in kinds if each in ACTIONS), "store" if takes else "store_true"),
            type=getattr(action.type, "__name__", type(action.type).__name__) if action.type else "",
            source=source_of(action.type),
            nargs=action.nargs if takes else None,
            const=action.const,
            default=action.default if action.default != argparse.SUPPRESS else None,
            choices=list(action.choices) if action.choices is not None else [],
            help=str(action.help or "").replace("%%", "%") if action.help != argparse.SUPPRESS else "",
            group="" if title in ("options", "optional arguments", "positional arguments") else title,
            command=command,
            **said,
        )


def source_of(function: Any) -> Any:
    """Return the source of a converter that the script defines."""
    try:
        return inspect.getsource(function)[:2000] if inspect.isfunction(function) else ""
    except (OSError, TypeError):
        return ""


def of_command_line(words: Any) -> bool:
    return words is None or list(words) == sys.argv[1:] or list(words) == sys.argv


def parse_args(self: Any, args: Any = None, namespace: Any = None) -> Any:
    """Stop at a parse of the command line; other words are parsed as usual."""
    # a parser that was prepared by another one gets the words that this one did not take
    if not of_command_line(args) and not OPTIONS:
        return PARSE_ARGS(self, args, namespace)
    add_parser(self)
    return stop()


def parse_known_args(self: Any, args: Any = None, namespace: Any = None, **more: Any) -> Any:
    """Stop as `parse_args` does; a parser without --help only prepares another one."""
    if not of_command_line(args):
        return PARSE_KNOWN(self, args, namespace, **more)
    add_parser(self)
    if getattr(self, "add_help", True):
        return stop()
    return PARSE_KNOWN(self, args, namespace, **more)


# ---- other libraries ---------------------------------------------------------------------------------------------


def patch_click(module: Any) -> None:
    """Stop where click, or typer, parses."""

    def main(self: Any, *words: Any, **settings: Any) -> Any:
        if os.environ.get(f"_{getattr(self, 'name', '')}_COMPLETE"):
            return None
        add_click(self)
        return stop()

    base = getattr(module, "BaseCommand", None) or module.Command
    for each in {base, module.Command}:
        each.main = main
        each.__call__ = main


def add_click(command: Any, path: Any = ()) -> None:
    """Keep the parameters of a command of click, and those of its subcommands."""
    for param in command.params:
        kind = getattr(param, "type", None)
        is_none = type(param.default).__module__.startswith(("click", "typer"))  # a marker
        said = {name: getattr(param, name, None) for name in ("nargs", "multiple", "count", "is_flag", "required")}
        add(
            "click",
            dest=param.name,
            flags=list(param.opts) if type(param).__name__.endswith("Option") else [],
            off=list(param.secondary_opts),
            type=getattr(kind, "name", "text"),
            default=None if is_none else param.default,
            choices=[getattr(each, "value", each) for each in getattr(kind, "choices", [])],
            help=getattr(param, "help", ""),
            command=path,
            **said,
        )
    if isinstance(getattr(command, "commands", None), dict):
        add_commands(path, command.commands, add_click)


def patch_tyro(module: Any) -> None:
    """Stop where tyro parses; its parser is a copy of argparse's."""

    def cli(f: Any, **settings: Any) -> Any:
        if settings.get("args") is not None:
            return original(f, **settings)
        kept = {name: settings[name] for name in ("description", "default", "config") if name in settings}
        add_parser(module.extras.get_parser(f, **kept))
        return stop()

    original = module.cli
    module.cli = cli


def patch_absl(module: Any) -> None:
    """Stop where absl's application starts."""

    def run(*words: Any, **settings: Any) -> Any:
        flags = sys.modules["absl.flags"]
        for owner, found in flags.FLAGS.flags_by_module_dict().items():
            for flag in found if not owner.startswith("absl.") else ():
                add(
                    "absl",
                    dest=flag.name,
                    flags=["--" + flag.name],
                    off=["--no" + flag.name] if flag.boolean else [],
                    type=flag.flag_type(),
                    default=flag.default,
                    choices=list(getattr(flag.parser, "enum_values", None) or []),
                    help=flag.help,
                )
        return stop()

    module.run = run


def patch_fire(module: Any) -> None:
    """Stop where python-fire is given a function or a class."""

    def fire(component: Any = None, *words: Any, **settings: Any) -> Any:
        if not (inspect.isfunction(component) or inspect.isclass(component)):
            return stop()
        for name, parameter in inspect.signature(component).parameters.items():
            none = parameter.default is inspect.Parameter.empty
            default = None if none else parameter.default
            kind = type(default).__name__ if default is not None else getattr(parameter.annotation, "__name__", "str")
            add("fire", dest=name, flags=["--" + name], type=kind, default=default, required=none)
        return stop()

    module.Fire = fire


PATCHES = {"click.core": patch_click, "tyro": patch_tyro, "absl.app": patch_absl, "fire": patch_fire}


class PatchOnImport(importlib.abc.MetaPathFinder):
    """Change a library when the script has imported it."""

    def find_spec(self, name: Any, path: Any, target: Any = None) -> Any:
        """Return the module's own spec, whose loader changes the module at the end."""
        if name not in PATCHES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            PATCHES[name](module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def main() -> None:
    """Run the script."""
    global OUTPUT
    OUTPUT, seconds, mode, script = sys.argv[1:5]
    limit(int(seconds))
    sys.argv = [script, *sys.argv[5:]]
    sys.path[0] = str(Path.cwd() if mode == "module" else Path(script).resolve().parent)
    if mode != "whole":
        argparse.ArgumentParser.parse_args = parse_args  # type: ignore[method-assign]
        argparse.ArgumentParser.parse_known_args = parse_known_args  # type: ignore[method-assign]
        sys.meta_path.insert(0, PatchOnImport())
    try:
        if mode == "module":
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit:
        if mode == "whole":
            raise
    except BaseException as error:
        with Path(OUTPUT).open("w", encoding="utf-8") as output:
            said = f"{type(error).__name__}: {error}"
            module = error.name if isinstance(error, ModuleNotFoundError) else None
            json.dump({"options": OPTIONS, "error": said[:500], "missing": module}, output)
        traceback.print_exc()
        os._exit(1)
    if mode != "whole":
        stop()


if __name__ == "__main__":
    main()
