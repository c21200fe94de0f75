"""Record the use of sign-ins, at most once per interval and off the event loop, so that only idle ones expire."""

import asyncio
from contextlib import suppress
from time import monotonic

from engine.errors import EngineError
from engine.home import Home
from engine.store import Store
from engine.store.access.sign_ins import SEEN_EVERY_S

MOST = 5_000
"""Maximum number of sign-ins tracked in memory; the store also ignores updates that are too frequent."""


class Uses:
    """Recently recorded uses. Not thread-safe: for the server's event loop."""

    def __init__(self) -> None:
        self._noted: dict[str, float] = {}

    def note(self, home: Home, key: str) -> None:
        """Record the use of a sign-in in the store, unless recorded recently."""
        moment = monotonic()
        if moment - self._noted.get(key, -SEEN_EVERY_S) < SEEN_EVERY_S:
            return
        self._noted.pop(key, None)
        self._noted[key] = moment
        for old in list(self._noted)[:-MOST]:
            del self._noted[old]
        asyncio.get_running_loop().run_in_executor(None, _note, home, key)


def _note(home: Home, key: str) -> None:
    with (
        suppress(EngineError),
        Store.open(home, timeout_s=5.0) as store,
    ):  # a locked store is updated next time
        store.sign_ins.note_use(key)
