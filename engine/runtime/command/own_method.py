"""One run of an experiment of the lab's own in its worker: the method runs confined in a process of its own
(`engine/runtime/worker/confined.py`), whose records this worker stores. Torch-free.
"""

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import __version__
from engine.errors import MethodFault, RankFailed, RunFailed
from engine.home import DATA, ROOT, Home
from engine.own_methods import cards, folders
from engine.registry import IMPORTED
from engine.runtime.command import snapshot
from engine.runtime.command.process import CommandProcess, forget_pids
from engine.runtime.command.start import OURS, Start
from engine.runtime.worker.job_folder import JobFolder, JobSpec
from engine.runtime.worker.records import Ended, read_records, tail_of
from engine.runtime.worker.session import Execution
from engine.runtime.worker.sink import StopRequested, StopSwitch, retry_while_busy
from engine.store import Store
from engine.store.records import Run
from engine.store.timestamps import recorded_at
from engine.store.worker_writes import StoreSink
from engine.system.checkpoint_state import go_on_from_parent
from engine.system.confinement import confinement
from engine.system.machine import machine
from engine.system.processes import MARK, describe_exit, mark, me
from engine.system.run_files import tail

log = logging.getLogger(__name__)

LOG = "method"
CODE_FOLDER, JOB_FOLDER = "code", "job"
"""Subfolders of a run: the copy of its code; the order to its process, and the records of that process."""
GRACE_S = 4.0
"""Seconds that the process and its ranks have to exit after SIGTERM; the runner kills the worker later."""
LOOK_S = 0.05
CHUNK = 256 << 10
"""Bytes of records that one transaction stores."""


class OwnMethodSink(StoreSink):
    """Writes what the process of a method reports to the store."""

    ended: tuple[Ended, str, str, float | None] | None = None
    """Status, cause, error and execution time of its last record."""

    def begin(self, environment: dict[str, Any], cores: object, gpus: object, pid: int) -> None:
        """Take no note: the worker has begun the run."""

    def end(self, status: Ended, cause: str, error: str, execution_time_s: float | None) -> None:
        self.ended = status, cause[:4_000], error, execution_time_s


def execution_of(store: Store, run: Run, folder: Path, began: float, switch: StopSwitch) -> "OwnMethodExecution":
    """Return the execution of a run of an experiment of the lab's own."""
    return OwnMethodExecution(store, run, folder, began, switch, OwnMethodSink(store.db, run.id))


@dataclass
class OwnMethodExecution(Execution):
    """A run of an experiment of the lab's own."""

    store: Store
    row: Run
    folder: Path
    """The run's folder."""
    began: float
    switch: StopSwitch
    sink: OwnMethodSink
    position: int = field(default=0, init=False)
    """Bytes of records that are stored."""
    traces: list[float] = field(default_factory=list, init=False)

    @property
    def home(self) -> Home:
        return self.store.db.home

    @property
    def execution_time_s(self) -> float | None:
        return self.sink.ended[3] if self.sink.ended else None

    def run(self) -> None:
        """Run the method; raises RankFailed where it fails, MethodFault where its code can't be used, StopRequested."""
        if self.switch.is_requested():
            raise StopRequested("The run was asked to stop.")
        (self.folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
        self._copy_code()
        job = self._job()
        confined = confinement(self.home, self.folder, self.folder)
        argv = [sys.executable, "-m", "engine.runtime.worker.confined", str(job.path)]
        start = Start(argv, self._environment(job), self.folder, sys.executable)
        process = CommandProcess(start, self.folder, LOG, confined)
        self.sink.log_file(LOG, f"logs/{LOG}.log")
        self.sink.note("confinement", str(confined))
        process.begin()
        code: int | None = None
        try:
            while (code := process.wait(LOOK_S)) is None:
                if self.switch.is_requested():
                    raise StopRequested("The run was asked to stop.")
                self._take(job)
        finally:
            left = process.end(GRACE_S) if code is None else process.end_rest()[1]
            if left:
                self.sink.event("process outlived kill", f"These are still running: {', '.join(left)}.")
            self._take(job, last=True)
            forget_pids(self.folder)
            shutil.rmtree(job.path, ignore_errors=True)
        if self.sink.ended is None:
            words = tail(process.logs / f"{LOG}.log")
            raise RankFailed(LOG, f"The process of the method (pid {process.pid}) {describe_exit(code)}.", words)
        status, cause, error, _ = self.sink.ended
        if status != "finished":
            raise RankFailed(LOG, cause, error)

    def _copy_code(self) -> None:
        """Copy the version of the code that the run was launched with into its folder; raises MethodFault."""
        name, code = self.row.experiment, str(self.row.config.get(cards.CODE))
        version = folders.version(self.home, name, code)
        if version is None:
            raise MethodFault(name, f"The home has no copy of its version {code[:60]}. Launch the run again.")
        cards.check_approval(self.home, version)
        version.copy_to(self.folder / CODE_FOLDER)
        copy = self.folder / CODE_FOLDER / folders.PACKAGE / name
        self.sink.note("code", {"folder": name, "version": code, **snapshot.copy(copy, self.folder)})

    def _job(self) -> JobFolder:
        """Write down what the process has to do."""
        resume_from = go_on_from_parent(self.store, self.row, self.folder)
        job = JobFolder(self.folder / JOB_FOLDER, self.folder)
        shutil.rmtree(job.path, ignore_errors=True)
        cores = machine().core_ids if self.row.terms.oversubscribe else self.row.cores or machine().core_ids
        job.create(
            JobSpec(
                version=__version__,
                run_id=self.row.id,
                run_uid=self.row.uid,
                cluster="",
                experiment=self.row.experiment,
                config={name: value for name, value in self.row.config.items() if name != cards.CODE},
                end_when_hung=self.row.terms.end_when_hung,
                host_network_refused=self.store.read.quotas.why_no_listening("host"),
                resumes=resume_from is not None,
                time_before_s=self.store.read.runs.one(self.row.id).time_before_s,
                core_ids=[*cores],
                began=self.began,
            )
        )
        with suppress(OSError):  # the data sets that an admin added
            (job.path / self.home.catalogue.name).write_bytes(self.home.catalogue.read_bytes())
        return job

    def _environment(self, job: JobFolder) -> Mapping[str, str]:
        """Return the environment: the worker's without what is ours, and the paths of the code."""
        found = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
        paths = [str(self.folder / CODE_FOLDER), str(ROOT), found.get("PYTHONPATH", "")]
        return found | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONUNBUFFERED": "1",
            "PARALLAB_HOME": str(job.path),
            DATA: str(self.home.data.resolve()),
            IMPORTED: self.row.experiment,
            MARK: mark(me()),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, self.row.gpus)),
        }

    def _take(self, job: JobFolder, *, last: bool = False) -> None:
        """Store what the process has recorded since the last call, and pass on requests for its trace."""
        if found := self.sink.trace_requests():
            self.traces += found
            job.request_traces(self.traces)
        while content := read_records(job.records, self.position, CHUNK):
            found_lines = tail_of(content, self.position, last=last)
            for line in found_lines.lines:
                try:
                    record = line.record()
                except ValueError as error:
                    raise RunFailed("The method wrote into the file of its run's records. Leave it alone.") from error
                with recorded_at(line.at):
                    retry_while_busy(lambda record=record: record.apply(self.sink))  # type: ignore[misc]
            if found_lines.position == self.position:
                return
            self.position = found_lines.position
