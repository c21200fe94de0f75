"""`list` and `cancel`: the runs of the lab, and ending one."""

import time
from collections.abc import Sequence
from typing import get_args

import click

from engine.cli.answers import duration, moment, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.errors import RunnerError
from engine.home import Home
from engine.runtime.runner import ensure_running
from engine.store import Reader, Store
from engine.store.records import RunRow, Status

CANCEL_WAIT_S = 60.0


@click.command("list", short_help="List runs, newest first.")
@click.option("--status", "statuses", type=click.Choice(get_args(Status)), multiple=True, help="Only runs of this status; may be given often.")
@click.option("--experiment", help="Only runs of this experiment.")
@click.option("--owner", help="Only runs of this person.")
@click.option("--search", default="", help="Only runs whose name, owner, experiment, preset, tags or id hold this text.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many, newest first.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many of the newest.")
@json_option
def list_command(statuses: Sequence[Status], experiment: str | None, owner: str | None, search: str, limit: int, offset: int, as_json: bool) -> None:
    """List runs, newest first."""
    with Reader.open(Home.find()) as reader:
        rows = reader.runs(statuses=statuses or None, experiment=experiment, owner=owner, search=search, limit=limit, offset=offset)
        total = reader.count(statuses=statuses or None, experiment=experiment, owner=owner, search=search)
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No run fits. The first one: python -m engine run hogwild --preset quick" if not total else "No more runs.")
    else:
        click.echo(table(("ID", "STATUS", "DONE", "EXPERIMENT", "PRESET", "NAME", "OWNER", "CREATED", "EXECUTION"), [_cells(row) for row in rows]))
        if total > len(rows):
            click.echo(f"Showing {len(rows):,} of {total:,}; --limit and --offset show others.")


def _cells(row: RunRow) -> tuple[object, ...]:
    return (
        *(row.id, row.status, f"{row.progress:.0%}", row.experiment, row.preset, row.name, row.owner),
        *(moment(row.created_at), duration(row.execution_time_s)),
    )


@click.command("cancel", short_help="Cancel a run.")
@click.argument("run_id", metavar="ID", type=int)
@click.option("--wait", is_flag=True, help="Return only when the run has ended.")
@owner_option
@json_option
def cancel_command(run_id: int, wait: bool, owner: str, as_json: bool) -> None:
    """Cancel a run: at once while it is queued, else by ending its worker and all its ranks."""
    home = Home.find()
    with Store.open(home) as store:
        status = store.request_cancel(run_id, by=owner)
    if status == "stopping":
        ensure_running(home)  # ending the worker is the runner's work
        if wait:
            status = _ended(home, run_id)
    if as_json:
        print_json({"id": run_id, "status": status})
    else:
        click.echo(f"Run {run_id} is {status}.")


def _ended(home: Home, run_id: int) -> Status:
    deadline = time.monotonic() + CANCEL_WAIT_S
    with Reader.open(home) as reader:
        while (run := reader.run(run_id)).active:
            if time.monotonic() > deadline:
                raise RunnerError(f"Run {run_id} was asked to stop, but it is still {run.status} after {CANCEL_WAIT_S:.0f} s. See {home.runner_log}.")
            time.sleep(0.1)
    return run.status
