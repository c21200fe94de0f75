"""Checks of the storage: home, file system, store, runner, data sets."""

import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from engine.access.quotas import GB, size
from engine.doctor.machine import Finding
from engine.errors import EngineError, RunnerError
from engine.home import Home
from engine.upkeep.private_home import cure, named, open_parts

NETWORK = (
    *(
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "afs",
        "ncpfs",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "orangefs",
    ),
    *("davfs", "vboxsf", "prl_fs", "vmhgfs", "drvfs"),
    *(
        "fuse.glusterfs",
        "fuse.sshfs",
        "fuse.ceph",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.gcsfuse",
        "fuse.davfs",
        "fuse.vmhgfs-fuse",
    ),
)
"""File systems shared by several machines, or by host and guest: SQLite's shared memory and locks don't work across
them.
"""
DOUBTFUL = ("9p", "virtiofs", "fuse", "fuseblk")


@dataclass(frozen=True)
class Mount:
    """One mounted file system."""

    point: str
    kind: str


def writable_home(home: Home) -> Finding:
    """Write a file in the store's folder, and check the free disk space."""
    cure = "Set PARALLAB_HOME to a writable folder, or correct this folder's owner and mode."
    try:
        home.create()
        probe = home.path / ".writable"
        probe.write_text("written by the doctor\n")
        probe.unlink()
    except OSError as error:
        return Finding("home", "fail", f"{home.path} is not writable: {error.strerror}.", cure)
    free = shutil.disk_usage(home.path).free
    text = f"{home.path} is writable; {size(free)} free."
    if free < GB:
        return Finding(
            "home",
            "fail" if free < GB // 10 else "warn",
            text,
            "Free space on that disk, or set PARALLAB_HOME to a folder on another one.",
        )
    return Finding("home", "ok", text)


def permissions(home: Home) -> Finding:
    """Check for lab files that group or others can access: the store holds password hashes and webhook secrets.

    A failure only where they can reach one, or where a start refuses it as another user's.
    """
    if found := open_parts(home):
        if any(home.path not in each.path.parents or each.owner != os.getuid() for each in found):
            return Finding(
                "permissions", "fail", f"Other users can access files of this lab: {named(found)}.", cure(home)
            )
        closed = "None can reach them, as the home itself is closed; the next start of a console or runner closes them."
        return Finding(
            "permissions", "warn", f"Files of this lab are open to other users: {named(found)}. {closed}", cure(home)
        )
    return Finding("permissions", "ok", f"The files in {home.path} are private to their owner.")


def file_system(home: Home) -> Finding:
    """Judge the file system by its type, then by a test of the store's requirements."""
    from engine.store.maintenance.integrity import probe

    mount = mount_of(home.path, [Mount(part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True)])
    found = judge_file_system(mount, home.path)
    if found.state == "fail":
        return found
    if problem := probe(home.path):
        return Finding(
            "file system",
            "fail",
            f"SQLite can't work in {home.path} ({mount.kind}): {problem}.",
            "Put PARALLAB_HOME on a local disk (ext4, xfs, btrfs, APFS).",
        )
    return found


def mount_of(path: Path, mounts: list[Mount]) -> Mount:
    """Return the mount of `path`: the longest match, the last of several on the same point."""
    real = path.resolve()
    above = [mount for mount in mounts if real.is_relative_to(mount.point)]
    longest = max((len(mount.point) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.point) == longest), Mount("/", "unknown"))


def judge_file_system(mount: Mount, path: Path) -> Finding:
    """Judge whether SQLite's write-ahead log is safe on a file system type."""
    kind, cure = (
        mount.kind.lower(),
        (
            "Put PARALLAB_HOME on a local disk (ext4, xfs, btrfs, APFS); share results through the console, not "
            "through the file."
        ),
    )
    if kind in NETWORK:
        return Finding(
            "file system",
            "fail",
            (
                f"{path} is on {mount.kind} (mounted at {mount.point}), where SQLite's locks don't work: the store "
                "would be damaged."
            ),
            cure,
        )
    if kind in DOUBTFUL or kind.startswith("fuse."):
        return Finding(
            "file system",
            "warn",
            f"{path} is on {mount.kind} (mounted at {mount.point}), where SQLite's locks may not work.",
            cure,
        )
    if kind in ("tmpfs", "ramfs"):
        return Finding(
            "file system",
            "warn",
            f"{path} is in memory ({mount.kind}): all runs are lost at a restart of the machine.",
            cure,
        )
    return Finding("file system", "ok", f"{mount.kind} at {mount.point}: write-ahead log and locks work.")


def store(home: Home) -> Finding:
    """Open the store as a page would."""
    from engine.store import Reader

    try:
        with Reader.open(home) as reader:
            reader.access.require_accounts()
            if not home.database.exists():
                return Finding("store", "ok", "No store yet; the first run creates it.")
            count = reader.runs.count()
            return Finding("store", "ok", f"{count:,} {'run' if count == 1 else 'runs'} in {home.database}.")
    except EngineError as error:
        return Finding(
            "store",
            "fail",
            str(error),
            ("Follow the message. A copy of the folder made while nothing was running can serve as a backup."),
        )


def runner(home: Home) -> Finding:
    """Check for a running runner."""
    from engine.runner.shared_settings import RESTART, ignored_settings
    from engine.system.runner_process import is_running, refuse_beside_foreign_runs

    if is_running(home):
        if ignored := ignored_settings(home):
            return Finding("runner", "warn", f"Running. {' '.join(ignored)}", RESTART)
        return Finding("runner", "ok", "Running.")
    try:
        refuse_beside_foreign_runs(home)
    except RunnerError as error:
        return Finding(
            "runner",
            "fail",
            str(error),
            "Start the runner in the PID namespace of that run, or wait until the run has ended.",
        )
    return Finding("runner", "ok", "Not running; the console, run and submit start one.")


def data_sets(home: Home) -> Finding:
    """Check the data sets: digits must be installed, downloads intact, and MNIST available for a first run."""
    from engine.catalogue import catalogue
    from engine.data.catalogue import DATA_SETS, damaged_files, state

    if find_spec("sklearn") is None:
        return Finding(
            "data sets",
            "fail",
            "scikit-learn, which contains the data set digits, is missing.",
            "Install the requirements: make install.",
        )
    downloads = [found for found in DATA_SETS.values() if found.files]
    for found in downloads:
        if damaged := damaged_files(found.name, home):
            sizes = f"{found.title} is damaged. Files of the wrong size: {', '.join(map(str, damaged))}."
            return Finding(
                "data sets", "fail", sizes, ("Delete them; the next run that needs them downloads them again.")
            )
    try:
        gone = [name for name in catalogue(home).datasets if state(name, home) != "at hand"]
    except EngineError as error:
        return Finding(
            "data sets", "fail", str(error), ("Until then, only built-in environments and data sets are available.")
        )
    if gone:
        cure = "Restore their files, or remove the entries: python -m engine catalogue remove NAME."
        return Finding(
            "data sets", "fail", (f"In the catalogue, but incomplete in {home.data}: {', '.join(gone)}."), cure
        )
    there = " and ".join(["digits", *(found.title for found in downloads if state(found.name, home) == "at hand")])
    missing = " and ".join(found.title for found in downloads if state(found.name, home) != "at hand")
    sentence = f"Available: {there}. Downloaded to {home.data} on first use: {missing or 'none'}."
    if state("mnist", home) == "at hand":
        return Finding("data sets", "ok", sentence)
    cure = (
        "Without a network: copy the folder MNIST (or FashionMNIST) from another machine and set "
        "PARALLAB_DATA to its parent folder."
    )
    return Finding("data sets", "warn", sentence, cure)
