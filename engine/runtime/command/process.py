"""The processes of a command while they run: which of them are its ranks, and how all of them end. Torch-free.

The worker adopts the orphans among its descendants, so whatever a command starts stays below the worker, in whichever
session it is; if the worker is killed, the runner finds them by the mark in their environment.
"""

import errno
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from engine.errors import RunFailed
from engine.home import GIVEN
from engine.runtime.command.start import PYTHON, Start
from engine.system.confinement import Confinement
from engine.system.processes import adopt_orphans, die_with_parent, variable_of
from engine.system.run_files import TAIL_BYTES, trim

PIDS = "pids"
"""File of the run's folder with the pids of its processes and their ranks, until all they recorded is stored."""
TRIM_S = 0.1
"""Interval in which logs are kept short: a script may print a gigabyte in a second."""
MOST_UNREAD_BYTES = 16 << 20
"""Size of the unread part of a log from which on its middle is dropped unread."""
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK")


def known_pids(folder: Path) -> dict[int, int]:
    """Return the pids of all processes of a command that were ever seen, with their ranks, 0 for none; empty once all
    it recorded is stored.
    """
    with suppress(OSError, ValueError):
        lines = (line.partition(" ") for line in (folder / PIDS).read_text().splitlines())
        return {int(pid): int(rank or 0) for pid, _, rank in lines}
    return {}


def forget_pids(folder: Path) -> None:
    """Remove the pids of a run all of whose points are stored."""
    (folder / PIDS).unlink(missing_ok=True)


@dataclass
class CommandProcess:
    """A command's processes, from its start on. To be used by the thread that starts it."""

    start: Start
    folder: Path
    """The run's folder."""
    log_name: str
    """Name of the log of its first process, without `.log`."""
    confinement: Confinement = field(default_factory=lambda: Confinement("environment"))
    is_read: Callable[[Path, int], bool] = lambda log, offset: True
    """Returns whether a log was read up to an offset: until then its middle is kept, up to a size."""
    ended_at: float | None = field(default=None, init=False)
    """The time (monotonic, s) at which its first process ended."""
    orphans: dict[int, int] = field(default_factory=dict, init=False)
    """Exit codes of adopted processes, by pid."""
    _beside: subprocess.Popen[bytes] | None = field(default=None, init=False)
    live: list[int] = field(default_factory=list, init=False)
    """The processes of the last look."""
    pids: dict[int, int] = field(default_factory=dict, init=False)
    """All processes of it that were ever seen, with their ranks, 0 for none."""
    _ranks: dict[int, tuple[float, int]] = field(default_factory=dict, init=False)
    """Rank of a process, with the time at which it was created, by pid."""

    @property
    def logs(self) -> Path:
        """Folder of its logs."""
        return self.folder / "logs"

    def begin(self) -> None:
        """Start it; raises RunFailed if the system refuses."""
        adopt_orphans()
        parent = os.getpid()

        def confine() -> None:
            self.confinement.enter()
            die_with_parent(parent)

        log = os.open(self.logs / f"{self.log_name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                self.start.argv,
                executable=self.start.program,
                cwd=self.start.folder,
                env=dict(self.start.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # `kill 0` in a script is meant for its own processes
                umask=GIVEN,
                preexec_fn=confine,
            )
        except subprocess.SubprocessError as error:
            raise RunFailed("The command could not be confined, although a test process was. Retry the run.") from error
        except OSError as error:
            raise RunFailed(_refusal(self.start, error)) from error
        finally:
            os.close(log)
        self.pid = self._process.pid
        self._keep({self.pid: 0})
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="command", daemon=True).start()

    def _watch(self) -> None:
        """Note when the first process ends, and keep the logs short until then."""
        descriptor = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        while True:
            if descriptor is None:
                time.sleep(0.01)
                has_ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
            else:
                has_ended = bool(select.select([descriptor], [], [], TRIM_S)[0])
            if has_ended:
                self.ended_at = time.monotonic()
                self._ended.set()
                return
            for path in self.logs.glob("*.log"):
                with suppress(OSError):
                    size = path.stat().st_size
                    if self.is_read(path, size - TAIL_BYTES) or not self.is_read(path, size - MOST_UNREAD_BYTES):
                        trim(path)

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code of the first process, minus the signal that killed it; None if it still runs."""
        return self._process.wait() if self._ended.wait(timeout_s) else None

    def tree(self, *, is_rough: bool = False) -> list[psutil.Process]:
        """Return all its live processes, daemons included; those that have ended are reaped. A rough look is cheaper,
        and may miss one that is just starting or ending.
        """
        found: list[psutil.Process] = []
        others = {self._beside.pid} if self._beside else set()
        every = _descendants(os.getpid()) if is_rough else None
        # Parents come before their children.
        for process in psutil.Process().children(recursive=True) if every is None else every:
            with suppress(psutil.Error):
                parent = process.ppid()
                if process.pid in others or parent in others:
                    others.add(process.pid)
                elif process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
                elif process.pid != self.pid and parent == os.getpid():
                    self._reap(process.pid)
        self.live = [process.pid for process in found]
        self._keep({pid: 0 for pid in sorted(self.live) if pid not in self.pids})
        return found

    def _keep(self, pids: Mapping[int, int]) -> None:
        """Keep pids and ranks for those who look at the run after this process: files name the process that wrote
        them, which may be gone by then.
        """
        if pids:
            self.pids |= pids
            with suppress(OSError), (self.folder / PIDS).open("a") as file:
                file.write("".join(f"{pid} {rank}\n" for pid, rank in pids.items()))

    def _reap(self, pid: int) -> None:
        """Reap an adopted process."""
        with suppress(ChildProcessError):
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                self.orphans[pid] = os.waitstatus_to_exitcode(status)

    def ranks(self, *, is_rough: bool = False) -> dict[int, list[int]]:
        """Return the pids of each rank's process tree, the rank's own first, by rank; empty if none has a rank."""
        found: dict[int, list[int]] = {}
        for process in self.tree(is_rough=is_rough):  # a rank comes before its own children, which have its environment
            with suppress(psutil.Error):
                if (rank := self._rank_of(process)) is not None:
                    found.setdefault(rank, []).append(process.pid)
        return dict(sorted(found.items()))

    def _rank_of(self, process: psutil.Process) -> int | None:
        made = process.create_time()
        if (known := self._ranks.get(process.pid)) and known[0] == made:
            return known[1]
        if process.pid == self.pid:
            return None
        texts = (variable_of(process.pid, name) for name in RANK_VARIABLES if name not in os.environ)
        if not (text := next((text for text in texts if text.isdecimal()), "")):
            return None
        self._ranks[process.pid] = made, int(text)
        self._keep({process.pid: int(text)})
        return int(text)

    def end(self, grace_s: float, kill_s: float = 3.0) -> list[str]:
        """End all its processes: first its first one and its ranks, then the others; return names and pids of those
        that are left, which no signal ends.
        """
        leaders = {self.pid, *(pids[0] for pids in self.ranks().values())}
        _signal([each for each in self.tree() if each.pid in leaders], signal.SIGTERM)
        self._until_gone(grace_s / 2, leaders)
        _signal([each for each in self.tree() if each.pid not in leaders], signal.SIGTERM)
        self._until_gone(grace_s / 2)
        deadline = time.monotonic() + kill_s
        while (left := self.tree()) and time.monotonic() < deadline:
            _signal(left, signal.SIGKILL)
            self._until_gone(0.2)
        return _named(left)

    def end_rest(self) -> tuple[list[str], list[str]]:
        """End what is left after the first process has ended; return names and pids of those that were left, and of
        those that no signal ended.
        """
        if not (left := self.tree()):
            return [], []
        names = _named(left)
        _signal(left, signal.SIGTERM)
        self._until_gone(1.0)
        return names, self.end(0.0, kill_s=3.0) if self.tree() else []

    def _until_gone(self, within_s: float, pids: Collection[int] | None = None) -> None:
        """Wait for some processes to end, by default for all."""
        deadline = time.monotonic() + within_s
        while any(pids is None or each.pid in pids for each in self.tree()) and time.monotonic() < deadline:
            time.sleep(0.02)

    def interpreter(self) -> str:
        """Return the path of the first interpreter of Python among its processes; empty if there is none."""
        for process in self.tree():
            with suppress(psutil.Error, IndexError):
                word = process.cmdline()[0]
                if PYTHON.fullmatch(Path(word).name):
                    if "/" in word:
                        return str(Path(process.cwd()) / word)
                    return shutil.which(word, path=process.environ().get("PATH")) or ""
        return ""

    # ---- A program of ours that runs beside it ---------------------------------------------------------------------

    def look_beside(self, argv: Sequence[str], asked: str) -> None:
        """Start a program that gets `asked` and prints what it finds, as JSON."""
        with suppress(OSError):  # the run goes on without it
            self._beside = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self._beside.stdin
            self._beside.stdin.write(asked.encode())
            self._beside.stdin.close()

    def found_beside(self, within_s: float | None = None) -> dict[str, Any]:
        """Return what that program found, once; empty while it runs. After `within_s` it is killed."""
        program = self._beside
        if program is None or (within_s is None and program.poll() is None):
            return {}
        try:
            program.wait(within_s)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        self._beside = None
        assert program.stdout
        with program.stdout, suppress(ValueError):
            return dict(json.load(program.stdout))
        return {}


def _descendants(pid: int) -> list[psutil.Process] | None:
    """Return the descendants of a process, as the kernel lists them by thread; None where it does not."""
    found: list[psutil.Process] = []
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        return None
    pids = [pid]
    for each in pids:  # grows
        with suppress(OSError, psutil.Error):
            if each != pid:
                found.append(psutil.Process(each))
            for thread in Path(f"/proc/{each}/task").iterdir():
                pids += map(int, (thread / "children").read_text().split())
    return found


def _signal(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def _named(processes: Sequence[psutil.Process]) -> list[str]:
    """Return processes as `sleep (pid 7)`."""
    found = []
    for process in processes:
        try:
            found.append(f"{process.name()} (pid {process.pid})")
        except psutil.Error:
            found.append(f"pid {process.pid}")
    return found


def _refusal(start: Start, error: OSError) -> str:
    """Return why the system did not start a program, with the cure."""
    cure = {
        "ENOEXEC": "Its first line must name its interpreter, such as #!/bin/sh.",
        "ENOENT": "The interpreter that its first line names doesn't exist: reinstall it, or name another interpreter.",
        "EACCES": "Allow the runner's user to execute it.",
        "E2BIG": "Its words are too long: write them into a file that the script reads.",
        "ENOMEM": "Free memory on the machine, and launch the run again.",
        "EAGAIN": "The user has too many processes (ulimit -u): end some, and launch the run again.",
    }.get(errno.errorcode.get(error.errno or 0, ""), "Correct the command, and launch it again.")
    return f"The program {start.program} could not be started: {error.strerror}. {cure}"
