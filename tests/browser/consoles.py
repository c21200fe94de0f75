"""Real consoles on free ports: of an empty home, of a lab with something on every page, and of one whose people have
accounts.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import httpx

from app.core.console_address import PORT
from engine.home import ROOT, Home
from engine.store import Store
from tests.labs import basic, compare, duel, figures, museum, people, small
from tests.waiting import PATIENCE_S, wait_until

PORTS = range(20_000, 32_000)
"""Below those that the kernel gives out by itself: nothing takes one between the look and the use, or while its console
is down.
"""
PERSON = "<img src=//evil.example onerror=hurt()>"
NAME = (
    "<script>window.hurt=1</script><img src='//evil.example/a.png' onerror='window.hurt=1'> "
    "![b](//evil.example/b.png) [c](javascript:hurt()) $x^2$ :red[d]"
)
TAG = "<svg onload='window.hurt=1'>=1+1"


class Console:
    """The console of one home, started as a person starts it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.settings: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.home.path / "console.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app/asgi.py", "--server.port", str(self.port)],
                cwd=ROOT,
                env=os.environ
                | {"PARALLAB_HOME": str(self.home.path), PORT: str(self.port), "PYTHONFAULTHANDLER": "1"}
                | self.settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._answers, "the console answers")

    def stop(self) -> None:
        """End the server as Ctrl-C does, and wait for it; one that doesn't end leaves its stacks in console.log."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGABRT)
                raise
            self._process = None

    def kill(self) -> None:
        """End the server as a crash does; `start` serves on the same port again."""
        if self._process:
            self._process.kill()
            self._process.wait(timeout=PATIENCE_S)
            self._process = None

    def health(self) -> dict[str, str]:
        """Return what /healthz says."""
        found: dict[str, str] = httpx.get(f"{self.address}/healthz", timeout=PATIENCE_S).json()
        return found

    def _answers(self) -> bool:
        try:
            return self.health()["store"] == "ok"
        except (httpx.HTTPError, ValueError):
            return False


class Lab(Console):
    """A console that starts no runner, of a home with something on every page: what is launched goes on where a test
    writes on.
    """

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        small.without_a_runner(home)
        figures.pipeline(home, lambda splits: splits / 10)
        self.compared = compare.fill(home)
        self.small = _fill(home)
        with Store.open(home) as store:
            basic.keep(store, self.small.stale, "loss.csv", b"step,loss\n1,0.5\n")
        ids = basic.fill(home)
        self.running, self.queued = ids["running"], ids["queued"]


class Members(Console):
    """A console that starts no runner, of a lab with accounts, each member with runs.

    On every page of it is something of a person, and under a name, that would do harm if they were not text.
    """

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        small.without_a_runner(home)
        self.small = _fill(home)
        with Store.open(home) as store:
            self.running, _ = basic.add(store, "ada"), basic.add(store, "ada")
            basic.drive(store, home, self.running, "running")
            store.annotations.tag([row["id"] for row in store.db.rows("SELECT id FROM runs")], TAG, by=people.SETUP)
            store.annotations.set_note(self.running, f"{NAME}\n\n# {NAME}", by=people.SETUP)
            with store.db.change() as connection:
                for table in ("runs", "sweeps", "duels", "views"):
                    connection.execute(f"UPDATE {table} SET owner = ?, name = ?", [PERSON, NAME])
                connection.execute("UPDATE events SET who = ?", [PERSON])
                connection.execute("UPDATE runs SET pinned_by = ? WHERE pinned_by IS NOT NULL", [PERSON])
        self.people = people.fill(home, passwords=True)
        with Store.open(home) as store:
            store.people.add(PERSON, "member", by=people.SETUP)
            for owner in (PERSON, "ada"):
                store.tokens.make(owner, NAME[:60], "read", by=people.SETUP)


def _fill(home: Home) -> small.Lab:
    duel.whole(home)
    museum.visited(home, "aliased_weights", ["aliased_weights"])
    return small.fill(home)


def free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
