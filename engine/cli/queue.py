"""`queue`, `hold`, `release` and `move`: what waits, why, when it should start, and another order."""

from collections.abc import Callable, Sequence
from typing import get_args

import click

from engine.access.quotas import limits
from engine.cli.answers import duration, plain, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.cli.limits import read_value
from engine.commands.quotas import change_limits
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority
from engine.queue.forecast import MOST, Wait, outlook, start_in_words
from engine.store import Reader, Store
from engine.store.queue.queue import End

RUNNING = "max_running_per_person"


@click.command("queue", short_help="List what waits, in order, with reasons and estimated starts.")
@click.option(
    "--max-per-person",
    "most",
    metavar="NUMBER",
    help="First let a person have at most so many runs on at a time; 'none' for no limit.",
)
@owner_option
@json_option
def queue_command(most: str | None, owner: str, as_json: bool) -> None:
    """List the runs that wait in the order in which they start, why each waits, and when it should start.

    Times are those of like runs that finished on this machine; where there are none, nothing is said.
    """
    home = Home.find()
    if most is not None:
        change_limits(home, {RUNNING: read_value(RUNNING, most)}, by=owner, anew=True)
    found = limits(home)
    with Reader.open(home) as reader:
        waits, total = list(outlook(reader, home).values()), reader.queue.count()
    if as_json:
        print_json(
            {
                "max_running_per_person": found.max_running_per_person,
                "queued": total,
                "runs": [_plain(wait) for wait in waits],
            }
        )
        return
    if most is not None or found.max_running_per_person is not None:
        click.echo(f"A person may have {found.max_running_per_person or 'any number of'} runs on at a time.")
    if not waits:
        click.echo("No run waits.")
        return
    click.echo(
        table(
            ("ID", "PRIORITY", "EXPERIMENT", "NAME", "OWNER", "CORES", "GPUS", "TAKES", "STARTS", "WHY"),
            [_cells(wait) for wait in waits],
        )
    )
    if total > len(waits):
        click.echo(f"Showing the first {MOST} of {total:,}.")


@click.command("hold", short_help="Keep queued runs from starting.")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@owner_option
@json_option
def hold_command(run_ids: Sequence[int], owner: str, as_json: bool) -> None:
    """Keep queued runs from starting until they are released; they keep their place."""
    _each(run_ids, lambda store, run_id: store.queue.hold(run_id, by=owner), "on hold", as_json)


@click.command("release", short_help="Let runs on hold start again.")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@owner_option
@json_option
def release_command(run_ids: Sequence[int], owner: str, as_json: bool) -> None:
    """Let runs on hold start when their turn comes."""
    _each(run_ids, lambda store, run_id: store.queue.release(run_id, by=owner), "released", as_json)


@click.command("move", short_help="Put queued runs before or behind others, or give them another priority.")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option(
    "--to",
    "end",
    type=click.Choice(get_args(End)),
    help="Before or behind all others of its priority; several keep the order given.",
)
@click.option(
    "--priority", type=click.Choice(PRIORITIES), help="Give another priority; runs of a higher one start first."
)
@owner_option
@json_option
def move_command(run_ids: Sequence[int], end: End | None, priority: Priority | None, owner: str, as_json: bool) -> None:
    """Put queued runs before or behind all others of their priority, or give them another priority, or both."""
    if end is None and priority is None:
        raise ConfigError([Problem("", "move takes --to front, --to back or --priority.")])

    def move(store: Store, run_id: int) -> None:
        if priority:
            store.queue.set_priority(run_id, priority, by=owner)
        if end:
            store.queue.move(run_id, end, by=owner)

    said = ", ".join(
        [*([f"of {priority} priority"] if priority else []), *([f"at the {end} of its priority"] if end else [])]
    )
    _each(run_ids[::-1] if end == "front" else run_ids, move, said, as_json)


def _each(run_ids: Sequence[int], order: Callable[[Store, int], None], said: str, as_json: bool) -> None:
    """Give one command for each run; the first that can't be done ends it, and those before it are done."""
    with Store.open(Home.find()) as store:
        for run_id in run_ids:
            order(store, run_id)
            if not as_json:
                click.echo(f"Run {run_id} is {said}.")
    if as_json:
        print_json({"runs": list(run_ids), "now": said})


def _cells(wait: Wait) -> tuple[object, ...]:
    run = wait.run
    takes = f"{duration(wait.takes.median)} ({wait.takes.runs} like)" if wait.takes else ""
    return (
        *(run.id, run.priority, run.experiment, run.name, run.owner, run.demand.cores, run.demand.gpus),
        *(takes, start_in_words(wait.starts_in_s), wait.reason),
    )


def _plain(wait: Wait) -> dict[str, object]:
    run: dict[str, object] = plain(wait.run)
    return {**run, "reason": wait.reason, "takes": wait.takes, "starts_in_s": wait.starts_in_s}
