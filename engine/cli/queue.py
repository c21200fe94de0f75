"""`queue`, `hold`, `release` and `move`: show and change the queue."""

from collections.abc import Callable, Sequence
from typing import get_args

import click

from engine.access.quotas import limits, read_value
from engine.cli.answers import duration, plain, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.commands.quotas import change_limits
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.launch_options import PRIORITIES, Priority
from engine.queue.forecast import MOST, Wait, outlook
from engine.store import Reader, Store
from engine.store.queue.queue import End

RUNNING = "max_running_per_person"


@click.command("queue")
@click.option(
    "--max-per-person",
    "most",
    metavar="NUMBER",
    help="First set the maximum number of running runs per person; 'none' for no limit.",
)
@owner_option
@json_option
def queue_command(most: str | None, owner: str, as_json: bool) -> None:
    """List queued runs in their start order, with the reason for waiting and the estimated start.

    Estimates come from similar runs that finished on this machine; without any, they are empty.
    """
    home = Home.find()
    if most is not None:
        change_limits(home, {RUNNING: read_value(RUNNING, most)}, by=owner, replace_unreadable=True)
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
        click.echo(f"Running runs per person: {found.max_running_per_person or 'no limit'}.")
    if not waits:
        click.echo("The queue is empty.")
        return
    click.echo(
        table(
            ("ID", "PRIORITY", "EXPERIMENT", "NAME", "OWNER", "CORES", "GPUS", "TAKES", "STARTS", "WHY"),
            [_cells(wait) for wait in waits],
        )
    )
    if total > len(waits):
        click.echo(f"Showing the first {MOST} of {total:,}.")


@click.command("hold")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@owner_option
@json_option
def hold_command(run_ids: Sequence[int], owner: str, as_json: bool) -> None:
    """Put queued runs on hold until they are released; they keep their place."""
    _each(run_ids, lambda store, run_id: store.queue.hold(run_id, by=owner), "on hold", as_json)


@click.command("release")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@owner_option
@json_option
def release_command(run_ids: Sequence[int], owner: str, as_json: bool) -> None:
    """Release runs on hold; they start when their turn comes."""
    _each(run_ids, lambda store, run_id: store.queue.release(run_id, by=owner), "released", as_json)


@click.command("move")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option(
    "--to",
    "end",
    type=click.Choice(get_args(End)),
    help="Move to the front or back of its priority; several runs keep the order given.",
)
@click.option("--priority", type=click.Choice(PRIORITIES), help="New priority; runs of higher priority start first.")
@owner_option
@json_option
def move_command(run_ids: Sequence[int], end: End | None, priority: Priority | None, owner: str, as_json: bool) -> None:
    """Move queued runs to the front or back of their priority, change their priority, or both."""
    if end is None and priority is None:
        raise ConfigError([Problem("", "move needs --to front, --to back or --priority.")])

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
    """Apply one command to each run; stops at the first failure, and keeps the changes before it."""
    with Store.open(Home.find()) as store:
        for run_id in run_ids:
            order(store, run_id)
            if not as_json:
                click.echo(f"Run {run_id} is {said}.")
    if as_json:
        print_json({"runs": list(run_ids), "now": said})


def _cells(wait: Wait) -> tuple[object, ...]:
    run = wait.run
    limited = ", limit" if wait.takes and wait.takes.whole_s is not None else ""
    source = "scaled" if wait.takes and wait.takes.scaled_from else "similar"
    takes = f"{duration(wait.takes.median)} ({wait.takes.runs} {source}{limited})" if wait.takes else ""
    return (
        *(run.id, run.priority, run.experiment, run.name, run.owner, run.demand.cores, run.demand.gpus),
        *(takes, wait.start, wait.reason),
    )


def _plain(wait: Wait) -> dict[str, object]:
    run: dict[str, object] = plain(wait.run)
    return {**run, "reason": wait.reason, "takes": wait.takes, "starts_in_s": wait.starts_in_s}
