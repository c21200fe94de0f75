"""Notes which sign-ins are in use, seldom and off the event loop, so that those who stay away are signed out and those
who work are not.
"""

import asyncio
from contextlib import suppress
from time import monotonic

from engine.errors import EngineError
from engine.home import Home
from engine.store import Store
from engine.store.access.sign_ins import SEEN_EVERY_S

MOST = 5_000
"""Sign-ins whose last note is remembered here; the store itself writes none that is too soon."""


class Uses:
    """The uses noted lately. For one thread: the server's event loop."""

    def __init__(self) -> None:
        self._noted: dict[str, float] = {}

    def note(self, home: Home, key: str) -> None:
        """Have the store note that a sign-in is in use, unless that was done a moment ago."""
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
    ):  # a store that is held for so long is noted in next time
        store.sign_ins.note_use(key)
