"""Scheduled backups: the runner checks whether one is due and makes it in a thread, so that no run waits for it."""

import logging
import os
import threading
import time

from engine.access.rules import Program
from engine.errors import EngineError, RunnerError
from engine.home import Home
from engine.store import Reader
from engine.store.timestamps import seconds_since
from engine.upkeep.backups import back_up, backups

log = logging.getLogger(__name__)

EVERY, KEEP = "PARALLAB_BACKUP_EVERY_H", "PARALLAB_BACKUP_KEEP"
EVERY_H, KEPT = 24.0, 7
LOOK_S = 60.0
"""Interval of checks; also the wait after a failed backup."""


class Schedule:
    """Makes a backup if the newest is older than `every_h` hours (0: never), and keeps the newest `keep`."""

    def __init__(self, home: Home, every_h: float = EVERY_H, keep: int = KEPT, look_s: float = LOOK_S) -> None:
        self._home = home
        self._every_s = every_h * 3600
        self._keep = keep
        self._look_s = look_s
        self._looked_at = -look_s
        self._thread: threading.Thread | None = None

    @classmethod
    def from_environment(cls, home: Home) -> "Schedule":
        """Return the schedule of `PARALLAB_BACKUP_EVERY_H` and `PARALLAB_BACKUP_KEEP`; raises RunnerError for invalid
        numbers.
        """
        return cls(home, _number(EVERY, EVERY_H, 0), int(_number(KEEP, KEPT, 1)))

    def look(self) -> None:
        """Start a backup if one is due; never blocks. Call often."""
        if (
            not self._every_s
            or time.monotonic() - self._looked_at < self._look_s
            or (self._thread and self._thread.is_alive())
        ):
            return
        self._looked_at = time.monotonic()
        if self._due():
            self._thread = threading.Thread(target=self._make, name="backup", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait for a backup in progress."""
        if self._thread:
            self._thread.join()

    def _due(self) -> bool:
        """Return whether the newest backup, or without one the oldest run, is old enough."""
        try:
            with Reader.open(self._home) as reader:
                first = reader.runs.began_at()
        except EngineError:
            return False
        made = [backup.made_at for backup in backups(self._home)[:1]]
        return first is not None and seconds_since((made or [first])[0]) >= self._every_s

    def _make(self) -> None:
        began = time.monotonic()
        try:
            made = back_up(self._home, by=Program("runner"), keep=self._keep)
            log.info("backup %s: %.1f MB in %.1f s", made.path.name, made.size / 1e6, time.monotonic() - began)
        except EngineError as error:
            log.warning("backup failed: %s", error)


def _number(name: str, otherwise: float, least: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        found = float(text) if text else otherwise
    except ValueError:
        found = -1.0
    if not least <= found < 1e6:
        raise RunnerError(
            f"{name} must be a number of at least {least:g}; got '{text}'. Correct it, or unset it for the "
            f"default of {otherwise:g}."
        )
    return found
