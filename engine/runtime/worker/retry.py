"""Retries for the last writes of a run, in case the store is busy or full only for a while."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from engine.errors import StoreBusy, StoreFull

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
PAUSE_S = 0.5

T = TypeVar("T")


def retry_while_busy(write: Callable[[], T], for_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> T:
    """Return the result of `write`, retried for `for_s` seconds while the store is busy or full; raises the last
    StoreBusy or StoreFull.
    """
    deadline = time.monotonic() + for_s
    while True:
        try:
            return write()
        except (StoreBusy, StoreFull) as error:
            if time.monotonic() >= deadline:
                raise
            log.warning("%s Retrying.", error)
            time.sleep(pause_s)
