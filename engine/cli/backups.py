"""`backup` and `restore`: copies of the store, and the way back."""

from pathlib import Path

import click

from engine.cli.answers import moment, print_json, table
from engine.cli.frame import json_option, named, owner_option
from engine.commands.authorize import operator
from engine.errors import RunnerError
from engine.home import Home
from engine.system.console_presence import is_served
from engine.upkeep.backups import back_up, backups
from engine.upkeep.restore import restore


@click.command("backup")
@click.option("--keep", type=click.IntRange(1), help="Number of backups to keep; older ones are deleted afterwards.")
@click.option("--list", "only_list", is_flag=True, help="List the existing backups instead of making one.")
@owner_option
@json_option
def backup_command(keep: int | None, only_list: bool, owner: str, as_json: bool) -> None:
    """Copy the store into backups/ in the home, with a checksum file; writers are not blocked.

    The runner makes a backup every PARALLAB_BACKUP_EVERY_H hours (24; 0: never) and keeps PARALLAB_BACKUP_KEEP (7).
    Logs
    and checkpoints in runs/ are not part of it.
    """
    home = Home.find()
    made = [] if only_list else [back_up(home, by=owner if named() else operator(home, owner), keep=keep)]
    found = backups(home) if only_list else made
    if as_json:
        print_json(found if only_list else found[0])
    elif made:
        click.echo(
            f"{made[0].path} ({made[0].size / 1e6:,.1f} MB). Restore it with: python -m engine restore {made[0].path}"
        )
    elif not found:
        click.echo(f"No backups in {home.backups}.")
    else:
        click.echo(
            table(("MADE", "MB", "FILE"), [(moment(each.made_at), each.size / 1e6, str(each.path)) for each in found])
        )


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--unchecked", is_flag=True, help="Accept a file without a checksum file.")
@owner_option
@json_option
def restore_command(file: Path, unchecked: bool, owner: str, as_json: bool) -> None:
    """Replace the store by a copy of FILE, after checking its checksum, schema and integrity.

    Refused while a console, a runner or a run is active. The previous store, and the folders of runs that are not in
    FILE, are kept in aside/ of the home (folders: of runs/ if that is on another file system) and never deleted. Runs
    that were running when FILE was made are marked as lost by the next runner.
    """
    home = Home.find()
    if is_served(home):
        raise RunnerError(
            f"The store can't be replaced while a console serves {home.path}. Stop the console first: Ctrl-C in its "
            "terminal, or systemctl stop parallab-console. Start it again after the restore."
        )
    owner = owner if named() else operator(home, owner)
    done = restore(home, file.expanduser().absolute(), by=owner, unchecked=unchecked)
    if as_json:
        print_json(done)
    else:
        more = f", and {done.folders:,} folders of runs that are not in the backup in {done.folders_in}"
        kept = f"The previous store is in {done.aside}{more if done.folders else ''}."
        click.echo(f"Restored {file.name}: {done.runs:,} runs. {kept}")
