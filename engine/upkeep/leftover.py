"""One thing that is left over: what it is, why nothing needs it, and whether it is surely ours to take away."""

from dataclasses import dataclass
from typing import Literal

from engine.store.records import ProcessIdentity

Kind = Literal["process", "folder", "shared memory", "file"]


@dataclass(frozen=True)
class Leftover:
    """What belongs to no live run any more."""

    kind: Kind
    name: str
    """The pid, or the path."""
    why: str
    """What it was for, and why nothing needs it, in a sentence."""
    size_bytes: int | None = None
    is_ours: bool = True
    """Whether it is surely of this home, so that a cleaning may take it away; all else is only shown."""
    run_id: int | None = None
    """The run that it is of, where one is known."""
    process: ProcessIdentity | None = None

    @property
    def key(self) -> tuple[str, str, ProcessIdentity | None]:
        """What tells it from any other: a pid that names another process by now, or a folder made anew, is
        another one.
        """
        return self.kind, self.name, self.process

    @property
    def words(self) -> str:
        """What it is, in a few words: `process 77 of run 4`."""
        return f"{self.kind} {self.name}{f' of run {self.run_id}' if self.run_id else ''}"
