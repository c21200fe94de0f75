"""Shared by all commands: declaring their options, loading, error handling.

A command is a function under `@command`, and each of its parameters declares its option or argument as its default:

    limit: int | None = option("Maximum number of runs to list.")

Every command has --json besides; `engine.cli.answers` reads it.
"""

import errno
import getpass
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from math import isnan
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import click
from click.core import ParameterSource

from engine.access.confusables import visible
from engine.errors import (
    EngineError,
    Forbidden,
    NoSuchDuel,
    NoSuchRun,
    NoSuchSweep,
    OutputFailed,
    RunFailed,
    RunnerError,
    StoreError,
    WrongStatus,
)
from engine.home import Home, private
from engine.launch_options import LaunchOptions, Priority

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NAMED = 10
"""Number of accounts that a refusal names."""
FAILED, BAD_INPUT, NO_STORE, NO_RUNNER, INTERRUPTED = 1, 2, 3, 4, 130

EXIT_CODES = (
    "Exit codes: 0 success; 1 the run did not finish, the output can't be written, or doctor or fsck found a "
    "failure; 2 invalid arguments, or the request was refused; 3 the store is busy, too new, full or not writable; 4 "
    "the runner can't start or does not answer; 130 detached by Ctrl-C while the run continues."
)

Declaration = Callable[[str, dict[str, Any]], click.Parameter]
"""Makes the option or argument of a parameter, for its name and for what its type says."""


def option(help: str, *flags: str, **settings: Any) -> Any:
    """Declare an option, as the default of its parameter; its flag is the parameter's name unless `flags` are given.

    It is required if its type has no None, and `settings`, which are those of click, no default.
    """

    def declared(name: str, inferred: dict[str, Any]) -> click.Option:
        inferred["required"] = inferred.get("required", False) and "default" not in settings
        shown = {"show_default": bool(settings.get("default")), "show_envvar": "envvar" in settings}
        decls = [*(flags or [f"--{name.replace('_', '-')}"]), name]
        return click.Option(decls, help=help, **{**inferred, **shown, **settings})

    return declared


def argument(metavar: str | None = None, **settings: Any) -> Any:
    """Declare an argument, which may be missing if its type has None, and be repeated if that is a sequence."""

    def declared(name: str, inferred: dict[str, Any]) -> click.Argument:
        if inferred.pop("multiple", False):
            inferred["nargs"] = -1
        return click.Argument([name], metavar=metavar, **{**inferred, **settings})

    return declared


def explained(words: Mapping[Any, str]) -> str:
    """Return the help of an option that is one of several words."""
    return "; ".join(f"{name}: {text}" for name, text in words.items()) + "."


@dataclass(frozen=True)
class _Together:
    make: Callable[..., Any]


def together(make: Callable[..., Any]) -> Any:
    """Declare several options as one parameter: the value that `make`, which declares them, returns for theirs."""
    return _Together(make)


def command(
    name: str, *, within: click.Group | None = None, json_help: str = "Print JSON to standard output.", **settings: Any
) -> Callable[[Callable[..., int | None]], Any]:
    """Make a function a command with --json, in a group if one is given; the exit code is what it returns."""

    def decorate(function: Callable[..., int | None]) -> click.Command:
        def run(**values: Any) -> None:
            if code := _call(function, values):
                click.get_current_context().exit(code)

        params = [*_parameters(function), click.Option(["--json", "as_json"], is_flag=True, help=json_help)]
        params.sort(key=lambda each: each.name == "no_runner")  # the help lists it last
        make: Any = click.command(name, params=params, **{"help": function.__doc__, **settings})
        made: click.Command = make(run)
        if within:
            within.add_command(made)
        return made

    return decorate


def _parameters(function: Callable[..., Any]) -> Iterator[click.Parameter]:
    for name, parameter in signature(function).parameters.items():
        if isinstance(parameter.default, _Together):
            yield from _parameters(parameter.default.make)
        else:
            yield parameter.default(name, _inferred(parameter.annotation))


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    return function(
        **{
            name: _call(each.default.make, values) if isinstance(each.default, _Together) else values[name]
            for name, each in signature(function).parameters.items()
        }
    )


def _inferred(kind: Any) -> dict[str, Any]:
    """Return what a type says of an option: a flag, one of several words, a path, a number; missing or repeated."""
    if get_origin(kind) in (Union, UnionType):  # X | None
        return {**_inferred(get_args(kind)[0]), "required": False}
    if get_origin(kind) is Sequence:
        return {**_inferred(get_args(kind)[0]), "required": False, "multiple": True}
    if get_origin(kind) is Literal:
        return {"type": click.Choice(get_args(kind)), "required": True}
    if kind is bool:
        return {"is_flag": True}
    return {"type": click.Path(path_type=Path) if kind is Path else kind, "required": True}


OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)
"""The type of an option that names a file to write."""


class NumberRange(click.FloatRange):
    """A number within bounds; unlike click's own, rejects nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or end the command with an error."""
        found = super().convert(value, param, ctx)
        if isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


def login_name() -> str:
    """Return the login name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, a user id may have no name
        return "someone"


OWNER = option(
    "Person who gives the command.",
    envvar="PARALLAB_OWNER",
    default=login_name,
    show_default="your login name",
    callback=lambda ctx, param, value: visible("owner", value),
)
ID = argument("ID")
WITHOUT_RUNNER = option("Do not start a runner; the runs stay queued until one starts.")
CLUSTER = option("Run on a cluster; the clusters command lists them.", "--on", metavar="CLUSTER", default="")
NODES = option("Number of the cluster's nodes.", default=1)


def launch_terms(
    priority: Priority = option("Runs of higher priority start first.", default="normal"),
    oversubscribe: bool = option(
        "Allow a start on cores that other runs hold; timings of all these runs become unreliable."
    ),
    max_run_time_s: float | None = option("Maximum run time; default: no limit.", "--max-run-time", metavar="SECONDS"),
    max_retries: int = option(
        "Number of automatic retries after the run is lost, from its last checkpoint.", default=0, show_default=True
    ),
    end_when_hung: bool = option("End the run as failed, with the cause, if it hangs."),
    target: str = CLUSTER,
    nodes: int = NODES,
) -> LaunchOptions:
    """Return the launch options of run, submit and sweep."""
    return LaunchOptions(priority, oversubscribe, max_run_time_s, max_retries, end_when_hung, target, nodes)


def named() -> bool:
    """Return whether the current command names its person, by --owner or PARALLAB_OWNER."""
    return click.get_current_context().get_parameter_source("owner") is not ParameterSource.DEFAULT


def code_of(error: EngineError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, StoreError) and not isinstance(error, NoSuchRun | NoSuchSweep | NoSuchDuel | WrongStatus):
        return NO_STORE
    if isinstance(error, RunnerError):
        return NO_RUNNER
    return FAILED if isinstance(error, RunFailed | OutputFailed) else BAD_INPUT


class CommandEntry(NamedTuple):
    """A command in a table: the module of `engine.cli` that has it, and its line in the list of commands."""

    module: str
    summary: str


class CommandTable(click.Group):
    """A group that imports a command when it is chosen and prints errors as sentences."""

    def __init__(self, *, table: Mapping[str, CommandEntry], **settings: Any) -> None:
        super().__init__(**settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.table:
            return None
        found = getattr(import_module(f"engine.cli.{self.table[cmd_name].module}"), f"{cmd_name}_command")
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.table.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an EngineError, an unwritable home, or a full disk, becomes a message and an exit code."""
        words = [*ctx._protected_args, *ctx.args]  # the invocation clears them
        try:
            with private():
                try:
                    return super().invoke(ctx)
                finally:
                    sys.stdout.flush()  # here rather than at exit, where Python would report it
        except EngineError as error:
            click.echo(str(error), err=True)
            if isinstance(error, Forbidden) and error.may:
                click.echo(_with_owner(ctx.command_path, words, error.may), err=True)
            ctx.exit(code_of(error))
        except OSError as error:
            if _is_in_home(error.filename):
                cure = "Set PARALLAB_HOME to a writable folder."
                click.echo(f"{error.filename} can't be used: {error.strerror}. {cure}", err=True)
                ctx.exit(NO_STORE)
            if error.filename is not None or error.errno not in _FULL:
                raise
            with suppress(OSError):
                cure = f"Free space on the disks of the output and of the home, {Home.find().path}."
                click.echo(f"Not everything could be written: {error.strerror}. {cure}", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
            ctx.exit(FAILED)

    def main(self, *words: Any, **settings: Any) -> Any:
        """Run the command line, in a process whose standard streams and home folder are there."""
        complete_process()
        return super().main(*words, **settings)


def complete_process() -> None:
    """Open closed standard streams as the null device, since the next file opened would take their numbers; name a home
    folder, which libraries need, for a user who has none.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115
    try:
        Path.home()
    except RuntimeError:  # HOME is not set and the user id has no name, as in a container
        with suppress(EngineError):
            os.environ["HOME"] = str(Home.find().path)


def _with_owner(path: str, words: Sequence[str], may: Sequence[str]) -> str:
    """Return a refused command under an account that may give it, ready to copy, and the other such accounts."""
    left, kept = list(words), list[str]()
    while left and left[0] != "--":
        word = left.pop(0)
        if word == "--owner":
            del left[:1]
        elif not word.startswith("--owner="):
            kept.append(word)
    ready = shlex.join([*path.split(), *kept, "--owner", may[0], *left])
    others = (
        f"\nOther accounts that may: {', '.join(may[1:_NAMED])}{', …' if len(may) > _NAMED else ''}." if may[1:] else ""
    )
    for_all = f"To set your account for all commands: export PARALLAB_OWNER={shlex.quote(may[0])}"
    return f"As {may[0]}:\n\n    {ready}\n{others}\n{for_all}"


def _is_in_home(filename: object) -> bool:
    home = Home.find().path
    return isinstance(filename, str) and (home.is_relative_to(filename) or Path(filename).is_relative_to(home))
