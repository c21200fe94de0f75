"""Shared by all commands: loading, error handling, and the options --owner and --json."""

import errno
import getpass
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

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
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority, Terms
from engine.umask import private

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NAMED = 10
"""Number of accounts that a refusal names."""
FAILED, BAD_INPUT, NO_STORE, NO_RUNNER, INTERRUPTED = 1, 2, 3, 4, 130

EXIT_CODES = (
    "Exit codes: 0 success; 1 the run did not finish, the output can't be written, or doctor or fsck found a "
    "failure; 2 invalid arguments, or the request was refused; 3 the store is busy, too new, full or not writable; 4 "
    "the runner can't start or does not answer; 130 detached by Ctrl-C while the run continues."
)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON to standard output.")
owner_option: Decorator = click.option(
    "--owner",
    envvar="PARALLAB_OWNER",
    show_envvar=True,
    default=lambda: login_name(),
    show_default="your login name",
    callback=lambda ctx, param, value: visible("owner", value),
    help="Person who gives the command.",
)


class NumberRange(click.FloatRange):
    """A number within bounds; unlike click's own, rejects nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or end the command with an error."""
        found = super().convert(value, param, ctx)
        if isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the machine to run on, passed to the command as `target` and `nodes`."""
    nodes = click.option("--nodes", type=int, default=1, show_default=True, help="Number of the cluster's nodes.")
    target = click.option(
        "--on", "target", metavar="CLUSTER", default="", help="Run on a cluster; the clusters command lists them."
    )
    return target(nodes(function))


def terms_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `engine.launch_options`, passed to the command as `terms`."""

    @click.option(
        "--priority",
        type=click.Choice(PRIORITIES),
        default="normal",
        show_default=True,
        help="Runs of higher priority start first.",
    )
    @click.option(
        "--oversubscribe",
        is_flag=True,
        help="Allow a start on cores that other runs hold; timings of all these runs become unreliable.",
    )
    @click.option(
        "--max-run-time",
        "max_run_time_s",
        metavar="SECONDS",
        type=float,
        help="Maximum run time; default: no limit.",
    )
    @click.option(
        "--max-retries",
        type=int,
        default=0,
        show_default=True,
        help="Number of automatic retries after the run is lost, from its last checkpoint.",
    )
    @click.option("--end-when-hung", is_flag=True, help="End the run as failed, with the cause, if it hangs.")
    @cluster_options
    @wraps(function)
    def command(
        *words: Any,
        priority: Priority,
        oversubscribe: bool,
        max_run_time_s: float | None,
        max_retries: int,
        end_when_hung: bool,
        target: str,
        nodes: int,
        **options: Any,
    ) -> Any:
        terms = Terms(priority, oversubscribe, max_run_time_s, max_retries, end_when_hung, target, nodes)
        return function(*words, terms=terms, **options)

    return command


def login_name() -> str:
    """Return the login name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, a user id may have no name
        return "someone"


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
    """A command in a table: `module:name`, and its line in the list of commands."""

    path: str
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
        module, _, name = self.table[cmd_name].path.partition(":")
        found = getattr(import_module(module), name)
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
                click.echo(
                    f"{error.filename} can't be used: {error.strerror}. Set PARALLAB_HOME to a writable folder.",
                    err=True,
                )
                ctx.exit(NO_STORE)
            if error.filename is not None or error.errno not in _FULL:
                raise
            with suppress(OSError):
                click.echo(
                    f"Not everything could be written: {error.strerror}. Free space on the disks of the output and of "
                    f"the home, {Home.find().path}.",
                    err=True,
                )
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
