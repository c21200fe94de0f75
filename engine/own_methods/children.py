"""The processes that read the `config.py` of experiments of the lab's own, and answer what follows from settings: one
for each version that was asked about lately. Torch-free.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.errors import MethodFault
from engine.home import ROOT, Home
from engine.own_methods.folders import MethodVersion

LIMIT_S, LOOK_S = 5.0, 0.1
"""Seconds that a child may sleep before it answers, and the interval of looks; it also has 5 s of CPU time."""
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PARALLAB_DATA")
"""Variables of the environment that a child gets."""
MOST_BYTES, MOST_CHILDREN = 400_000, 8


class _Gone(Exception):
    """The process had left before it was asked, as an idle one does."""


class _Child:
    """A process that has imported an experiment's `config.py`: confined, with limits, killed if it doesn't answer."""

    def __init__(self, home: Home, version: MethodVersion) -> None:
        self.name = version.name
        self.lock = threading.Lock()
        self._rest = b""
        self._folder = TemporaryDirectory(prefix="parallab-")
        place = Path(self._folder.name, "experiment")
        version.copy_to(place)
        with suppress(OSError):
            (place / home.catalogue.name).write_bytes(home.catalogue.read_bytes())
        ours = {name: os.environ[name] for name in _KEPT if name in os.environ}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        child = [sys.executable, "-m", "engine.own_methods.child", version.name, str(place)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.system.confinement", str(home.path), str(place), *child],
            cwd=ROOT,
            env=ours | threads | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PARALLAB_HOME": str(place)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def read(self) -> dict[str, Any]:
        """Return its next line; raises MethodFault if none comes in time."""
        assert self._process.stdout
        slept_s, got = 0.0, bytearray(self._rest)
        while b"\n" not in got:
            if not select.select([self._process.stdout], [], [], LOOK_S)[0]:
                slept_s += LOOK_S * self._sleeps()
                if slept_s > LIMIT_S:
                    raise MethodFault(self.name, f"config.py slept for {LIMIT_S:.0f} s. Do slow work in method.py.")
                continue
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            got += more
            if len(got) > MOST_BYTES:
                raise MethodFault(
                    self.name, f"Its card must have at most {MOST_BYTES:,} bytes. Declare less in config.py."
                )
            if not more:
                if not got and self._process.wait() == 0:
                    raise _Gone
                raise MethodFault(self.name, self._end())
        line, _, self._rest = bytes(got).partition(b"\n")
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            raise MethodFault(
                self.name, "config.py printed into what its process answers. Don't print there."
            ) from None
        if why := found.get("fault"):
            raise MethodFault(self.name, f"{str(why)[:800].rstrip('.')}.")
        return found

    def _sleeps(self) -> bool:
        """Return whether it waits for something, other than a core: its limit of processor time can't end that."""
        try:
            return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
        except OSError:  # it has just ended, or this is no Linux
            return True

    def ask(self, question: str) -> dict[str, Any]:
        """Return its answer to a line of JSON; raises MethodFault, and _Gone for an idle one that had left."""
        assert self._process.stdin
        with self.lock:
            try:
                self._process.stdin.write(f"{question}\n".encode())
                self._process.stdin.flush()
            except OSError:
                raise _Gone from None
            return self.read()

    def _end(self) -> str:
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return "config.py closed its output."
        if -code in (signal.SIGXCPU, signal.SIGKILL):
            return "config.py used more than 5 s of CPU time. Do slow work in method.py."
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
        return f"The process that read config.py {how}. Let config.py only declare."

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._folder.cleanup()


_children: dict[MethodVersion, _Child] = {}
_children_lock = threading.Lock()
_starting: defaultdict[MethodVersion, threading.Lock] = defaultdict(threading.Lock)


def read_card(home: Home, version: MethodVersion) -> dict[str, Any]:
    """Return what a child that reads the code of a version prints first: its card. Raises MethodFault."""
    child, told = _started(home, version)
    child.kill()
    return told


def answer(home: Home, version: MethodVersion, question: str) -> dict[str, Any]:
    """Return the answer of the code of a version to a line of JSON (`engine.own_methods.child`). Raises MethodFault."""
    while True:
        child = _living(home, version)
        try:
            return child.ask(question)
        except _Gone:
            _drop(version, child)
        except MethodFault:
            _drop(version, child)
            raise


def _started(home: Home, version: MethodVersion) -> tuple[_Child, dict[str, Any]]:
    child = _Child(home, version)
    try:
        return child, child.read()
    except BaseException:
        child.kill()
        raise


def _living(home: Home, version: MethodVersion) -> _Child:
    with _starting[version]:  # one that starts slowly keeps nobody waiting for another
        if child := _children.get(version):
            return child
        child = _started(home, version)[0]
        with _children_lock:
            _children[version] = child
            idle = [each for each, other in _children.items() if each != version and not other.lock.locked()]
            for each in idle[: max(0, len(_children) - MOST_CHILDREN)]:
                _children.pop(each).kill()
        return child


def _drop(version: MethodVersion, child: _Child) -> None:
    with _children_lock:
        if _children.get(version) is child:
            del _children[version]
    child.kill()
