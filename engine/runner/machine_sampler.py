"""The runner's look at the machine every few seconds, whether or not a run is on. Torch-free."""

import time

from engine.runtime.worker.telemetry import Telemetry
from engine.store import Store

EVERY_S = 5.0


class Sampler:
    """Samples the host and its GPUs at most once in `EVERY_S`, the first time that long after it was made: CPU use is a
    mean over the time between.
    """

    def __init__(self) -> None:
        self._telemetry = Telemetry([])
        self._looked_at = time.monotonic()

    def look(self, store: Store) -> bool:
        """Give the store a sample where one is due; return whether it was."""
        if time.monotonic() - self._looked_at < EVERY_S:
            return False
        self._looked_at = time.monotonic()
        store.machine.add(self._telemetry.sample())
        return True
