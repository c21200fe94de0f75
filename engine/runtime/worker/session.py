"""One run in its worker, from its id to a final status with its cause, whatever executes it. Torch-free."""

import argparse
import logging
import os
import signal
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from engine import __version__
from engine.commands.kept_files import keep_left_files
from engine.errors import EngineError, RankFailed, StoreGone
from engine.home import DATA, Home
from engine.runtime.usage import Disturbance
from engine.runtime.worker.environment import environment, is_replaced, told_of_replacement, version_on_disk
from engine.runtime.worker.sink import StopRequested, StopSwitch, retry_while_busy, stop_reason
from engine.store import Store
from engine.store.records import Run, Status
from engine.system.machine import machine
from engine.system.out_of_memory import gpu_failure, gpu_of, limit_met, memory_cause, words_of
from engine.system.processes import me, session_members, uptime_s
from engine.system.run_files import close_up, log_to_stdout, vacate
from engine.system.runner_process import announce, lives

log = logging.getLogger(__name__)

READY = b"ready\n"


class Execution(ABC):
    """One run in its worker: what it executes, and how that ended."""

    began: float
    """The time (monotonic, s) at which the worker accepted the run."""

    @abstractmethod
    def run(self) -> None:
        """Execute the run; raises what ends it early."""

    @property
    @abstractmethod
    def execution_time_s(self) -> float | None:
        """Return how long it ran from all ranks ready to all done; None if it did not get there."""

    def afterwards(self) -> None:  # noqa: B027 most have nothing to do
        """Record what may be recorded after the run's end."""

    def outcome(self, stopped: Callable[[], tuple[Status, str, str]]) -> tuple[Status, str, str]:
        """Run the method, log it, and return status, cause and error details; `stopped` returns those of a requested
        stop.
        """
        status, cause, error = self._outcome(stopped)
        executed = "" if self.execution_time_s is None else f", execution {self.execution_time_s:.1f} s"
        log.info("%s after %.1f s%s: %s", status, time.monotonic() - self.began, executed, cause)
        return status, cause, error

    def _outcome(self, stopped: Callable[[], tuple[Status, str, str]]) -> tuple[Status, str, str]:
        try:
            self.run()
        except StopRequested:
            return stopped()
        except RankFailed as failure:
            return "failed", str(failure), failure.traceback
        except EngineError as failure:
            return "failed", f"{failure}{limit_met(words_of(failure))}", ""
        except BaseException as failure:
            log.exception("the worker failed")
            if lost := gpu_failure(words_of(failure), gpu_of("cuda", os.environ.get("CUDA_VISIBLE_DEVICES", ""))):
                return "failed", f"The worker, which loads the data for all ranks, {lost}", traceback.format_exc()
            cause = memory_cause(words_of(failure))
            return (
                "failed",
                f"The worker raised {type(failure).__name__}: {failure}{f'.{cause}' if cause else ''}",
                traceback.format_exc(),
            )
        return "finished", "Completed successfully", ""


Preparation = Callable[[Store, Run, Path, float, StopSwitch], Execution]
"""Returns the execution of a run, with its folder and the time (monotonic, s) at which it was accepted."""


def home_of_worker() -> Home:
    """Return the home that a worker's command line names, and begin to work for it."""
    options = argparse.ArgumentParser(
        prog="python -m engine.worker", description="Execute one run (started by the runner)."
    )
    options.add_argument("--home", required=True, type=Path)
    home = Home(options.parse_args().home)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["PARALLAB_HOME"] = str(home.path)
    announce(home)
    return home


def execute_given_run(home: Home, prepared: Preparation) -> None:
    """Wait for a run's id on standard input and execute that run; return quietly if none arrives."""
    with Store.open(home) as store:
        surroundings = environment()
        with suppress(BrokenPipeError):  # the run arrived while this worker was still loading
            os.write(sys.stdout.fileno(), READY)
        line = sys.stdin.readline().strip()
        if line and is_replaced():
            store.claims.requeue(
                int(line),
                (
                    f"The worker has version {__version__} and the code on disk has version "
                    f"{version_on_disk()}, so it can't start the run, which waits for a worker of version "
                    f"{version_on_disk()}."
                ),
            )
        elif line:
            try:
                carry_out(store, home, int(line), surroundings, StopSwitch(), prepared)
            except StoreGone as gone:
                log.error("%s", gone)
                sys.exit(1)


def carry_out(
    store: Store,
    home: Home,
    run_id: int,
    surroundings: dict[str, object],
    switch: StopSwitch,
    prepared: Preparation,
) -> None:
    """Take the run, execute it, and always record a status and a cause."""
    began = time.monotonic()
    run = store.worker.begin(run_id, me(), surroundings, uptime_s())
    folder = home.run_folder(run_id)
    if found := vacate(home, run_id):
        store.runs.add_event(run_id, "folder moved", "worker", f"Files of another run of this number are in {found}.")
    write_own_log(folder / "logs" / "worker.log")
    store.worker.add_log(run_id, "worker", "logs/worker.log")
    if run.cores and not run.terms.oversubscribe:
        bind_session(run.cores)
    if run.data_folder:
        os.environ[DATA] = run.data_folder  # the ranks get it by their context: the fork server has started
    execution = prepared(store, run, folder, began, switch)
    status, cause, error = execution.outcome(lambda: _stopped(store.read.runs.one(run_id)))
    if status == "failed" and (now := store.read.runs.one(run_id)).stop_requested_by:
        status, cause = "cancelled", stop_reason(now)  # it was to stop anyway, whatever happened to its ranks meanwhile
    if status == "failed":
        cause = told_of_replacement(cause)
    if run.command is None:
        from engine.analysis.result import ranked  # not needed by all, and slow to load

        if result := ranked(store.read.runs.some([run_id])[0]):
            log.info("Result: %s", result.words)
    took = execution.execution_time_s
    close_up_logs(folder / "logs")
    if status == "cancelled" and (runner := store.read.runner.process()) and lives(store.db.home, runner):
        return  # it checks that no process of the run is left before reporting, and keeps what it left
    if run.command:
        keep_left_files(store, run_id, folder, retry_while_busy)
    retry_while_busy(lambda: store.claims.end(run_id, status, cause, error=error, execution_time_s=took, who="worker"))
    execution.afterwards()


def disturbance_of(run: Run) -> Disturbance:
    """Return the counter of what others take from the run's cores: its own if it is bound to them, else all."""
    if run.cores and not run.terms.oversubscribe:
        return Disturbance(len(run.cores), run.cores)
    return Disturbance(max(1, run.demand.cores), machine().core_ids)


def _stopped(run: Run) -> tuple[Status, str, str]:
    if run.stop_requested_by:
        return "cancelled", stop_reason(run), ""
    return (
        "failed",
        (
            "The worker received SIGTERM from outside the console, for example at a system shutdown. "
            "Launch the run again."
        ),
        "",
    )


def close_up_logs(folder: Path) -> None:
    """Compact the long logs of the ranks, which have exited; this process continues to write its own."""
    for path in folder.glob("*.log"):
        if path.name != "worker.log":
            try:
                close_up(path)
            except OSError as error:
                log.warning("could not compact the log %s: %s", path.name, error)


def write_own_log(path: Path) -> None:
    """Redirect this process's output to the run's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)
    log_to_stdout()


# ---- CPU affinity of a run -----------------------------------------------------------------------------------------
# Set for the worker and its fork server, and inherited by every forked rank.


def bind_session(cores: Collection[int]) -> None:
    """Bind this process's session to some cores, by number; processes and threads that it starts afterwards inherit the
    binding.

    Does nothing off Linux. Cores that no longer exist are skipped; if none is left, the run keeps every core and its
    log says so.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    try:
        for pid in {os.getpid(), *session_members(me())}:
            _bind(pid, cores)
    except OSError as error:
        log.warning(
            "The run can't be bound to cores %s (%s); it may use all cores.",
            ", ".join(map(str, cores)),
            error.strerror,
        )


def _bind(pid: int, cores: Iterable[int]) -> None:
    """Bind each thread of a process; threads that end meanwhile are ignored."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:
            continue
