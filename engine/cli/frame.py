"""What all commands share: how they are found, what their errors become, who acts, and the option for JSON."""

import getpass
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import click

from engine.errors import (
    EngineError,
    NoSuchDuel,
    NoSuchRun,
    NoSuchSweep,
    RunFailed,
    RunnerError,
    StoreError,
    WrongStatus,
)
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority, Terms
from engine.umask import private

FAILED, BAD_INPUT, NO_STORE, NO_RUNNER, INTERRUPTED = 1, 2, 3, 4, 130

EXIT_CODES = (
    "Exit codes: 0 done; 1 the run ended other than finished, or doctor or fsck found a failure; 2 something "
    "asked for is not possible as it was asked; "
    "3 the store is busy, too new, full or can't be written; 4 the runner can't start or does not answer; 130 "
    "left by Ctrl-C while a run goes on."
)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Answer in JSON on standard output.")
owner_option: Decorator = click.option(
    "--owner",
    envvar="PARALLAB_OWNER",
    show_envvar=True,
    default=lambda: login_name(),
    show_default="your login name",
    help="Who does this.",
)


class NumberRange(click.FloatRange):
    """A number within bounds; click's own takes nan for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or end the command with a sentence."""
        found = super().convert(value, param, ctx)
        if isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


def terms_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `engine.launch_options`; the command gets them as `terms`."""

    @click.option(
        "--priority",
        type=click.Choice(PRIORITIES),
        default="normal",
        show_default=True,
        help="Runs of a higher one start first.",
    )
    @click.option(
        "--oversubscribe",
        is_flag=True,
        help="Let it start on cores that other runs hold; its times, and theirs, then say little.",
    )
    @click.option(
        "--max-run-time",
        "max_run_time_s",
        metavar="SECONDS",
        type=float,
        help="End the run when it has been on so long; default: no limit.",
    )
    @click.option(
        "--max-retries",
        type=int,
        default=0,
        show_default=True,
        help="Queue the run anew so often where it is lost, from its last checkpoint.",
    )
    @wraps(function)
    def command(
        *words: Any,
        priority: Priority,
        oversubscribe: bool,
        max_run_time_s: float | None,
        max_retries: int,
        **options: Any,
    ) -> Any:
        return function(*words, terms=Terms(priority, oversubscribe, max_run_time_s, max_retries), **options)

    return command


def login_name() -> str:
    """Return the name that this process's user logs in with."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run a user id that has no name
        return "someone"


def code_of(error: EngineError) -> int:
    """Return the exit code that an error ends a command with."""
    if isinstance(error, StoreError) and not isinstance(error, NoSuchRun | NoSuchSweep | NoSuchDuel | WrongStatus):
        return NO_STORE
    if isinstance(error, RunnerError):
        return NO_RUNNER
    return FAILED if isinstance(error, RunFailed) else BAD_INPUT


class CommandTable(click.Group):
    """A group that imports a command when it is asked for, and turns our errors into sentences."""

    def __init__(self, *, table: Mapping[str, str], **settings: Any) -> None:
        super().__init__(**settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name].partition(":")
        found = getattr(import_module(module), name)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an EngineError, or a home that can't be written, ends it with a sentence and a code."""
        try:
            with private():
                return super().invoke(ctx)
        except EngineError as error:
            click.echo(str(error), err=True)
            ctx.exit(code_of(error))
        except OSError as error:
            if not _is_in_home(error.filename):
                raise
            click.echo(
                f"{error.filename} can't be used: {error.strerror}. Give a folder that you may write in PARALLAB_HOME.",
                err=True,
            )
            ctx.exit(NO_STORE)


def _is_in_home(filename: object) -> bool:
    home = Home.find().path
    return isinstance(filename, str) and (home.is_relative_to(filename) or Path(filename).is_relative_to(home))
