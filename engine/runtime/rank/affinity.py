"""CPU affinity of a run: set for the worker and its fork server, and inherited by every forked rank. Torch-free."""

import logging
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from engine.system.processes import me, session_members

log = logging.getLogger(__name__)


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
