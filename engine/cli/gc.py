"""`gc`: thin the curves of old runs, delete older ones."""

import click

from engine.cli.answers import print_json
from engine.cli.frame import NumberRange, json_option, owner_option
from engine.home import Home
from engine.upkeep.retention_policy import Collection, RetentionPolicy, collect, preview

NAMED = 20


@click.command("gc", short_help="Thin the curves of old runs, delete older ones.")
@click.option(
    "--thin-after-days",
    type=NumberRange(0),
    envvar="PARALLAB_THIN_AFTER_DAYS",
    show_envvar=True,
    help="Thin curves of runs that ended so long ago.",
)
@click.option(
    "--delete-after-days",
    type=NumberRange(0),
    envvar="PARALLAB_DELETE_AFTER_DAYS",
    show_envvar=True,
    help="Delete runs that ended so long ago.",
)
@click.option(
    "--points",
    type=int,
    default=1_000,
    show_default=True,
    help="So many points of a thinned curve stay: first, last, least, greatest of each part.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
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
    """Thin the curves of old runs and delete older ones, with their logs and checkpoints; without this command nothing
    is ever taken away.

    A run that has a star, a pin or a tag, that has not ended, that a run which is on resumes, or whose sweep goes on is
    left alone. Numbers in lists (last, best, mean) stay those of all points. Runs go on meanwhile.
    """
    policy = RetentionPolicy(thin_after_days, delete_after_days, points)
    found = preview(Home.find(), policy) if dry_run else collect(Home.find(), policy, by=owner)
    if as_json:
        print_json({"dry_run": dry_run, **vars(found)})
        return
    click.echo(_told(found, dry_run))


def _told(found: Collection, dry_run: bool) -> str:
    if not found.thinned and not found.deleted:
        return (
            "Nothing is old enough, or all that is has a star, a pin or a tag, is on, or belongs to a sweep that "
            "goes on."
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
        else f"the store's file gave back {found.store_bytes / 1e6:,.1f} MB"
    )
    lines.append(f"{found.points:,} points; {file}.")
    if not dry_run and found.points and not found.store_bytes:
        lines.append("The room is used by the runs to come; the file itself keeps its size.")
    return "\n".join(lines)


def _ids(run_ids: list[int]) -> str:
    more = f" and {len(run_ids) - NAMED:,} more" if len(run_ids) > NAMED else ""
    return ", ".join(map(str, run_ids[:NAMED])) + more
