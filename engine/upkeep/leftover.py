"""One leftover: kind, reason, and whether it certainly belongs to this home."""

from dataclasses import dataclass
from typing import Literal

from engine.store.records import ProcessIdentity

Kind = Literal["process", "folder", "shared memory", "file"]


@dataclass(frozen=True)
class Leftover:
    """A process, file or segment that no live run needs."""

    kind: Kind
    name: str
    """The pid, or the path."""
    why: str
    """Origin, and the reason why it is a leftover."""
    size_bytes: int | None = None
    is_ours: bool = True
    """Whether it certainly belongs to this home and may be removed; others are only shown."""
    run_id: int | None = None
    """Its run, if known."""
    process: ProcessIdentity | None = None

    @property
    def key(self) -> tuple[str, str, ProcessIdentity | None]:
        """Unique key, which distinguishes a reused pid or a recreated folder."""
        return self.kind, self.name, self.process

    @property
    def words(self) -> str:
        """Short description: `process 77 of run 4`."""
        return f"{self.kind} {self.name}{f' of run {self.run_id}' if self.run_id else ''}"
