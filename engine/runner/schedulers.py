"""Work that the runner schedules: stages of duels, repeats of sweeps for timing, the end of silent reported runs."""

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
from engine.store.imports.reports import SILENT_S
from engine.store.records import BUDGET_OF, Run
from engine.store.timestamps import seconds_since
from engine.sweep.extend import repeat
from engine.system.processes import boot_id, uptime_s
from engine.system.runner_process import has_console

# ------------------------------------------------------------------------------------------------------------------
# Scheduling of duels in the runner: stop runs that have spent a budget of seconds, and queue the judged runs once
# all tuning runs have ended. Torch-free. All state is in the store, so the next runner continues.

log = logging.getLogger(__name__)

LOOK_S, SILENCE_LOOK_S = 1.0, 10.0
MARGIN_S = 1.5
"""Extra time past a run's budget, as ranks submit their records every half second."""


@dataclass
class Referee:
    """Checks duels once a second."""

    home: Home
    store: Store
    looked_at: float = float("-inf")
    _seen: dict[int, int] = field(default_factory=dict)
    """The last change token of each duel that can't continue yet."""

    def look(self, alive: Sequence[Run]) -> None:
        """Do due work; `alive` are the active runs."""
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
                    self.store.runs.cancel(run.id, by=Program(f"{BUDGET_OF} {duel_id}"))
                except WrongStatus:
                    continue  # it has just ended

    def _go_on(self, reader: Reader, duel_id: int) -> None:
        token = reader.duels.token(duel_id)
        if self._seen.get(duel_id) == token:
            return
        try:
            if go_on(reader, self.store, duel_id):
                log.info("duel %d is tuned; its judged runs are queued", duel_id)
        except (StoreBusy, StoreFull):
            raise
        except EngineError as error:
            log.warning("duel %d can't continue: %s", duel_id, error)
        self.store.notices.tell_stuck_duel(duel_id)
        self._seen[duel_id] = token


def elapsed_s(run: Run) -> float:
    """Return the seconds since all ranks of a run were ready, by the machine's uptime, which clock changes don't
    affect, or on a cluster by the clock; 0 if unknown.
    """
    if run.terms.target and run.started_at:
        return seconds_since(run.started_at) + run.time_before_s
    begun, startup = run.begun_uptime_s, run.startup_time_s
    if begun is None or startup is None or run.worker is None or run.worker.boot_id != boot_id():
        return 0.0
    return uptime_s() - begun - startup + run.time_before_s


# ------------------------------------------------------------------------------------------------------------------
# Scheduling of sweeps for timing in the runner: queue another run of each combination whose median time is not
# known well enough, once the sweep's queued runs have ended. Torch-free. All state is in the store, so the next
# runner continues.


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


# ------------------------------------------------------------------------------------------------------------------
# The end of reported runs whose programs have fallen silent. Without a console none can report, so silence counts only
# while there is one.


@dataclass
class Silence:
    """Ends as lost, every 10 s, the reported runs that were silent for `silent_s` although a console was there.

    A look at the console holds its lock for a moment, so there is none while nothing is reported.
    """

    home: Home
    store: Store
    silent_s: float = SILENT_S
    looked_at: float = float("-inf")
    _alone_at: float = field(default_factory=time.monotonic)
    """The last time without a console, or without a reported run."""

    def look(self) -> None:
        """End what is silent."""
        if time.monotonic() - self.looked_at < SILENCE_LOOK_S:
            return
        self.looked_at = time.monotonic()
        if not (self.store.reports.are_on() and has_console(self.home)):
            self._alone_at = self.looked_at
        self.store.reports.renew_silent()
        if self.looked_at - self._alone_at >= self.silent_s:
            for run_id in self.store.reports.lose_silent(self.silent_s):
                log.info("run %d is lost: its program stopped reporting", run_id)
