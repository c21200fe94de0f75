"""The store's side of a job's records: writes them to its run. Torch-free."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from engine.jobs.records import Ended, JobSink, Line
from engine.runtime.worker.sink import StoreSink
from engine.runtime.worker.stop_request import stop_reason
from engine.store import Store
from engine.store.queue.cluster_jobs import ClusterJob
from engine.store.timestamps import recorded_at

log = logging.getLogger(__name__)


class StoredRun(StoreSink):
    """Writes the reports of a job's worker to the store."""

    def __init__(self, store: Store, job: ClusterJob) -> None:
        super().__init__(store, job.run_id)
        self._cluster = job.cluster
        self.lost = ""
        """Why the worker ended as lost: the runner need not wait for Slurm to notice."""

    def begin(self, environment: dict[str, Any], cores: Sequence[int], gpus: Sequence[int], pid: int) -> None:
        detail = f"on {environment.get('host', 'a node')} of {self._cluster}, worker pid {pid}"
        self._store.cluster_jobs.begin(
            self._run_id, detail, json.dumps(environment), json.dumps([*cores]), json.dumps([*gpus])
        )

    def log_file(self, source: str, path: str) -> None:
        self._store.worker.add_log(self._run_id, source, path)

    def note(self, name: str, value: Any) -> None:
        self._store.worker.note_environment(self._run_id, name, value)

    def end(self, status: Ended, cause: str, error: str, execution_time_s: float | None) -> None:
        run = self._store.read.runs.one(self._run_id)
        if status == "lost" and not run.stop_requested_by:
            self.lost = cause
            return
        if status == "cancelled" and not run.stop_requested_by:
            return  # by the cluster, which says why: scancel, a time limit, preemption, a lost node
        if run.stop_requested_by and status != "finished":
            status, cause = "cancelled", stop_reason(run)
        self._store.claims.end(
            self._run_id, status, cause, error=error, execution_time_s=execution_time_s, who="worker"
        )


def apply(line: Line, sink: JobSink) -> None:
    """Report the record of a line to a sink, with its time; raises ValueError for one that is none."""
    record = line.record()
    with recorded_at(line.at):
        record.apply(sink)
