"""`run`, `submit`, `resume` and `retry`: queue a run, and follow it or not."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import click

from engine.analysis.total_work import unreached
from engine.cli.answers import print_json
from engine.cli.frame import FAILED, INTERRUPTED, json_option, owner_option, terms_options
from engine.cli.runner_start import see_to_runner, tell_ignored_settings
from engine.cli.show import summary, summary_text
from engine.cli.watch import RunWatch
from engine.home import Home
from engine.launch import launch, resume, retry
from engine.launch_options import Terms
from engine.registry import experiment
from engine.store import Reader

STORE_TIMEOUT_S = 30.0
"""Longer than elsewhere: at a command line, waiting is better than typing the command again."""


_no_runner_option = click.option(
    "--no-runner", is_flag=True, help="Do not start a runner; the run stays queued until one starts."
)


class Kept(TypedDict):
    """Options that the run's row stores unchanged."""

    title: str
    terms: Terms


class LaunchRequest(Kept):
    """All options of a launch."""

    settings: Sequence[str]


def _what_to_launch(function: Callable[..., Any]) -> Callable[..., Any]:
    for decorate in reversed(
        (
            click.argument("experiment_name", metavar="EXPERIMENT"),
            click.option("--preset", help="Preset to start from; the experiments command lists them."),
            click.option(
                "--set",
                "settings",
                metavar="KEY=VALUE",
                multiple=True,
                help="Change one setting; repeatable. 'none' clears a setting.",
            ),
            click.option("--name", "title", default="", help="Name of the run."),
            terms_options,
            owner_option,
            json_option,
        )
    ):
        function = decorate(function)
    return function


@click.command("run")
@_what_to_launch
@click.pass_context
def run_command(
    ctx: click.Context,
    experiment_name: str,
    preset: str | None,
    owner: str,
    as_json: bool,
    **asked: Unpack[LaunchRequest],
) -> None:
    """Launch a run and follow it until it ends; start a runner if none is running.

    Ctrl-C cancels the run; a second Ctrl-C detaches from it. Exits with 0 only if the run finished. With --json, the
    last line of standard output is an object with id, status, cause, execution_time_s, result, metrics
    (last values) and best.
    """
    home = Home.find()
    run_id = _launch(home, experiment_name, preset, owner, **asked)
    if not as_json:
        known = f", preset {preset}" if preset and not asked["settings"] else ""
        click.echo(f"Run {run_id}: {experiment_name}{known}, by {owner}.")
    tell_ignored_settings(home)
    ended = RunWatch(home, run_id, owner).until_ended()
    with Reader.open(home, timeout_s=STORE_TIMEOUT_S) as reader:
        found = summary(reader, run_id)
    if as_json:
        print_json(found)
    else:
        click.echo(summary_text(found))
    ctx.exit(INTERRUPTED if not ended else 0 if found["status"] == "finished" else FAILED)


@click.command("submit")
@_what_to_launch
@_no_runner_option
def submit_command(
    experiment_name: str, preset: str | None, owner: str, as_json: bool, no_runner: bool, **asked: Unpack[LaunchRequest]
) -> None:
    """Queue a run and return at once; start a runner if none is running."""
    home = Home.find()
    run_id = _launch(home, experiment_name, preset, owner, **asked)
    if not no_runner:
        see_to_runner(home)
    if as_json:
        print_json({"id": run_id})
    else:
        click.echo(f"Run {run_id} queued. {_follow(run_id)}")


@click.command("resume")
@click.argument("parent_id", metavar="ID", type=int)
@owner_option
@json_option
@_no_runner_option
def resume_command(parent_id: int, owner: str, as_json: bool, no_runner: bool) -> None:
    """Queue a new run that continues a cancelled, lost or failed run from its last checkpoint.

    The new run includes the old run's curves up to the checkpoint, and has it as its parent.
    """
    home = Home.find()
    run_id = resume(home, parent_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    if not no_runner:
        see_to_runner(home)
    if as_json:
        print_json({"id": run_id, "parent_id": parent_id})
    else:
        click.echo(f"Run {run_id} queued; it resumes run {parent_id}. {_follow(run_id)}")


@click.command("retry")
@click.argument("parent_id", metavar="ID", type=int)
@owner_option
@json_option
@_no_runner_option
def retry_command(parent_id: int, owner: str, as_json: bool, no_runner: bool) -> None:
    """Queue a new run that repeats a cancelled, lost or failed run from the start, with the same settings.

    The new run has the old one as its parent, and belongs to the same sweep.
    """
    home = Home.find()
    run_id = retry(home, parent_id, owner=owner, timeout_s=STORE_TIMEOUT_S)
    if not no_runner:
        see_to_runner(home)
    if as_json:
        print_json({"id": run_id, "parent_id": parent_id})
    else:
        click.echo(f"Run {run_id} queued; it repeats run {parent_id} from the start. {_follow(run_id)}")


def _follow(run_id: int) -> str:
    return f"Follow its logs: python -m engine logs {run_id} --follow"


def _launch(
    home: Home, name: str, preset: str | None, owner: str, *, settings: Sequence[str], **asked: Unpack[Kept]
) -> int:
    found = experiment(name)
    config = found.config.parse(settings, found.preset(preset).settings if preset else {})
    tell_cautions(unreached(found, config, asked["terms"].max_run_time_s))
    return launch(home, name, config, owner=owner, preset=preset, timeout_s=STORE_TIMEOUT_S, **asked)


def tell_cautions(cautions: Sequence[str]) -> None:
    """Print cautions to standard error, which leaves the answer alone."""
    for caution in cautions:
        click.echo(f"Caution: {caution}", err=True)
