"""The process that ranks are forked from in milliseconds: it has torch loaded and dies with its worker."""

import os
import select
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import forkserver, get_context, resource_tracker, set_forkserver_preload, util
from multiprocessing.connection import Connection

from engine.home import ROOT
from engine.system.network_isolation import Network, isolate, network_id, outer_level
from engine.system.processes import MARK, describe_exit, die_with_parent, mark, me

PRELOAD = "engine.runtime.worker.preload"
ALSO: list[str] = []
"""Further modules that a fork server which is a new Python loads."""
NAME = "fork server"
SPREAD = "PARALLAB_SPREAD"
"""Environment variable of a fork server whose ranks have others on further nodes; empty in others."""
WORKER_PID = "PARALLAB_WORKER_PID"
"""Environment variable of a fork server: the process that it dies with."""
EXIT_UNKNOWN = 255
"""The exit code that multiprocessing reports for a rank whose fork server died: only that server knew the real one."""
EXIT_S = 2.0
"""Seconds to wait for a fork server to exit after its pipes have closed: they close shortly before."""
HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""Makes malloc use huge pages (glibc 2.35 and newer; ignored elsewhere): a vector of 100 MB costs 25,000 page faults
per allocation, and a few dozen with huge pages, so ResNet-50's gradients and weights travel over RPC in a quarter of
the time. glibc reads it at a program's start. Spawned ranks don't have it, as the published code doesn't.
"""
why_not_isolated = f"the fork server did not load {PRELOAD}"
"""In a fork server and its ranks: why they have no network of their own; empty if they have one."""


def start(spread: bool = False) -> None:
    """Start this process's fork server: a new Python, which loads torch in the background.

    Ranks that are `spread` over several nodes stay in the machine's network. The environment is fixed from here on, so
    the number of OpenMP threads is 1; each rank sets its own later.
    """
    os.environ.update(_environment(mark(me()), spread))
    set_forkserver_preload([PRELOAD, *ALSO])
    before = os.environ.get("GLIBC_TUNABLES")
    os.environ["GLIBC_TUNABLES"] = _with_huge_pages(before)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            os.environ.pop("GLIBC_TUNABLES", None)
        else:
            os.environ["GLIBC_TUNABLES"] = before


def fork_this_process(its_mark: str | None = None) -> None:
    """Load what a worker and its ranks need, then fork this process as its fork server: what both need is loaded
    once. Only for a process that has just started.

    It first executes its program again, with the environment by which its processes are known (`its_mark`, else its
    own), and which C libraries read at a program's start.
    """
    if os.environ.get(WORKER_PID) != str(os.getpid()):
        wanted = _environment(its_mark or mark(me())) | {
            "GLIBC_TUNABLES": _with_huge_pages(os.environ.get("GLIBC_TUNABLES"))
        }
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | wanted)
    try:
        import_module(PRELOAD)
    except Exception:  # ranks then load it themselves; wait_until_loaded() returns False
        traceback.print_exc()
    resource_tracker.ensure_running()
    spawn = util.spawnv_passfds
    util.spawnv_passfds = _fork  # type: ignore[assignment]
    try:
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawn
    os.environ["GLIBC_TUNABLES"] = os.environ["GLIBC_TUNABLES"].removesuffix(HUGE_PAGES).removesuffix(":")


def _environment(its_mark: str, spread: bool = False) -> dict[str, str]:
    """Return the environment of a fork server of this process.

    torch's C++ part logs errors only: its warnings that a peer has closed its connection are part of every end. Set
    TORCH_CPP_LOG_LEVEL to see them.
    """
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONUNBUFFERED": "1",
        "TORCH_CPP_LOG_LEVEL": os.environ.get("TORCH_CPP_LOG_LEVEL", "ERROR"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        WORKER_PID: str(os.getpid()),
        MARK: its_mark,
        SPREAD: "over several nodes" if spread else "",
    }


def _with_huge_pages(tunables: str | None) -> str:
    if "glibc.malloc.hugetlb" in (tunables or ""):
        return tunables or ""
    return ":".join(filter(None, [tunables, HUGE_PAGES]))


def _fork(_path: object, arguments: Sequence[str], kept: Sequence[int]) -> int:
    """Fork a process that executes the program in a Python's arguments, where multiprocessing would start it."""
    worker = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        last = 2
        for descriptor in sorted(kept):
            os.closerange(last + 1, descriptor)
            last = descriptor
        os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
        for inherited in (forkserver._forkserver, resource_tracker._resource_tracker):
            inherited.__init__()  # type: ignore[misc]  # they describe the worker's
        begin(worker)
        exec(arguments[-1], {})
    except SystemExit:  # the worker has ended
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def begin(worker_pid: int) -> None:
    """Begin as the fork server of a worker, with one thread alone: leave the machine's network unless the run's ranks
    are spread over nodes, and die with the worker, in this order.
    """
    global why_not_isolated
    why_not_isolated = "" if os.environ.get(SPREAD) else isolate()
    die_with_parent(worker_pid)


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
    channel.send(_State(os.getppid(), has_loaded(), network_id(), why_not_isolated))


def has_loaded() -> bool:
    """Return whether this process was forked from a server that had loaded all it should."""
    return bool(getattr(sys.modules.get(PRELOAD), "LOADED", False))


def run_is_waiting() -> bool:
    """Return, in a worker, whether a run's id has already arrived, so that it does not wait for anything else."""
    return bool(select.select([sys.stdin], [], [], 0)[0])
