"""`queue`, `hold`, `release`, `move` and `cancel`: show and change the queue."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from engine.cli.answers import duration, plain, print_changed, print_json, short, table, wants_json
from engine.cli.frame import OWNER, argument, command, option
from engine.errors import ConfigError, RunnerError
from engine.home import Home
from engine.launch_options import Priority
from engine.store import Reader, Store
from engine.store.queue.queue import End
from engine.store.records import Status
from engine.system.runner_process import ensure_running

if TYPE_CHECKING:
    from engine.queue.forecast import Wait

RUNNING = "max_running_per_person"
CANCEL_WAIT_S = 60.0
QUEUED_IDS = argument("ID...", required=True)


@command("queue")
def queue_command(
    most: str | None = option(
        "First set the maximum number of running runs per person; 'none' for no limit.",
        "--max-per-person",
        metavar="NUMBER",
    ),
    owner: str = OWNER,
) -> None:
    """List queued runs in their start order, with the reason for waiting and the estimated start.

    Estimates come from similar runs that finished on this machine; without any, they are empty.
    """
    from engine.access.quotas import limits, read_value
    from engine.commands.lab_settings import change_limits
    from engine.queue.forecast import MOST, outlook  # imports pydantic

    home = Home.find()
    if most is not None:
        change_limits(home, {RUNNING: read_value(RUNNING, most)}, by=owner, replace_unreadable=True)
    found = limits(home)
    per_person = found.max_running_per_person
    own = [name for name in found.people if found.of(name).max_running_per_person != per_person]
    with Reader.open(home) as reader:
        waits, total = list(outlook(reader, home).values()), reader.queue.count()
    if wants_json():
        print_json({RUNNING: per_person, "queued": total, "runs": [_plain(wait) for wait in waits]})
        return
    if most is not None or per_person is not None:
        apart = f"; another limit for {', '.join(own[:3])}{' …' if len(own) > 3 else ''} (see `limits`)" if own else ""
        click.echo(f"Running runs per person: {per_person or 'no limit'}{apart}.")
    headings = ("ID", "PRIORITY", "EXPERIMENT", "NAME", "OWNER", "CORES", "GPUS", "TAKES", "STARTS", "WHY")
    click.echo(table(headings, map(_cells, waits), "The queue is empty."))
    if total > len(waits) > 0:
        click.echo(f"Showing the first {MOST} of {total:,}.", err=True)


def _cells(wait: "Wait") -> tuple[object, ...]:
    run = wait.run
    limited = ", limit" if wait.takes and wait.takes.whole_s is not None else ""
    source = "scaled" if wait.takes and wait.takes.scaled_from else "similar"
    takes = f"{duration(wait.takes.median)} ({wait.takes.runs} {source}{limited})" if wait.takes else ""
    return (
        *(run.id, run.priority, run.experiment, short(run.name), run.owner, run.demand.cores, run.demand.gpus),
        *(takes, wait.start, wait.reason),
    )


def _plain(wait: "Wait") -> dict[str, object]:
    run: dict[str, object] = plain(wait.run)
    return {**run, "reason": wait.reason, "takes": wait.takes, "starts_in_s": wait.starts_in_s}


@command("hold")
def hold_command(run_ids: Sequence[int] = QUEUED_IDS, owner: str = OWNER) -> None:
    """Put queued runs on hold until they are released; they keep their place."""
    _each(run_ids, lambda store, run_id: store.queue.hold(run_id, by=owner), "on hold")


@command("release")
def release_command(run_ids: Sequence[int] = QUEUED_IDS, owner: str = OWNER) -> None:
    """Release runs on hold; they start when their turn comes."""
    _each(run_ids, lambda store, run_id: store.queue.release(run_id, by=owner), "released")


@command("move")
def move_command(
    run_ids: Sequence[int] = QUEUED_IDS,
    end: End | None = option("Move to the front or back of its priority; several runs keep the order given.", "--to"),
    priority: Priority | None = option("New priority; runs of higher priority start first."),
    owner: str = OWNER,
) -> None:
    """Move queued runs to the front or back of their priority, change their priority, or both."""
    if end is None and priority is None:
        raise ConfigError.of("", "move needs --to front, --to back or --priority.")

    def move(store: Store, run_id: int) -> None:
        if priority:
            store.queue.set_priority(run_id, priority, by=owner)
        if end:
            store.queue.move(run_id, end, by=owner)

    said = filter(None, [priority and f"of {priority} priority", end and f"at the {end} of its priority"])
    _each(run_ids[::-1] if end == "front" else run_ids, move, ", ".join(said))


def _each(run_ids: Sequence[int], change: Callable[[Store, int], None], said: str) -> None:
    """Apply one command to each run; stops at the first failure, and keeps the changes before it."""
    with Store.open(Home.find()) as store:
        for run_id in run_ids:
            change(store, run_id)
            if not wants_json():
                print_changed([run_id], said)
    if wants_json():
        print_changed(run_ids, said)


@command("cancel")
def cancel_command(
    run_ids: Sequence[int] = argument("[ID]..."),
    sweep_id: int | None = option("Cancel all runs of this sweep that have not ended.", "--sweep", metavar="ID"),
    force: bool = option("Kill the processes at once, even if the run is already stopping."),
    wait: bool = option("Wait until the runs have ended."),
    owner: str = OWNER,
) -> None:
    """Cancel runs (all of them, or none if one can't be), or all runs of a sweep: at once while queued, otherwise by
    stopping worker and ranks.

    Processes that don't stop within seconds are killed. A run is cancelled once its processes are gone; its cause lists
    anything that could not be removed.
    """
    if bool(run_ids) == (sweep_id is not None):
        raise ConfigError.of("", "cancel needs the ids of runs, or --sweep with the id of one sweep.")
    home = Home.find()
    with Store.open(home) as store, store.db.change():
        if sweep_id is not None:
            found = store.sweeps.cancel(sweep_id, by=owner, force=force)
        else:
            found = {run_id: store.runs.cancel(run_id, by=owner, force=force) for run_id in run_ids}
    if "stopping" in found.values():
        ensure_running(home)  # the runner stops the worker
        if wait:
            found = {each: _ended(home, each) if status == "stopping" else status for each, status in found.items()}
    if wants_json():
        one = {"id": run_ids[0], "status": found[run_ids[0]]} if len(run_ids) == 1 else None
        print_json(one or {"id": sweep_id, "runs": found})
        return
    for each, status in found.items():
        click.echo(f"Run {each} is {status}.")


def _ended(home: Home, run_id: int) -> Status:
    deadline = time.monotonic() + CANCEL_WAIT_S
    with Reader.open(home) as reader:
        while (run := reader.runs.one(run_id)).active:
            if time.monotonic() > deadline:
                raise RunnerError(
                    f"Run {run_id} is still {run.status} {CANCEL_WAIT_S:.0f} s after its cancellation. See "
                    f"{home.runner_log}."
                )
            time.sleep(0.1)
    return run.status
