"""Where things lie: a home that can be written, on a file system fit for SQLite; the store in it, its runner, the data
sets.
"""

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from engine.doctor.finding import Finding
from engine.errors import EngineError, RunnerError
from engine.home import Home
from engine.upkeep.private_home import cure, named, open_parts

GB = 2**30
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
"""Several machines see these, or a host and its guest: SQLite's shared memory and locks don't reach across."""
DOUBTFUL = ("9p", "virtiofs", "fuse", "fuseblk")


@dataclass(frozen=True)
class Mount:
    """One mounted file system."""

    point: str
    kind: str


def writable_home(home: Home) -> Finding:
    """Write a file where the store lies, and look at the room left."""
    cure = "Give a folder that you may write in PARALLAB_HOME, or mend this one's owner and mode."
    try:
        home.create()
        probe = home.path / ".writable"
        probe.write_text("written by the doctor\n")
        probe.unlink()
    except OSError as error:
        return Finding("home", "fail", f"{home.path} can't be written: {error.strerror}.", cure)
    free = shutil.disk_usage(home.path).free
    text = f"{home.path} can be written; {free / GB:.1f} GB free."
    if free < GB:
        return Finding(
            "home",
            "fail" if free < GB // 10 else "warn",
            text,
            "Make room on that disk, or give a folder on another one in PARALLAB_HOME.",
        )
    return Finding("home", "ok", text)


def permissions(home: Home) -> Finding:
    """Look for files of the lab that group or others have a right to: the store holds hashes of passwords and secrets
    of webhooks.
    """
    if found := open_parts(home):
        return Finding("permissions", "fail", f"Others have rights on files of this lab: {named(found)}.", cure(home))
    return Finding("permissions", "ok", f"Nobody but their owner can reach the files in {home.path}.")


def file_system(home: Home) -> Finding:
    """Judge the file system by its kind, then by trying on it what the store needs."""
    from engine.store.maintenance.filesystem_probe import probe

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
    """Return the mount that holds `path`: the longest one above it, the last where several lie on the same point."""
    real = path.resolve()
    above = [mount for mount in mounts if real.is_relative_to(mount.point)]
    longest = max((len(mount.point) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.point) == longest), Mount("/", "unknown"))


def judge_file_system(mount: Mount, path: Path) -> Finding:
    """Say whether SQLite's write-ahead log is safe on that kind."""
    kind, cure = (
        mount.kind.lower(),
        (
            "Put PARALLAB_HOME on a local disk (ext4, xfs, btrfs, APFS); the lab shares results by the console, "
            "not by the file."
        ),
    )
    if kind in NETWORK:
        return Finding(
            "file system",
            "fail",
            (
                f"{path} lies on {mount.kind} (mounted at {mount.point}): SQLite's locks don't hold there and the "
                "store would be damaged."
            ),
            cure,
        )
    if kind in DOUBTFUL or kind.startswith("fuse."):
        return Finding(
            "file system",
            "warn",
            f"{path} lies on {mount.kind} (mounted at {mount.point}), where SQLite's locks may not hold.",
            cure,
        )
    if kind in ("tmpfs", "ramfs"):
        return Finding(
            "file system",
            "warn",
            f"{path} lies in memory ({mount.kind}): all runs are gone after a restart of the machine.",
            cure,
        )
    return Finding(
        "file system", "ok", f"{mount.kind} at {mount.point}: a write-ahead log and locks between processes work."
    )


def store(home: Home) -> Finding:
    """Open the store as a page would."""
    from engine.store import Reader

    try:
        with Reader.open(home) as reader:
            reader.access.require_accounts()
            if not home.database.exists():
                return Finding("store", "ok", "No run was launched here yet; the first one makes the store.")
            return Finding("store", "ok", f"{reader.runs.count():,} runs in {home.database}.")
    except EngineError as error:
        return Finding(
            "store", "fail", str(error), "Follow the sentence; a copy of the folder made while nothing ran is a backup."
        )


def runner(home: Home) -> Finding:
    """Look for the process that takes runs from the queue."""
    from engine.runner.shared_settings import RESTART, ignored_settings
    from engine.system.runner_process import is_running, refuse_beside_foreign_runs

    if is_running(home):
        if ignored := ignored_settings(home):
            return Finding("runner", "warn", f"One serves this store. {' '.join(ignored)}", RESTART)
        return Finding("runner", "ok", "One serves this store.")
    try:
        refuse_beside_foreign_runs(home)
    except RunnerError as error:
        return Finding(
            "runner",
            "fail",
            str(error),
            "Start the runner in the PID namespace of that run, or wait until the run has ended.",
        )
    return Finding("runner", "ok", "None serves this store; the console, run and submit start one.")


def data_sets(home: Home) -> Finding:
    """Look for the data sets: digits must be there, no download may be damaged, and MNIST is what a first
    run asks for.
    """
    from engine.catalogue import catalogue
    from engine.data.catalogue import DATA_SETS, damaged_files, state

    if find_spec("sklearn") is None:
        return Finding(
            "data sets",
            "fail",
            "digits ships inside scikit-learn, which is missing.",
            "Install what is written: make install.",
        )
    downloads = [found for found in DATA_SETS.values() if found.files]
    for found in downloads:
        if damaged := damaged_files(found.name, home):
            sizes = f"{found.title} is damaged, these files have the wrong size: {', '.join(map(str, damaged))}."
            return Finding("data sets", "fail", sizes, "Delete them; the next run that needs them gets them again.")
    try:
        gone = [name for name in catalogue(home).datasets if state(name, home) != "at hand"]
    except EngineError as error:
        return Finding("data sets", "fail", str(error), "Until then only what is built in can be chosen.")
    if gone:
        cure = "Put their files back, or take them off: python -m engine catalogue remove NAME."
        return Finding("data sets", "fail", f"In the catalogue, but not whole in {home.data}: {', '.join(gone)}.", cure)
    there = " and ".join(["digits", *(found.title for found in downloads if state(found.name, home) == "at hand")])
    missing = " and ".join(found.title for found in downloads if state(found.name, home) != "at hand")
    sentence = (
        f"At hand: {there}. Not in {home.data}, so downloaded by the first run that needs it: {missing or 'nothing'}."
    )
    if state("mnist", home) == "at hand":
        return Finding("data sets", "ok", sentence)
    cure = (
        "Without a network: copy the folder MNIST (or FashionMNIST) from another machine and name the folder above "
        "it in PARALLAB_DATA."
    )
    return Finding("data sets", "warn", sentence, cure)
