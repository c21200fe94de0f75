"""`list` and `cancel`: list runs, and cancel one or all of a sweep."""

import time
from collections.abc import Sequence
from typing import TypedDict, get_args

import click

from engine.cli.answers import duration, moment, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.errors import ConfigError, Problem, RunnerError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import RunRow, Status
from engine.system.runner_process import ensure_running

CANCEL_WAIT_S = 60.0


class ListOptions(TypedDict):
    """The filter options of `list`."""

    statuses: Sequence[Status] | None
    experiment: str | None
    owner: str | None
    sweep: int | None
    search: str


@click.command("list", short_help="List runs, newest first.")
@click.option(
    "--status",
    "statuses",
    type=click.Choice(get_args(Status)),
    multiple=True,
    help="Only runs with this status; repeatable.",
)
@click.option("--experiment", help="Only runs of this experiment.")
@click.option("--owner", help="Only runs of this person.")
@click.option("--sweep", type=int, help="Only runs of this sweep.")
@click.option(
    "--search", default="", help="Only runs whose name, owner, experiment, preset, tags or id contain this text."
)
@click.option(
    "--filter",
    "text",
    default="",
    help="Only runs that match a filter, such as 'trainers >= 4 and test/accuracy.best > 98'; see docs/filter.md.",
)
@click.option("--sort", help="Sort by a field, such as duration; -test/accuracy.best sorts in descending order.")
@click.option("--archived", is_flag=True, help="Include archived runs.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number of runs to list."
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Number of runs to skip.")
@json_option
def list_command(
    statuses: Sequence[Status],
    experiment: str | None,
    owner: str | None,
    sweep: int | None,
    search: str,
    text: str,
    sort: str | None,
    archived: bool,
    limit: int,
    offset: int,
    as_json: bool,
) -> None:
    """List runs, newest first; archived ones only with --archived."""
    with Reader.open(Home.find()) as reader:
        if sweep is not None:
            reader.sweeps.one(sweep)  # raises for an unknown sweep
        matching = reader.fields.filter(text)
        away = None if archived or matching.mentions("archived") else False
        asked: ListOptions = {
            "statuses": statuses or None,
            "experiment": experiment,
            "owner": owner,
            "sweep": sweep,
            "search": search,
        }
        order = reader.fields.order(sort) if sort else None
        rows = reader.runs.find(**asked, matching=matching, archived=away, order=order, limit=limit, offset=offset)
        total = reader.runs.count(**asked, matching=matching, archived=away)
    for note in matching.notes:
        click.echo(note, err=True)
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(
            ("No matching runs. Launch one with: python -m engine run hogwild --preset quick")
            if not total
            else "No more runs."
        )
    else:
        headings = ("ID", "SWEEP", "STATUS", "DONE", "EXPERIMENT", "PRESET", "NAME", "OWNER", "CREATED", "EXECUTION")
        click.echo(table(headings, [_cells(row) for row in rows]))
        if total > len(rows):
            click.echo(f"Showing {len(rows):,} of {total:,}; use --limit and --offset for more.")


def _cells(row: RunRow) -> tuple[object, ...]:
    return (
        *(row.id, row.sweep_id, row.status, f"{row.progress:.0%}", row.experiment, row.preset, row.name, row.owner),
        *(moment(row.created_at), duration(row.execution_time_s)),
    )


@click.command("cancel", short_help="Cancel a run, or all runs of a sweep.")
@click.argument("run_id", metavar="[ID]", type=int, required=False)
@click.option("--sweep", "sweep_id", metavar="ID", type=int, help="Cancel all runs of this sweep that have not ended.")
@click.option("--force", is_flag=True, help="Kill the processes at once, even if the run is already stopping.")
@click.option("--wait", is_flag=True, help="Wait until the runs have ended.")
@owner_option
@json_option
def cancel_command(
    run_id: int | None, sweep_id: int | None, force: bool, wait: bool, owner: str, as_json: bool
) -> None:
    """Cancel a run, or all runs of a sweep: at once while queued, otherwise by stopping worker and ranks.

    Processes that don't stop within seconds are killed. The run is cancelled once its processes are gone; its cause
    lists anything that could not be removed.
    """
    if (run_id is None) == (sweep_id is None):
        raise ConfigError([Problem("", "cancel needs the id of one run, or --sweep with the id of one sweep.")])
    home = Home.find()
    with Store.open(home) as store:
        if run_id is not None:
            found = {run_id: store.runs.cancel(run_id, by=owner, force=force)}
        else:
            assert sweep_id is not None
            found = store.sweeps.cancel(sweep_id, by=owner, force=force)
    if "stopping" in found.values():
        ensure_running(home)  # the runner stops the worker
        if wait:
            found = {each: _ended(home, each) if status == "stopping" else status for each, status in found.items()}
    if not as_json:
        for each, status in found.items():
            click.echo(f"Run {each} is {status}.")
    elif run_id is not None:
        print_json({"id": run_id, "status": found[run_id]})
    else:
        print_json({"id": sweep_id, "runs": found})


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
