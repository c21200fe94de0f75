"""Find leftover processes: those of workers whose runs have ended, and workers without a run or a runner. Read-only."""

import os
from collections.abc import Iterator
from contextlib import suppress

import psutil

from engine.home import Home
from engine.store import Reader
from engine.store.records import ProcessIdentity
from engine.store.timestamps import seconds_since
from engine.system.cleanup import tree
from engine.system.processes import age_s, boot_id, identity, is_alive, is_foreign, mark_of, pid_namespace
from engine.upkeep.leftover import Leftover


def left_processes(home: Home, reader: Reader, grace_s: float) -> Iterator[Leftover]:
    """Yield the processes of runs that ended more than `grace_s` ago: their workers' sessions, processes with their
    mark, and children of both.
    """
    known = [found for found in reader.runner.workers(boot_id(), _candidates()) if not is_foreign(found[2])]
    newest = {worker.pid: (run_id, ended_at, worker) for run_id, ended_at, worker in known}
    for run_id, ended_at, worker in newest.values():
        if ended_at is not None and seconds_since(ended_at) >= grace_s:
            yield from (
                _left(process, f"Belongs to run {run_id}, which has ended: {_command(process.pid)}", run_id)
                for process in _alive(tree(worker))
            )
    runner = reader.runner.current()
    serving = runner.process.pid if runner and is_alive(runner.process) else None
    with_run = {worker for _, _, worker in newest.values()}
    for process, parent in _workers_of(home, grace_s):
        if process not in with_run and parent != serving:
            yield _left(process, "Worker without a run, whose runner is gone.")


def _candidates() -> set[int]:
    """Return the pids of possible workers: session leaders, and those in a mark of this boot."""
    found = set()
    for pid in psutil.pids():
        with suppress(OSError):
            found.add(os.getsid(pid))
        boot, _, rest = mark_of(pid).partition("/")
        if boot == boot_id() and (worker := rest.partition("/")[0]).isdecimal():
            found.add(int(worker))
    return found


def _workers_of(home: Home, grace_s: float) -> Iterator[tuple[ProcessIdentity, int]]:
    """Yield this home's worker processes in this PID namespace with their parents' pids, except very recent ones."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            words = process.cmdline()
            is_worker = (
                "engine.worker" in words
                and "--home" in words
                and words[words.index("--home") + 1 :][:1] == [str(home.path)]
            )
            if is_worker and os.getsid(process.pid) == process.pid and pid_namespace(process.pid) == pid_namespace():
                yield from ((known, process.ppid()) for known in _alive([process.pid]) if age_s(known) >= grace_s)


def _alive(pids: list[int]) -> Iterator[ProcessIdentity]:
    return (found for pid in pids if (found := identity(pid)) is not None)


def _left(process: ProcessIdentity, why: str, run_id: int | None = None) -> Leftover:
    return Leftover("process", str(process.pid), why, _memory_of(process.pid), run_id=run_id, process=process)


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120] or "a kernel thread."
    except psutil.Error:
        return "it has just ended."


def _memory_of(pid: int) -> int | None:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
