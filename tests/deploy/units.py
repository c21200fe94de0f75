"""A supervisor that does to our services what their unit files tell systemd: start, start again after a failure, end
the main process alone.

It reads ExecStart, Environment, Restart, RestartSec, RestartPreventExitStatus, KillMode and TimeoutStopSec, and knows
no others that matter here.
"""

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from engine.home import ROOT

FOLDER = ROOT / "deploy" / "systemd"
CLEAN = {0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE}
"""Ends that systemd takes for no failure."""


def read(name: str) -> dict[str, list[str]]:
    """Return the settings of a unit file's [Service] section, each with all its values."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in (FOLDER / name).read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif section == "Service" and line and not line.startswith("#"):
            setting, _, value = line.partition("=")
            found.setdefault(setting, []).append(value)
    return found


class Service:
    """One service under supervision: a context manager."""

    def __init__(self, name: str, places: Mapping[str, str], environment: Mapping[str, str], log: Path) -> None:
        """`places` says where the paths that the unit file names are here, `environment` what EnvironmentFile would."""
        self.settings = read(name)
        self._log = log
        self._words = [_placed(word, places) for word in shlex.split(self.one("ExecStart"))]
        given = dict(each.split("=", 1) for each in self.settings["Environment"])
        self._environment = {
            **os.environ,
            **{key: _placed(value, places) for key, value in given.items()},
            **environment,
        }
        self._folder = _placed(self.one("WorkingDirectory"), places)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._supervise)
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def one(self, setting: str) -> str:
        """Return a setting's last value, which counts."""
        return self.settings[setting][-1]

    def __enter__(self) -> "Service":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it as `systemctl stop` does: the main process alone, by SIGTERM, then SIGKILL."""
        self._ending.set()
        if self.process:
            self.process.terminate()
        self._thread.join(float(self.one("TimeoutStopSec")))
        if self._thread.is_alive() and self.process:
            self.process.kill()
            self._thread.join()

    def kill(self) -> None:
        """Kill its main process with -9, as it stands."""
        if self.process:
            self.process.kill()

    def said(self) -> str:
        """Return the end of what its processes have printed."""
        return self._log.read_text(errors="replace")[-2_000:]

    def _supervise(self) -> None:
        while not self._ending.is_set():
            with self._log.open("ab") as log:
                self.process = subprocess.Popen(
                    self._words,
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self.starts += 1
            if self._ending.is_set():
                self.process.terminate()
            if not self._comes_back(self.process.wait()):
                return
            self._ending.wait(float(self.one("RestartSec")))

    def _comes_back(self, code: int) -> bool:
        kept_down = {int(each) for each in self.settings.get("RestartPreventExitStatus", [])}
        assert self.one("Restart") == "on-failure", "the one way of starting again that this supervisor knows"
        return code not in CLEAN | kept_down


def _placed(text: str, places: Mapping[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    return text
