"""Where things lie: one folder holds the store, the runs' files and the locks of one lab."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = "PARALLAB_DATA"


@dataclass(frozen=True)
class Home:
    """The folder of one store; every path that Parallab writes to is asked for here."""

    path: Path

    @classmethod
    def find(cls) -> "Home":
        """Return the home named by `PARALLAB_HOME`, or `.parallab/` in the project."""
        return cls(Path(os.environ.get("PARALLAB_HOME") or ROOT / ".parallab").expanduser().absolute())

    def create(self) -> "Home":
        """Make the folder where it is missing, readable by its owner alone."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self

    @property
    def database(self) -> Path:
        return self.path / "parallab.db"

    @property
    def accounts(self) -> Path:
        """The mark of a lab that has accounts (`engine.store.access.accounts_mark`)."""
        return self.path / "accounts"

    @property
    def runner_lock(self) -> Path:
        return self.path / "runner.lock"

    @property
    def presence_lock(self) -> Path:
        """Where each worker and runner locks a byte of its own while it lives."""
        return self.path / "presence.lock"

    @property
    def runner_log(self) -> Path:
        return self.path / "runner.log"

    @property
    def spare_log(self) -> Path:
        """What the last spare worker wrote before it had a run."""
        return self.path / "spare.log"

    @property
    def schema_lock(self) -> Path:
        return self.path / "schema.lock"

    @property
    def import_lock(self) -> Path:
        """Held while runs are imported."""
        return self.path / "import.lock"

    @property
    def backups(self) -> Path:
        """Where copies of the store lie, each with its checksum beside it."""
        return self.path / "backups"

    @property
    def aside(self) -> Path:
        """Where a restore or a check puts what it took out of the way; nothing here is ever read again."""
        return self.path / "aside"

    @property
    def restoring(self) -> Path:
        """Where the next store is made ready during a restore; what a killed one left there is of no use."""
        return self.path / "restoring"

    @property
    def limits(self) -> Path:
        return self.path / "limits.json"

    @property
    def limits_lock(self) -> Path:
        return self.path / "limits.lock"

    @property
    def mail(self) -> Path:
        """How e-mail leaves: the server, and what it asks for. An admin writes it."""
        return self.path / "mail.toml"

    @property
    def catalogue(self) -> Path:
        """What an admin has added to the environments and data sets that may be named in a config."""
        return self.path / "catalogue.json"

    @property
    def catalogue_lock(self) -> Path:
        return self.path / "catalogue.lock"

    @property
    def checksums(self) -> Path:
        """Checksums of files of data sets by size and time, so that each is read through once."""
        return self.path / "checksums.json"

    @property
    def cookie_key(self) -> Path:
        return self.path / "cookie.key"

    @property
    def data(self) -> Path:
        """Where data sets lie: `PARALLAB_DATA`, or `data/` in this home."""
        return Path(named_data() or self.path / "data")

    def run_folder(self, run_id: int) -> Path:
        """The folder of one run's logs and artifacts (not made here)."""
        return self.path / "runs" / str(run_id)

    def unnamed(self, sentence: str) -> str:
        """Return a sentence without this home's paths, for those who need not know where it lies."""
        for named in (f" in {self.database}", f" {self.database}"):
            sentence = sentence.replace(named, "")
        sentence = sentence.replace(f"he home {self.path} ", "he home ")
        return sentence.replace(str(self.path), "the home")


def named_data() -> str | None:
    """Return the data folder that this process's environment names in `PARALLAB_DATA`; a run keeps the one that it was
    launched with.
    """
    named = os.environ.get(DATA)
    return str(Path(named).expanduser().absolute()) if named else None
