"""`list`: list runs."""

from collections.abc import Sequence
from typing import TypedDict, get_args

import click

from engine.cli.answers import duration, moment, print_json, table
from engine.cli.frame import json_option
from engine.home import Home
from engine.store import Reader
from engine.store.records import RunRow, Status


class ListOptions(TypedDict):
    """The filter options of `list`."""

    statuses: Sequence[Status] | None
    experiment: str | None
    owner: str | None
    sweep: int | None
    search: str


@click.command("list")
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
        unequal = ""
        if sweep is not None:
            from engine.analysis.scaling.scaling_data import unequal_of_sweep  # only here: it imports the configs

            unequal = unequal_of_sweep(reader, sweep)
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
        if unequal:
            click.echo(unequal)


def _cells(row: RunRow) -> tuple[object, ...]:
    return (
        *(row.id, row.sweep_id, row.status, f"{row.progress:.0%}", row.experiment, row.preset, row.name, row.owner),
        *(moment(row.created_at), duration(row.elapsed_s)),
    )
