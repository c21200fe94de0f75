"""`backup` and `restore`: copies of the store, and the way back."""

from pathlib import Path

import click

from engine.cli.answers import moment, print_json, table
from engine.cli.frame import json_option, owner_option
from engine.home import Home
from engine.upkeep.backups import back_up, backups
from engine.upkeep.restore import restore


@click.command("backup", short_help="Copy the store while runs go on.")
@click.option("--keep", type=click.IntRange(1), help="Delete all backups but so many of the newest afterwards.")
@click.option("--list", "only_list", is_flag=True, help="Make none; list those that are there.")
@owner_option
@json_option
def backup_command(keep: int | None, only_list: bool, owner: str, as_json: bool) -> None:
    """Copy the store as it is at this moment into backups/ of the home, with its checksum beside it; nobody who writes
    is held up.

    The runner does the same every PARALLAB_BACKUP_EVERY_H hours (24; 0: never) and keeps PARALLAB_BACKUP_KEEP (7). Logs
    and checkpoints in runs/ are not part of it.
    """
    home = Home.find()
    made = [] if only_list else [back_up(home, by=owner, keep=keep)]
    found = backups(home) if only_list else made
    if as_json:
        print_json(found if only_list else found[0])
    elif made:
        click.echo(
            f"{made[0].path} ({made[0].size / 1e6:,.1f} MB). Back from it: python -m engine restore {made[0].path}"
        )
    elif not found:
        click.echo(f"There are no backups in {home.backups}.")
    else:
        click.echo(
            table(("MADE", "MB", "FILE"), [(moment(each.made_at), each.size / 1e6, str(each.path)) for each in found])
        )


@click.command("restore", short_help="Put a backup in the place of the store.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--unchecked", is_flag=True, help="Take a file that has no checksum beside it.")
@owner_option
@json_option
def restore_command(file: Path, unchecked: bool, owner: str, as_json: bool) -> None:
    """Put a copy of FILE in the place of the store, once its checksum, schema and integrity hold.

    Refused while a runner serves the home or a run is on. The store that was there, and the folders of runs that FILE
    does not know, are moved to aside/ in the home and never deleted. Runs that were on when FILE was made become lost
    when a runner next looks.
    """
    done = restore(Home.find(), file.expanduser().absolute(), by=owner, unchecked=unchecked)
    if as_json:
        print_json(done)
    else:
        more = f", with {done.folders:,} folders of runs that the backup does not know" if done.folders else ""
        click.echo(
            f"The store is that of {file.name}: {done.runs:,} runs. What was there before lies in {done.aside}{more}."
        )
