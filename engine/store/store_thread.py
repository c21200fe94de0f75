"""A thread with a store connection of its own, for work of the runner that may wait for others: networks, clusters."""

import logging
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Self

from engine.errors import EngineError, StoreGone
from engine.home import Home
from engine.store.store import Store

log = logging.getLogger(__name__)

TROUBLE_S = 5.0
"""Wait after an error, which is logged; the work begins again then."""
CLOSE_S = 2.0
"""Time to end; what is unfinished is the next runner's."""
Work = Callable[[], float]
"""Does what is due and returns the seconds until its next call."""


class StoreThread:
    """Does work on the store of one home while its context is open; `begin` returns the work for a store."""

    def __init__(self, home: Home, name: str, begin: Callable[[Store], Work]) -> None:
        self._home = home
        self._begin = begin
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._leaving.is_set():
            try:
                with Store.open(self._home) as store:
                    work = self._begin(store)
                    while not self._leaving.wait(work()):
                        pass
            except StoreGone as gone:  # never begin another home in its place
                log.error("%s end: %s", self._thread.name, gone)
                return
            except EngineError as trouble:
                log.warning("%s are delayed: %s", self._thread.name, trouble)
            except Exception as bug:  # its words may hold a secret, such as a webhook's address
                found = "".join(traceback.format_tb(bug.__traceback__))
                log.error("internal error in the thread of %s, %s:\n%s", self._thread.name, type(bug).__name__, found)
            self._leaving.wait(TROUBLE_S)
