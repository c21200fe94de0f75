"""`gc`: thin the curves of old runs, delete older ones."""

import click

from engine.cli.answers import print_json
from engine.cli.frame import NumberRange, json_option, owner_option
from engine.home import Home
from engine.upkeep.retention_policy import Collection, RetentionPolicy, collect, preview

NAMED = 20


@click.command("gc")
@click.option(
    "--thin-after-days",
    type=NumberRange(0),
    envvar="PARALLAB_THIN_AFTER_DAYS",
    show_envvar=True,
    help="Thin the curves of runs that ended at least this many days ago.",
)
@click.option(
    "--delete-after-days",
    type=NumberRange(0),
    envvar="PARALLAB_DELETE_AFTER_DAYS",
    show_envvar=True,
    help="Delete runs that ended at least this many days ago.",
)
@click.option(
    "--points",
    type=int,
    default=1_000,
    show_default=True,
    help="Number of points that a thinned curve keeps: first, last, min and max of each part.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
@owner_option
@json_option
def gc_command(
    thin_after_days: float | None,
    delete_after_days: float | None,
    points: int,
    dry_run: bool,
    owner: str,
    as_json: bool,
) -> None:
    """Thin the curves of old runs and delete older ones, with their logs and checkpoints; nothing is deleted without
    this command.

    Kept as they are: runs with a star, a pin or a tag, active runs and the runs that they resume, and runs of active
    sweeps. Numbers in lists (last, best, mean) still cover all points. Runs continue meanwhile.
    """
    policy = RetentionPolicy(thin_after_days, delete_after_days, points)
    found = preview(Home.find(), policy) if dry_run else collect(Home.find(), policy, by=owner)
    if as_json:
        print_json({"dry_run": dry_run, **vars(found)})
        return
    click.echo(_summary(found, dry_run))


def _summary(found: Collection, dry_run: bool) -> str:
    if not found.thinned and not found.deleted:
        return (
            "Nothing to do: no run is old enough, or those that are have a star, a pin or a tag, are active, or "
            "belong to an active sweep."
        )
    curves, runs = len(found.thinned), sorted({curve.run_id for curve in found.thinned})
    lines = []
    if found.deleted:
        verb = "Would delete" if dry_run else "Deleted"
        lines.append(
            f"{verb} {len(found.deleted):,} runs: {_ids([run.run_id for run in found.deleted])}; "
            f"{found.folder_bytes / 1e6:,.1f} MB of files."
        )
    if curves:
        lines.append(f"{'Would thin' if dry_run else 'Thinned'} {curves:,} curves of {len(runs):,} runs: {_ids(runs)}.")
    file = (
        f"about {found.store_bytes / 1e6:,.1f} MB of the store"
        if dry_run
        else f"the store's file shrank by {found.store_bytes / 1e6:,.1f} MB"
    )
    lines.append(f"{found.points:,} points; {file}.")
    if not dry_run and found.points and not found.store_bytes:
        lines.append("The file keeps its size; new runs reuse the free space.")
    return "\n".join(lines)


def _ids(run_ids: list[int]) -> str:
    more = f" and {len(run_ids) - NAMED:,} more" if len(run_ids) > NAMED else ""
    return ", ".join(map(str, run_ids[:NAMED])) + more
