"""What the runner asks and writes where runs come to an end that they did not choose: time limits, lost runs and their
retries.
"""

from engine.store.claims import Claims
from engine.store.records import ALIVE, RETRIED, RETRIES, ProcessIdentity, Run
from engine.store.rows import RUN, as_run, as_runner

TIME_LIMIT = "its time limit"
"""Who asked for the end of a run that reached its time limit."""


class Recoveries(Claims):
    """The runner's side of what goes wrong."""

    def stop_at_limit(self, run_id: int) -> bool:
        """Ask for the end of a run that reached its time limit; False where it ends already."""
        with self.change() as connection:
            status = self._status(run_id)
            if status not in ("starting", "running"):
                return False
            (limit,) = connection.execute("SELECT max_run_time_s FROM runs WHERE id = ?", [run_id]).fetchone()
            self._cancel(run_id, status, TIME_LIMIT, "time limit", f"{limit:g} s")
        return True

    def lose(self, run_id: int, cause: str, *, resumes: bool) -> int | None:
        """End a live run as lost and, in the same transaction, queue it anew where it has retries left; return that
        run's id.

        The new run goes on from this one's checkpoint where it `resumes`, else it begins anew. Where the run has ended
        already, nothing is written.
        """
        with self.change():
            run = self.run(run_id)
            if run.status not in ALIVE:
                return None
            next_id = None
            if run.attempt < run.terms.max_retries and not run.stop_requested_by:
                next_id = self._try_again(run, resumes)
                cause = f"{cause} It is tried again as run {next_id}, {_way(resumes)}."
            self._end(run_id, ALIVE, "lost", cause, "", None, "runner")
        return next_id

    def _try_again(self, run: Run, resumes: bool) -> int:
        next_id = self._queue(
            run.experiment,
            run.config,
            owner=run.owner,
            demand=run.demand,
            preset=run.preset,
            name=run.name,
            parent_id=run.id,
            sweep_id=run.sweep_id,
            resumes=resumes,
            terms=run.terms,
            attempt=run.attempt + 1,
            data_folder=run.data_folder,
        )
        self._note_event(
            next_id,
            RETRIES,
            "runner",
            f"run {run.id} {_way(resumes)}, retry {run.attempt + 1} of at most {run.terms.max_retries}",
        )
        self._note_event(run.id, RETRIED, "runner", f"as run {next_id}")
        return next_id

    def run(self, run_id: int) -> Run:
        """Return one run as it is now; raises NoSuchRun."""
        row = self.row(f"{RUN} WHERE runs.id = ?", [run_id])
        if row is None:
            raise self.no_such_run(run_id)
        return as_run(row)

    def registered_runner(self) -> ProcessIdentity | None:
        """Return the runner that registered last and has not signed off; it may be long dead."""
        row = self.row("SELECT * FROM runner")
        return as_runner(row).process if row else None

    def rank_pids(self, run_id: int) -> list[int]:
        """Return the process ids that the run's ranks had."""
        return [row["pid"] for row in self.rows("SELECT pid FROM ranks WHERE run_id = ? AND pid IS NOT NULL", [run_id])]


def _way(resumes: bool) -> str:
    return "from its last checkpoint" if resumes else "from the start"
