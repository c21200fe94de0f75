"""Process identity, liveness, death signals, and termination of processes and sessions; the limit on open
files. Torch-free.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from engine.home import Home
from engine.store.records import ProcessIdentity

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
ENOUGH_FILES = 65_536
"""Limit on open files to request if the machine has no maximum."""
MARK = "PARALLAB_WORKER"
"""Environment variable that identifies a worker's processes outside its session."""


@cache
def boot_id() -> str:
    """Return the id of this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(int(psutil.boot_time()))


def pid_namespace(pid: int | None = None) -> int | None:
    """Return the id of a process's PID namespace (default: this process's); None if unknown."""
    try:
        return Path(f"/proc/{pid or 'self'}/ns/pid").stat().st_ino
    except OSError:
        return None


def is_foreign(process: ProcessIdentity) -> bool:
    """Return whether a process of this boot was recorded in another PID namespace. Its pid is meaningless here; use
    `liveness_lock.lives`.

    A missing namespace counts as this process's.
    """
    return process.pid_namespace not in (None, pid_namespace()) and process.boot_id == boot_id()


def identity(pid: int | None = None) -> ProcessIdentity | None:
    """Return the identity of a live process (default: this one), None if it is gone or a zombie."""
    pid = pid or os.getpid()
    ticks = _start_ticks(pid)
    return None if ticks is None else ProcessIdentity(boot_id(), pid, ticks, pid_namespace())


def me() -> ProcessIdentity:
    """Return the identity of this process."""
    found = identity()
    assert found is not None
    return found


def is_alive(process: ProcessIdentity) -> bool:
    """Return whether exactly that process runs and is visible here: after a reboot, for a reused pid, a zombie or
    another PID namespace, False.
    """
    return (
        not is_foreign(process) and process.boot_id == boot_id() and _start_ticks(process.pid) == process.started_ticks
    )


def mark(worker: ProcessIdentity) -> str:
    """Return the value of `MARK` for all processes that the worker starts."""
    return f"{worker.boot_id}/{worker.pid}/{worker.started_ticks}"


def mark_of(pid: int) -> str:
    """Return a process's mark; empty without one, or for another user's process."""
    return variable_of(pid, MARK)


def is_of_other_home(pid: int, home: Path) -> bool:
    """Return whether a process works for another home with a store: a copy of a home records its original's processes.

    Unknown, as for another user's process, counts as no.
    """
    named = variable_of(pid, "PARALLAB_HOME")
    try:
        return bool(named) and Home(Path(named)).database.exists() and not home.samefile(named)
    except OSError:
        return False


def variable_of(pid: int, name: str) -> str:
    """Return a variable of the environment that a process began with; empty without it."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{name}=".encode()
    return next((word[len(start) :].decode(errors="replace") for word in words if word.startswith(start)), "")


def uptime_s() -> float:
    """Return the seconds since the machine started, including sleep; independent of clock changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def age_s(process: ProcessIdentity) -> float:
    """Return the seconds since a process started; on Linux independent of clock changes."""
    if not sys.platform.startswith("linux"):
        return time.time() - process.started_ticks / 100
    return uptime_s() - process.started_ticks / os.sysconf("SC_CLK_TCK")


def _start_ticks(pid: int) -> int | None:
    """Return a live process's start in clock ticks since boot, independent of clock changes."""
    if not sys.platform.startswith("linux"):
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else int(process.create_time() * 100)
        except psutil.Error:
            return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def die_with_parent(parent_pid: int | None = None) -> None:
    """Have the kernel send this process SIGKILL when its parent ends; exit at once if `parent_pid` is already gone.

    Linux only; elsewhere a rank notices its closed channel.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of all orphans among this process's descendants, whatever session they are in. Linux only."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def session_members(leader: ProcessIdentity) -> list[int]:
    """Return the pids of the session of `leader`, whatever their parents are now.

    Empty after a reboot, and if another process has that pid: the kernel doesn't reuse the id of an existing session.
    """
    now = identity(leader.pid)
    if leader.boot_id != boot_id() or is_foreign(leader) or (now is not None and now != leader):
        return []
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == leader.pid and _start_ticks(pid) is not None:
                found.append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def end_session(leader: ProcessIdentity, grace_s: float = 3.0, kill_s: float = 5.0) -> list[int]:
    """End every process of a session: terminate, wait `grace_s`, kill, wait `kill_s`; return the remaining pids."""
    end_processes(session_members(leader), grace_s, kill_s)
    deadline = time.monotonic() + kill_s
    while (left := session_members(leader)) and time.monotonic() < deadline:  # processes forked meanwhile
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    return left


def end_processes(pids: Sequence[int], grace_s: float = 3.0, kill_s: float = 5.0) -> list[int]:
    """End these processes (terminate, then kill); return the pids that survived both deadlines."""
    _signal(pids, signal.SIGTERM)
    left = _wait(pids, grace_s)
    _signal(left, signal.SIGKILL)
    return _wait(left, kill_s)


def end_these(processes: Iterable[ProcessIdentity], grace_s: float = 3.0, kill_s: float = 5.0) -> list[ProcessIdentity]:
    """End exactly these processes (terminate, then kill), ignoring reused pids; return the remaining ones."""
    left = list(processes)
    for number, within_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        deadline = time.monotonic() + within_s
        for process in left:
            _signal_this(process, number)
        while (left := [process for process in left if is_alive(process)]) and time.monotonic() < deadline:
            time.sleep(0.01)
    return left


def _signal_this(process: ProcessIdentity, number: int) -> None:
    """Signal exactly that process; pidfds, if available, prevent a race with a reused pid."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        if is_alive(process):
            _signal([process.pid], number)
        return
    try:
        if is_alive(process):
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        os.close(descriptor)


def _wait(pids: Iterable[int], timeout_s: float) -> list[int]:
    deadline = time.monotonic() + timeout_s
    left = [pid for pid in pids if _start_ticks(pid) is not None]
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [pid for pid in left if _start_ticks(pid) is not None]
    return left


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def describe_exit(code: int) -> str:
    """Describe how a process ended: `was killed by signal 9 (SIGKILL)` or `exited with code 1`."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = "; the kernel does so when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by signal {-code} ({name}{hint})"


def raise_open_files() -> int:
    """Raise this process's limit on open files to its maximum, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS reports a maximum that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
