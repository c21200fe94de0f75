"""Scheduling of sweeps for timing in the runner: queue another run of each combination whose median time is not known
well enough, once the sweep's queued runs have ended. Torch-free.

All state is in the store, so the next runner continues.
"""

import logging
import time
from dataclasses import dataclass, field

from engine.errors import EngineError, StoreBusy, StoreFull
from engine.home import Home
from engine.store import Reader, Store
from engine.sweep.repeats import repeat

log = logging.getLogger(__name__)

LOOK_S = 1.0


@dataclass
class Repeats:
    """Checks the sweeps for timing once a second."""

    home: Home
    store: Store
    looked_at: float = float("-inf")
    _seen: dict[int, int] = field(default_factory=dict)
    """The last change token of each sweep that needs no more runs yet."""

    def look(self) -> None:
        """Queue what is missing."""
        if time.monotonic() - self.looked_at < LOOK_S:
            return
        self.looked_at = time.monotonic()
        with Reader.open(self.home) as reader:
            for sweep in reader.sweeps.timed():
                if not sweep.active:
                    self._repeat(reader, sweep.id)

    def _repeat(self, reader: Reader, sweep_id: int) -> None:
        token = reader.sweeps.token(sweep_id)
        if self._seen.get(sweep_id) == token:
            return
        try:
            if ids := repeat(reader, self.store, sweep_id):
                log.info("sweep %d continues: runs %s repeat its combinations", sweep_id, ", ".join(map(str, ids)))
        except (StoreBusy, StoreFull):
            raise
        except EngineError as error:
            log.warning("sweep %d can't continue: %s", sweep_id, error)
        self._seen[sweep_id] = token
