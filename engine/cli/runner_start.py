"""Start a runner for commands that launch runs, and warn about settings that it ignores."""

import click

from engine.errors import RunnerError
from engine.home import Home
from engine.runner.shared_settings import RESTART, ignored_settings
from engine.system.runner_process import ensure_running


def see_to_runner(home: Home) -> None:
    """Start a runner for `home` if none is running; print on standard error why that failed, or which settings the
    running one ignores.

    Queued runs stay queued either way.
    """
    try:
        if ensure_running(home):
            return
    except RunnerError as error:
        click.echo(str(error), err=True)
    tell_ignored_settings(home)


def tell_ignored_settings(home: Home) -> None:
    """Print on standard error which settings differ between this process and the running runner."""
    for sentence in ignored_settings(home):
        click.echo(f"{sentence} {RESTART}", err=True)
