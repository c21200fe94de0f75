"""`backup`, `restore`, `fsck`, `gc`, `delete` and `doctor`: keep a store and its machine sound.

Each command imports what it needs: some of it takes a quarter of a second.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.cli.answers import answer, moment, picked, print_json, table, wants_json
from engine.cli.frame import FAILED, OWNER, NumberRange, argument, command, named, option
from engine.cli.marks import FILTER, RUN_IDS, chosen_runs
from engine.errors import EngineError, RunnerError, StoreError, counted
from engine.home import Home
from engine.store import Reader

if TYPE_CHECKING:
    from engine.doctor import Finding
    from engine.upkeep.fsck import Trouble
    from engine.upkeep.retention_policy import Collection

NAMED = 20
"""Number of runs that gc names."""
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@command("backup")
def backup_command(
    file: Path | None = argument(metavar="[--check FILE]"),
    keep: int | None = option("Number of backups to keep; older ones are deleted afterwards.", type=click.IntRange(1)),
    only_list: bool = option("List the existing backups instead of making one.", "--list"),
    check_one: bool = option("Check FILE, or the newest backup, instead of making one; changes nothing.", "--check"),
    owner: str = OWNER,
) -> None:
    """Copy the store into backups/ in the home, with a checksum file and the quotas; writers are not blocked.

    The runner makes a backup every PARALLAB_BACKUP_EVERY_H hours (24; 0: never) and keeps PARALLAB_BACKUP_KEEP (7).
    It holds the runs with their curves, the accounts, the audit log and the quotas. Not part of it: runs/, files/,
    experiments/, methods/, exercises/, catalogue.json, clusters.toml and notices.toml.

    --check makes the checks of restore: checksum, schema, integrity, number of runs.
    """
    from engine.commands.lab_settings import operator
    from engine.upkeep.backups import IN_A_BACKUP, NOT_IN_A_BACKUP, SUM, back_up, backups, check

    home = Home.find()
    if file and not check_one:
        raise click.UsageError(
            f"A backup goes into {home.backups}, not to {file}: make one with python -m engine backup, then copy "
            f"it and its {SUM} file from there. To check a backup: python -m engine backup --check {file}"
        )
    if check_one:
        newest = [each.path for each in backups(home)[:1]]
        if not (chosen := file.expanduser().absolute() if file else next(iter(newest), None)):
            raise StoreError(f"No backup to check in {home.backups}. Make one with: python -m engine backup")
        runs = check(chosen)
        said = f"{chosen} is sound: {counted(runs, 'run')}; its checksum, schema and integrity are right."
        answer({"path": chosen, "sound": True, "runs": runs}, said)
        return
    if only_list:
        found = backups(home)
        rows = [(moment(each.made_at), each.size / 1e6, str(each.path)) for each in found]
        answer(found, table(("MADE", "MB", "FILE"), rows, f"No backups in {home.backups}."))
        return
    made = back_up(home, by=owner if named() else operator(home, owner), keep=keep)
    said = f"{made.path} ({made.size / 1e6:,.1f} MB). Restore it with: python -m engine restore {made.path}"
    rest = f"Not in a backup: {NOT_IN_A_BACKUP}. Copy them from {home.path} if they matter."
    answer(made, f"{said}\nIn a backup: {IN_A_BACKUP}.\n{rest}")


@command("restore")
def restore_command(
    file: Path = argument(), unchecked: bool = option("Accept a file without a checksum file."), owner: str = OWNER
) -> None:
    """Replace the store by a copy of FILE, after checking its checksum, schema and integrity.

    Refused while a console, a runner or a run is active. The previous store, and the folders of runs that are not in
    FILE, are kept in aside/ of the home (folders: of runs/ if that is on another file system) and never deleted. Runs
    that were active when FILE was made are lost; queued ones start with the next runner.
    """
    from engine.commands.lab_settings import operator
    from engine.system.runner_process import has_console
    from engine.upkeep.backups import NOT_IN_A_BACKUP, restore

    home = Home.find()
    if has_console(home):
        raise RunnerError(
            f"The store can't be replaced while a console serves {home.path}. Stop the console first: Ctrl-C in its "
            "terminal, or systemctl stop parallab-console. Start it again after the restore."
        )
    owner = owner if named() else operator(home, owner)
    done = restore(home, file.expanduser().absolute(), by=owner, unchecked=unchecked)
    said = [f"Restored {file.name}: {counted(done.runs, 'run')}."]
    if done.aside:
        said.append(f"The previous store is in {done.aside}.")
    if done.folders:
        said.append(
            f"{counted(done.folders, 'folder')} of runs that are not in the backup: moved to {done.folders_in}."
        )
    if done.lost:
        said.append(
            f"Lost, as they were active when the backup was made: {counted(len(done.lost), 'run')} ({_ids(done.lost)})."
        )
    if done.queued:
        ids = " ".join(map(str, done.queued))
        said += [
            f"The next runner starts {counted(len(done.queued), 'queued run')}. To prevent that, hold or cancel them:",
            f"    python -m engine hold {ids}",
            f"    python -m engine cancel {ids}",
        ]
    if done.quotas:
        said.append("The quotas are those of the backup: python -m engine limits")
    said.append(
        f"Not in a backup: {NOT_IN_A_BACKUP}. Copy them from the original home. fsck names the run folders that are "
        "missing."
    )
    answer(done, "\n".join(said))


@command("fsck")
def fsck_command(
    file: Path | None = argument(""),
    mend: bool = option("Repair what can be repaired."),
    owner: str = OWNER,
) -> int:
    """Find the traces of crashes: damage, runs without a worker, summaries that disagree with their points, stray
    folders, files and shared memory.

    Runs may continue meanwhile. Exits with 1 if anything but harmless leftovers remains. A backup is checked by backup
    --check.
    """
    from engine.commands.lab_settings import permit
    from engine.upkeep.fsck import examine

    if file:
        raise click.UsageError(
            f"fsck examines the home, {Home.find().path}, and no file. Check a backup with: python -m engine backup "
            f"--check {file}"
        )
    if mend:
        permit(Home.find(), "mend", by=owner, damaged=True)
    found: list[tuple[Trouble, str]] = []
    for trouble in examine(Home.find()):
        found.append((trouble, _mended(trouble) if mend else "found"))
        if not wants_json():
            _print_trouble(*found[-1])
    sound = all(trouble.harmless or state == "mended" for trouble, state in found)
    if wants_json():
        shown = ("kind", "sentence", "cure", "harmless")
        findings = [{**picked(trouble, *shown), "state": state} for trouble, state in found]
        print_json({"sound": sound, "findings": findings})
    elif not found:
        click.echo("No problems found.")
    elif not mend and any(trouble.mend for trouble, _ in found):
        click.echo("Repair with: python -m engine fsck --mend")
    return 0 if sound else FAILED


def _mended(trouble: "Trouble") -> str:
    if trouble.mend is None:
        return "not mended"
    try:
        trouble.mend()
    except (EngineError, OSError) as error:
        return f"not mended: {error}"
    return "mended"


def _print_trouble(trouble: "Trouble", state: str) -> None:
    colour = "green" if state == "mended" else "yellow" if trouble.harmless else "red"
    click.echo(f"{click.style(state, fg=colour)}  {trouble.kind}: {trouble.sentence}")
    if state != "mended":
        click.echo(f"    {trouble.cure}")


@command("gc")
def gc_command(
    thin_after_days: float | None = option(
        "Thin the curves of runs that ended, or were imported, at least this many days ago.",
        type=NumberRange(0),
        envvar="PARALLAB_THIN_AFTER_DAYS",
    ),
    delete_after_days: float | None = option(
        "Delete runs that ended, or were imported, at least this many days ago.",
        type=NumberRange(0),
        envvar="PARALLAB_DELETE_AFTER_DAYS",
    ),
    points: int = option(
        "Number of points that a thinned curve keeps: first, last, min and max of each part.", default=1_000
    ),
    dry_run: bool = option("Show what would be deleted, and change nothing."),
    owner: str = OWNER,
) -> None:
    """Thin the curves of old runs and delete older ones, with their logs and checkpoints; nothing is deleted without
    this command.

    Kept as they are: runs with a star, a pin or a tag, active runs and the runs that they resume, and runs of active
    sweeps. Numbers in lists (last, best, mean) still cover all points. Runs continue meanwhile.
    """
    from engine.upkeep.retention_policy import RetentionPolicy, collect, preview

    policy = RetentionPolicy(thin_after_days, delete_after_days, points)
    found = preview(Home.find(), policy) if dry_run else collect(Home.find(), policy, by=owner)
    answer({"dry_run": dry_run, **vars(found)}, _collected(found, dry_run))


@command("delete")
def delete_command(
    run_ids: Sequence[int] = RUN_IDS,
    text: str | None = FILTER,
    dry_run: bool = option("Show which runs would be deleted, and change nothing."),
    owner: str = OWNER,
) -> None:
    """Delete runs for good, with their curves, logs, checkpoints and files; admins only. Protected runs are kept, as by
    gc.
    """
    from engine.upkeep.retention_policy import PROTECTED, deletable, delete_runs

    chosen = chosen_runs(run_ids, text)
    if dry_run:
        with Reader.open(Home.find()) as reader:
            found = deletable(reader, chosen)
    else:
        found = delete_runs(Home.find(), chosen, by=owner)
    kept = len(chosen) - len(found)
    ids = f": {_ids(found)}" if found else ""
    said = f"{'Would delete' if dry_run else 'Deleted'} {counted(len(found), 'run')}{ids}."
    more = f" Kept {counted(kept, 'run')}. {PROTECTED}" if kept else ""
    answer(
        {"dry_run": dry_run, "deleted": found, "kept": [run_id for run_id in chosen if run_id not in found]},
        said + more,
    )


def _collected(found: "Collection", dry_run: bool) -> str:
    if not found.thinned and not found.deleted:
        return (
            "Nothing to do: no run is old enough, or those that are have a star, a pin or a tag, are active, or "
            "belong to an active sweep."
        )
    curves, runs = len(found.thinned), sorted({curve.run_id for curve in found.thinned})
    lines = []
    if found.deleted:
        verb = "Would delete" if dry_run else "Deleted"
        ids, size = _ids([run.run_id for run in found.deleted]), f"{found.folder_bytes / 1e6:,.1f} MB"
        lines.append(f"{verb} {counted(len(found.deleted), 'run')}: {ids}; {size} of files.")
    if curves:
        verb = "Would thin" if dry_run else "Thinned"
        lines.append(f"{verb} {counted(curves, 'curve')} of {counted(len(runs), 'run')}: {_ids(runs)}.")
    size = f"{found.store_bytes / 1e6:,.1f} MB"
    file = f"about {size} of the store" if dry_run else f"the store's file shrank by {size}"
    lines.append(f"{counted(found.points, 'point')}; {file}.")
    if not dry_run and found.points and not found.store_bytes:
        lines.append("The file keeps its size; new runs reuse the free space.")
    return "\n".join(lines)


def _ids(run_ids: list[int]) -> str:
    more = f" and {len(run_ids) - NAMED:,} more" if len(run_ids) > NAMED else ""
    return ", ".join(map(str, run_ids[:NAMED])) + more


@command("doctor")
def doctor_command(
    cluster: str | None = option("Check a cluster of clusters.toml instead, with a job on its nodes.", metavar="NAME"),
    wait_s: float = option(
        "With --cluster: longest wait for the start of that job.",
        "--wait",
        metavar="SECONDS",
        type=NumberRange(min=1, max=86_400),
        default=120,
    ),
) -> int:
    """Check the machine for known problems and suggest fixes.

    Checks Python, packages, torch and its twin torchvision, GPUs, start methods, memory, /dev/shm, open files, the
    home folder, its file system, the clock, the store and the data sets. Exits with 1 if a problem must be fixed before
    runs can work.

    With --cluster: checks Slurm's commands and the shared folder, and by a job of at most two nodes their files,
    clocks, code, cores, GPUs, interfaces, ports and data sets.
    """
    from engine.cluster.doctor import examine_cluster
    from engine.doctor import examine

    home, findings = Home.find(), []
    for finding in examine_cluster(home, cluster, wait_s) if cluster else examine(home):
        findings.append(finding)
        if not wants_json():
            _print_finding(finding)
    healthy = not any(finding.state == "fail" for finding in findings)
    warnings = sum(finding.state == "warn" for finding in findings)
    good = f"Cluster {cluster}: no failure found" if cluster else "This machine can execute runs"
    bad = f"{f'Cluster {cluster}' if cluster else 'This machine'} cannot execute runs yet"
    if not cluster and {finding.name for finding in findings if finding.state == "fail"} <= {"permissions"}:
        bad = "This machine can execute runs, but other users can read files of the lab: see permissions"
    said = f"\n{good if healthy else bad}{f'; warnings: {warnings}' if warnings else ''}."
    answer({"healthy": healthy, "findings": findings}, said)
    return 0 if healthy else FAILED


def _print_finding(finding: "Finding") -> None:
    state = click.style(f"{finding.state:<4}", fg=COLOURS[finding.state])
    click.echo(f"{state}  {finding.name:<16}  {finding.sentence}")
    if finding.cure:
        click.echo(f"{'':24}{finding.cure}")
