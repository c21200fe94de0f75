"""What commands that launch do about the runner: start one, and say what it does not take from whoever launches."""

import click

from engine.errors import RunnerError
from engine.home import Home
from engine.runner.shared_settings import RESTART, ignored_settings
from engine.system.runner_process import ensure_running


def see_to_runner(home: Home) -> None:
    """Start a runner where none serves `home`; tell on standard error why none can be started, or which settings the
    one that serves ignores.

    What was queued stays queued either way.
    """
    try:
        if ensure_running(home):
            return
    except RunnerError as error:
        click.echo(str(error), err=True)
    tell_ignored_settings(home)


def tell_ignored_settings(home: Home) -> None:
    """Say on standard error which settings of this process the live runner was started with otherwise."""
    for sentence in ignored_settings(home):
        click.echo(f"{sentence} {RESTART}", err=True)
