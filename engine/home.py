"""Paths: one folder holds the store, the runs' files and the locks of one lab."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
DATA = "PARALLAB_DATA"


@dataclass(frozen=True)
class Home:
    """The folder of one store; source of every path that Parallab writes to."""

    path: Path

    @classmethod
    def find(cls) -> "Home":
        """Return the home in `PARALLAB_HOME`, or `.parallab/` in the project; raises ConfigError for an unknown `~`."""
        return cls(_named("PARALLAB_HOME") or ROOT / ".parallab")

    def create(self) -> "Home":
        """Create the folder if missing, private to its owner."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self

    @property
    def database(self) -> Path:
        return self.path / "parallab.db"

    @property
    def accounts(self) -> Path:
        """Marker file of a lab with accounts (`engine.store.access.authorization`)."""
        return self.path / "accounts"

    @property
    def runner_lock(self) -> Path:
        return self.path / "runner.lock"

    @property
    def presence_lock(self) -> Path:
        """File in which each live worker and runner locks one byte."""
        return self.path / "presence.lock"

    @property
    def runner_log(self) -> Path:
        return self.path / "runner.log"

    @property
    def spare_log(self) -> Path:
        """Output of the last spare worker before it had a run."""
        return self.path / "spare.log"

    @property
    def schema_lock(self) -> Path:
        return self.path / "schema.lock"

    @property
    def console_lock(self) -> Path:
        """File that each console locks while it serves this home."""
        return self.path / "console.lock"

    @property
    def import_lock(self) -> Path:
        """Held during an import."""
        return self.path / "import.lock"

    @property
    def backups(self) -> Path:
        """Backups of the store, each with a checksum file."""
        return self.path / "backups"

    @property
    def aside(self) -> Path:
        """Files moved away by a restore or fsck; never read again."""
        return self.path / "aside"

    @property
    def restoring(self) -> Path:
        """Staging folder of a restore; leftovers of a killed one are useless."""
        return self.path / "restoring"

    @property
    def limits(self) -> Path:
        return self.path / "limits.json"

    @property
    def limits_lock(self) -> Path:
        return self.path / "limits.lock"

    @property
    def clusters(self) -> Path:
        """The lab's clusters, written by an admin."""
        return self.path / "clusters.toml"

    @property
    def notices(self) -> Path:
        """The lab's channels for notifications, written by an admin."""
        return self.path / "notices.toml"

    @property
    def catalogue(self) -> Path:
        """Environments and data sets added by an admin."""
        return self.path / "catalogue.json"

    @property
    def catalogue_lock(self) -> Path:
        return self.path / "catalogue.lock"

    @property
    def checksums(self) -> Path:
        """Cache of the checksums of data set files, by size and time."""
        return self.path / "checksums.json"

    @property
    def experiments(self) -> Path:
        """Folders of experiments of the lab's own (`engine.own_methods`)."""
        return self.path / "experiments"

    @property
    def exercises(self) -> Path:
        """Exercises of the lab's own (`engine.exercises`)."""
        return self.path / "exercises"

    @property
    def methods(self) -> Path:
        """The versions of their code that runs use."""
        return self.path / "methods"

    @property
    def cookie_key(self) -> Path:
        return self.path / "cookie.key"

    @property
    def command_link(self) -> Path:
        """The secret link by which a browser may launch commands in a lab without accounts."""
        return self.path / "command-link.json"

    @property
    def data(self) -> Path:
        """Folder of data sets: `PARALLAB_DATA`, or `data/` in this home."""
        return Path(named_data() or self.path / "data")

    def run_folder(self, run_id: int) -> Path:
        """Folder of one run's logs and artifacts (not created here)."""
        return self.path / "runs" / str(run_id)

    @property
    def files(self) -> Path:
        """Content of the files that runs keep, each once, under its SHA-256 hash."""
        return self.path / "files"

    def unnamed(self, sentence: str) -> str:
        """Return a sentence without this home's paths, for readers who must not see them."""
        for named in (f" in {self.database}", f" {self.database}"):
            sentence = sentence.replace(named, "")
        sentence = sentence.replace(f"he home {self.path} ", "he home ")
        return sentence.replace(str(self.path), "the home")


def named_data() -> str | None:
    """Return the data folder in this process's `PARALLAB_DATA`; a run keeps the one from its launch."""
    named = _named(DATA)
    return str(named) if named else None


def _named(variable: str) -> Path | None:
    """Return the folder that an environment variable names, None without one."""
    if not (text := os.environ.get(variable)):
        return None
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        sentence = f"{variable} is '{text}', but that home folder is unknown. Write the path without ~."
        raise ConfigError.of(variable, sentence) from None


def flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- The umask of our processes: new files are private to their owner ----------------------------------------------
# Exports and data sets, which may be shared, use the user's umask.

PRIVATE = 0o077
"""No permissions for group or others."""
GIVEN = os.umask(PRIVATE)
"""The umask at this process's start; child processes get it, and set their own."""
os.umask(GIVEN)


def set_private() -> None:
    """Make new files and folders of this process private to their owner."""
    os.umask(PRIVATE)


@contextmanager
def private() -> Iterator[None]:
    """Make new files within the block private. The umask applies to the whole process: not for multi-threaded use."""
    with _umask(PRIVATE):
        yield


@contextmanager
def given() -> Iterator[None]:
    """Use the user's umask within the block. The umask applies to the whole process: not for multi-threaded use."""
    with _umask(GIVEN):
        yield


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def make_private(path: Path) -> None:
    """Create an empty private file if missing; errors are left to its next opening."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def set_mode(path: Path, mask: int) -> None:
    """Set the mode that a file or folder would have under that umask."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def make_folder(path: Path, mask: int) -> None:
    """Create a folder and its parents, if missing, with the modes of that umask."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        set_mode(folder, mask)
