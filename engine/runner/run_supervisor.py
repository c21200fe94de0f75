"""How the runner ends runs: stop request, kill at the deadline, cleanup, and then the final status. Torch-free.

All state comes from the store and the machine, so the next runner continues.
"""

import logging
import threading
import time
from dataclasses import dataclass, field

from engine import __version__
from engine.home import Home
from engine.runner.placement import Launcher
from engine.runtime.command.attached import followed_of
from engine.runtime.command.rest import store_rest
from engine.runtime.worker.environment import begun_by, is_of_another_version
from engine.runtime.worker.sink import stop_reason
from engine.store import Store
from engine.store.records import ProcessIdentity, Run
from engine.system.cleanup import Cleared, Footprint, clear, look
from engine.system.out_of_memory import memory_cause
from engine.system.processes import boot_id, identity, is_foreign, is_of_other_home, uptime_s
from engine.system.runner_process import lose

log = logging.getLogger(__name__)

STOP_DEADLINE_S = 6.0
"""Time for a worker to end its run after SIGTERM; then all its processes are killed."""
KILL_DEADLINE_S = 10.0
"""Time for a killed worker to disappear; then its run is ended anyway, and its cause lists what remains."""
EXIT_DEADLINE_S = 15.0
"""Time for a worker to exit after ending its run; then it is killed."""
LOOK_S = 30.0
"""Interval of recording a live run's shared memory and sockets (also at each change of status), for removal after a
crash.
"""
MAX_STARTS = 3
"""Maximum number of starts of a run whose worker died before it began."""


@dataclass
class Watched:
    """The runner's state of one live run, in addition to the store; not inherited by the next runner."""

    worker: ProcessIdentity
    seen: Footprint = field(default_factory=Footprint)
    looked_at: float = float("-inf")
    status: str = ""
    """The run's status at the last check."""
    refused: str = ""
    """Reason why the run can't continue under this runner."""
    terminated_at: float | None = None
    killed_at: float | None = None
    cleared: Cleared | None = None
    """What became of its processes, once its worker is gone."""
    how: str = ""
    """How its worker ended."""
    rest: threading.Thread | None = None
    """Stores what the sources of a command hold and its worker has not read."""
    ended_at: float | None = None
    """Time when its final status was first seen."""


@dataclass
class Endings:
    """Supervises live runs until all their processes are gone."""

    store: Store
    launcher: Launcher
    watched: dict[int, Watched] = field(default_factory=dict)
    unsigned_boot: str = ""
    """The boot id of a previous runner that did not shut down cleanly: if it differs from this boot's, the machine
    crashed.
    """

    @property
    def _home(self) -> Home:
        return self.store.db.home

    def note_last_runner(self) -> None:
        """Record, before this runner registers, whether the last one shut down cleanly."""
        last = self.store.read.runner.process()
        self.unsigned_boot = last.boot_id if last else ""

    def inherit(self, run_id: int) -> None:
        """Take over the remaining processes of an ended run from the previous runner."""
        if worker := self.store.read.runs.one(run_id).worker:
            self.watched[run_id] = Watched(
                worker, Footprint(frozenset(self.store.read.runner.rank_pids(run_id))) | look(worker, self._home.path)
            )

    def holders(self) -> list[Run]:
        """Supervise all live runs; return those that still hold their slots."""
        alive = self.store.read.queue.alive()
        holders = [run for run in alive if self._look_after(run)]
        for run_id in self.watched.keys() - {run.id for run in alive}:
            self._see_off(run_id)
        return holders

    def _look_after(self, run: Run) -> bool:
        """Enforce stops and time limits, and detect dead workers; return whether the run still holds its slots."""
        worker = run.worker
        if worker is None:
            lose(self.store, run, "No worker is recorded for this run, probably because of a crash.")
            return False
        watched = self.watched.get(run.id)
        if watched is None or watched.worker != worker:  # new, or requeued and claimed again
            watched = self.watched[run.id] = Watched(worker)
            if run.status == "running" and is_of_another_version(run):
                self.store.runs.add_event(
                    run.id, "taken over", "runner", f"{_versions(run)} It continues with the code that it has loaded."
                )
        ended = self.launcher.poll(worker)
        if ended is None and not self._is_given_up(watched):
            self._look(run, watched)
            if run.status == "stopping":
                self._stop(run, watched)
            elif run.status == "starting" and is_of_another_version(run):
                self._refuse(run, watched)
            elif is_over_time(run):
                self.store.claims.stop_at_limit(run.id)
            return True
        watched.seen |= Footprint(frozenset(self.store.read.runner.rank_pids(run.id)))
        if watched.cleared is None:
            watched.cleared = clear(worker, watched.seen, self._home.run_folder(run.id), self._home.path)
            watched.how = ended or "could not be killed"
        if not self._has_stored_rest(run, watched):
            return True
        self._settle(run, watched, watched.how, watched.cleared)
        del self.watched[run.id]
        return False

    def _has_stored_rest(self, run: Run, watched: Watched) -> bool:
        """Return whether all points of a command's or a followed program's run are stored; a thread does so, with a
        connection of its own.
        """
        if run.command is None and followed_of(run) is None:
            return True
        if watched.rest is None:
            watched.rest = threading.Thread(target=self._store_rest, args=(run,), name="rest", daemon=True)
            watched.rest.start()
        return not watched.rest.is_alive()

    def _store_rest(self, run: Run) -> None:
        with Store.open(self._home) as store:
            store_rest(store, run, self._home.run_folder(run.id))

    def _look(self, run: Run, watched: Watched) -> None:
        if run.status != watched.status or time.monotonic() - watched.looked_at >= LOOK_S:
            watched.seen |= look(watched.worker, self._home.path)
            watched.looked_at, watched.status = time.monotonic(), run.status

    def _stop(self, run: Run, watched: Watched) -> None:
        """Send the stop request once; kill all its processes at the deadline, or at once with force."""
        now = time.monotonic()
        if watched.terminated_at is None:
            watched.terminated_at = now
            if run.stop_kind != "force":
                self.launcher.cancel(watched.worker)
        if run.stop_kind == "force" or now - watched.terminated_at > STOP_DEADLINE_S:
            watched.killed_at = watched.killed_at or now
            self.launcher.cancel(watched.worker, force=True)

    def _refuse(self, run: Run, watched: Watched) -> None:
        """End a run that is starting: the code that its ranks still have to load may be missing or incompatible."""
        watched.refused = f"{_versions(run)} It was still starting, and code that it had not loaded yet was replaced."
        watched.killed_at = watched.killed_at or time.monotonic()
        self.launcher.cancel(watched.worker, force=True)

    def _is_given_up(self, watched: Watched) -> bool:
        return watched.killed_at is not None and time.monotonic() - watched.killed_at > KILL_DEADLINE_S

    def _settle(self, run: Run, watched: Watched, ended: str, cleared: Cleared) -> None:
        """Set the final status of a run whose worker is gone; the store ignores it if the worker already did."""
        worker = watched.worker
        remains = f" Could not be removed: {', '.join(cleared.left)}." if cleared.left else ""
        who = (
            f"The worker (pid {worker.pid}{' of another PID namespace' if is_foreign(worker) else ''}) "
            f"{ended}{_reused(worker)}"
        )
        if cleared.removed:
            self.store.runs.add_event(run.id, "cleaned up", "runner", ", ".join(cleared.removed))
        if run.stop_requested_by:
            late = (
                ""
                if run.stop_kind == "force" or watched.killed_at is None
                else f" Its processes were killed: they had not ended within {STOP_DEADLINE_S:g} s."
            )
            self.store.claims.end(run.id, "cancelled", f"{stop_reason(run)}{late}{remains}")
        elif is_of_other_home(worker.pid, self._home.path):
            lose(
                self.store,
                run,
                f"This home is a copy of another one, for which the run's worker (pid {worker.pid}) works.",
            )
        elif worker.boot_id != boot_id():
            lose(self.store, run, f"{self._of_another_boot(worker)} Recorded data is kept.")
        elif run.begun_at is None and run.starts < MAX_STARTS:
            self.store.claims.requeue(run.id, f"{who} before the run began; the run was requeued.{remains}")
        elif run.begun_at is None:
            last_words = self.launcher.failure()
            why = memory_cause(last_words) or " Run the doctor command to find the cause."
            self.store.claims.end(
                run.id, "failed", f"{who} before the run began, {MAX_STARTS} times.{why}", error=last_words
            )
        elif watched.refused:
            lose(self.store, run, f"{watched.refused}{remains}")
        else:
            other = f" {_versions(run)}" if is_of_another_version(run) else ""
            lose(self.store, run, f"{who} during the run.{other} Recorded data is kept.{remains}")

    def _of_another_boot(self, worker: ProcessIdentity) -> str:
        if worker.boot_id == self.unsigned_boot:
            return "The machine went down without a shutdown (power failure, crash or reset) during the run."
        return "The machine was restarted during the run."

    def _see_off(self, run_id: int) -> None:
        """Clean up after a run whose worker has set its final status, once that worker is gone."""
        watched = self.watched[run_id]
        watched.ended_at = watched.ended_at or time.monotonic()
        stays_for = time.monotonic() - watched.ended_at
        if self.launcher.poll(watched.worker) is None and stays_for <= EXIT_DEADLINE_S + KILL_DEADLINE_S:
            if stays_for > EXIT_DEADLINE_S:
                self.launcher.cancel(watched.worker, force=True)
            return
        cleared = clear(watched.worker, watched.seen, self._home.run_folder(run_id), self._home.path)
        del self.watched[run_id]
        if cleared.removed:
            self.store.runs.add_event(run_id, "cleaned up", "runner", ", ".join(cleared.removed))
        if cleared.left:
            self.store.runs.add_event(
                run_id, "left behind", "runner", f"Could not be removed: {', '.join(cleared.left)}."
            )


def is_over_time(run: Run) -> bool:
    """Return whether a run has reached its time limit, by the machine's uptime, which clock changes don't affect."""
    limit, begun = run.terms.max_run_time_s, run.begun_uptime_s
    return (
        limit is not None
        and begun is not None
        and run.worker is not None
        and run.worker.boot_id == boot_id()
        and uptime_s() - begun >= limit
    )


def _versions(run: Run) -> str:
    return f"Its worker has version {begun_by(run)}, the runner has version {__version__}."


def _reused(worker: ProcessIdentity) -> str:
    now = None if is_foreign(worker) else identity(worker.pid)
    return " (its pid is now used by another process)" if now is not None and now != worker else ""
