"""One reader that stays open for what every request or poll asks. For one thread: the server's event loop."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader

TIMEOUT_S = 0.2
"""A reader waits for nobody in a write-ahead log; what takes longer than this would hold up everybody else."""
T = TypeVar("T")


class SharedReader:
    """The home's store; another home, or a store that was put in the place of the old one, is opened anew."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._of: tuple[Path, int, int] | None = None

    def answer(self, home: Home, question: Callable[[Reader], T]) -> T:
        """Return the answer to a question; raises StoreBusy, StoreError, StoreTooNew, and closes the
        connection then.
        """
        try:
            return question(self._opened(home))
        except EngineError:
            self.close()
            raise

    def token(self, home: Home, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all; raises as `answer` does."""
        return self.answer(home, lambda reader: reader.runs.token(run_id))

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._reader:
            self._reader.close()
        self._reader = self._of = None

    def _opened(self, home: Home) -> Reader:
        found = _file(home)
        if self._reader is None or found is None or found != self._of:
            self.close()
            self._reader, self._of = Reader.open(home, timeout_s=TIMEOUT_S), found
        return self._reader


def _file(home: Home) -> tuple[Path, int, int] | None:
    """Return which file the store is at the moment, None where there is none."""
    with suppress(OSError):
        about = home.database.stat()
        return home.database, about.st_dev, about.st_ino
    return None
