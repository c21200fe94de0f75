"""The process that ranks are forked from in milliseconds: it has torch loaded and dies with its worker."""

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, get_context, set_forkserver_preload
from multiprocessing.connection import Connection

from engine.home import ROOT
from engine.system.network_isolation import Network, network_id, outer_level
from engine.system.processes import MARK, describe_exit, mark, me

PRELOAD = "engine.runtime.worker.preload"
NAME = "fork server"
HURRY = "PARALLAB_HURRY"
"""Environment variable of a fork server whose worker waits for a run; empty in others."""
SPREAD = "PARALLAB_SPREAD"
"""Environment variable of a fork server whose ranks have others on further nodes; empty in others."""
EXIT_UNKNOWN = 255
"""The exit code that multiprocessing reports for a rank whose fork server died: only that server knew the real one."""
EXIT_S = 2.0
"""Seconds to wait for a fork server to exit after its pipes have closed: they close shortly before."""


def start(waits_for_run: bool = False, spread: bool = False) -> None:
    """Start this process's fork server, which loads torch in the background. If its worker `waits_for_run` on standard
    input, the fork server skips what only some methods need from the arrival of a run.

    torch's C++ part logs errors only: its warnings that a peer has closed its connection are part of every end. Set
    TORCH_CPP_LOG_LEVEL to see them. Ranks that are `spread` over several nodes stay in the machine's network. The
    environment is fixed from here on, so the number of OpenMP threads is 1; each rank sets its own later.
    """
    os.environ.update(
        {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "PYTHONUNBUFFERED": "1",
            "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
            "PARALLAB_WORKER_PID": str(os.getpid()),
            MARK: mark(me()),
            HURRY: "when a run arrives" if waits_for_run else "",
            SPREAD: "over several nodes" if spread else "",
        }
    )
    set_forkserver_preload([PRELOAD])
    with _huge_pages():
        forkserver.ensure_running()


def end_of_server(within_s: float = EXIT_S) -> str:
    """Return how this process's fork server ended, as a sentence; empty if it still runs after `within_s`, or never
    ran.

    The server is not reaped: multiprocessing does that when it starts the next one.
    """
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    deadline = time.monotonic() + within_s
    while pid is not None:
        try:
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # another process's server
            return ""
        if found:
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            return (
                f"The fork server (pid {pid}), the parent of all ranks, {describe_exit(code)} before "
                "their work was done; the ranks were killed with it."
            )
        if time.monotonic() >= deadline:
            return ""
        time.sleep(0.01)
    return ""


@contextmanager
def _huge_pages() -> Iterator[None]:
    """Let processes started in the block use huge pages for malloc's memory (glibc 2.35 and newer; ignored elsewhere).

    A vector of 100 MB costs 25,000 page faults per allocation, and a few dozen with huge pages: ResNet-50's gradients
    and weights then travel over RPC in a quarter of the time. The setting is read at a program's start, so spawned
    ranks don't have it.
    """
    before = os.environ.get("GLIBC_TUNABLES")
    if "glibc.malloc.hugetlb" not in (before or ""):
        os.environ["GLIBC_TUNABLES"] = ":".join(filter(None, [before, "glibc.malloc.hugetlb=1"]))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("GLIBC_TUNABLES", None)
        else:
            os.environ["GLIBC_TUNABLES"] = before


@dataclass(frozen=True)
class _State:
    """The answer of a process forked from the fork server."""

    pid: int
    loaded: bool
    network: int
    why_not_isolated: str


def wait_until_loaded() -> bool:
    """Wait until the fork server is ready, and return whether it has loaded all it should."""
    state = _state()
    return state is not None and state.loaded


def network() -> Network:
    """Wait until the fork server is ready, and return the network of its ranks."""
    state, outside = _state(), network_id()
    if state is not None and os.environ.get(SPREAD):
        return Network("cluster", outside, state.pid)
    if state is None:
        return Network(outer_level(), outside, 0, "the fork server did not answer")
    if state.network not in (0, outside):
        return Network("namespace", outside, state.pid)
    return Network(outer_level(), outside, state.pid, state.why_not_isolated)


def _state() -> _State | None:
    """Query a process forked from the fork server; None if it could not be started."""
    context = get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs,))
    try:
        process.start()
        theirs.close()
        state: _State = ours.recv()
        process.join()
        return state
    except (EOFError, OSError):  # the server has died; the ranks that it does not start will report it
        return None
    finally:
        ours.close()


def _answer(channel: Connection) -> None:
    preload = sys.modules.get(PRELOAD)
    why = getattr(preload, "WHY_NOT_ISOLATED", f"the fork server did not load {PRELOAD}")
    channel.send(_State(os.getppid(), has_loaded(), network_id(), why))


def has_loaded() -> bool:
    """Return whether this process was forked from a server that had loaded all it should."""
    return bool(getattr(sys.modules.get(PRELOAD), "LOADED", False))


def run_is_waiting() -> bool:
    """Return, in a worker, whether a run's id has already arrived, so that only that run's needs are loaded."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def is_in_hurry() -> bool:
    """Return, in a fork server, whether its worker's run has arrived: it shares the worker's standard input, which is
    readable from the run's id until its end.
    """
    return bool(os.environ.get(HURRY)) and run_is_waiting()
