"""What the runner does about duels: it ends runs that have spent a budget of seconds, and queues what is judged once
all that tunes has ended. Torch-free.

All of it is read from the store at each look, so a runner that takes over goes on where the last one was.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.access.rules import Program
from engine.duel.launch import go_on
from engine.duel.spec import from_json
from engine.errors import EngineError, StoreBusy, StoreFull, WrongStatus
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import Run
from engine.system.processes import boot_id, uptime_s

log = logging.getLogger(__name__)

LOOK_S = 1.0
MARGIN_S = 1.5
"""So long a run goes on past its budget: ranks hand in what they recorded each half second."""


@dataclass
class Referee:
    """Looks after duels once a second."""

    home: Home
    store: Store
    looked_at: float = float("-inf")
    _seen: dict[int, int] = field(default_factory=dict)
    """The change token of each duel that can't go on yet, as of the last look."""

    def look(self, alive: Sequence[Run]) -> None:
        """Do what is due; `alive` are the runs that are on."""
        if time.monotonic() - self.looked_at < LOOK_S:
            return
        self.looked_at = time.monotonic()
        with Reader.open(self.home) as reader:
            self._end_spent(reader, [run for run in alive if run.status == "running" and run.sweep_id])
            for duel in reader.duels.recent(stage="tuning"):
                self._go_on(reader, duel.id)

    def _end_spent(self, reader: Reader, running: Sequence[Run]) -> None:
        plans = reader.duels.plans_of([run.id for run in running]) if running else {}
        for run in running:
            duel_id, plan = plans.get(run.id, (0, None))
            if (
                plan
                and (budget := from_json(plan).budget).kind == "seconds"
                and elapsed_s(run) >= budget.amount + MARGIN_S
            ):
                try:
                    self.store.runs.cancel(run.id, by=Program(f"the budget of duel {duel_id}"))
                except WrongStatus:
                    continue  # it ended by itself meanwhile

    def _go_on(self, reader: Reader, duel_id: int) -> None:
        token = reader.duels.token(duel_id)
        if self._seen.get(duel_id) == token:
            return
        try:
            if go_on(reader, self.store, duel_id):
                log.info("duel %d is tuned; the runs that are judged are queued", duel_id)
        except (StoreBusy, StoreFull):
            raise
        except EngineError as error:
            log.warning("duel %d can't go on: %s", duel_id, error)
        self.store.notices.tell_stuck_duel(duel_id)
        self._seen[duel_id] = token


def elapsed_s(run: Run) -> float:
    """Return the seconds since all ranks of a running run were ready, by the machine's uptime, which no change of the
    clock moves; 0 where unknown.
    """
    begun, startup = run.begun_uptime_s, run.startup_time_s
    if begun is None or startup is None or run.worker is None or run.worker.boot_id != boot_id():
        return 0.0
    return uptime_s() - begun - startup + run.time_before_s
