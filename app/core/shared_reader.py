"""One reader that stays open for all polls. For one thread: the server's event loop."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from engine.errors import EngineError
from engine.home import Home
from engine.store import Reader

TIMEOUT_S = 0.2
"""A reader never waits with a write-ahead log; a longer wait would block all other requests."""
T = TypeVar("T")


class SharedReader:
    """A reader of the home's store; reopened for another home, or when the store's file was replaced."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._of: tuple[Path, int, int] | None = None

    def answer(self, home: Home, question: Callable[[Reader], T]) -> T:
        """Return the answer to a query; on StoreBusy, StoreError or StoreTooNew close the connection and raise."""
        try:
            return question(self._opened(home))
        except EngineError:
            self.close()
            raise

    def token(self, home: Home, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all runs; raises as `answer` does."""
        return self.answer(home, lambda reader: reader.runs.token(run_id))

    def close(self) -> None:
        """Close the connection, if any."""
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
    """Return the identity of the store's file, None without one."""
    with suppress(OSError):
        about = home.database.stat()
        return home.database, about.st_dev, about.st_ino
    return None
