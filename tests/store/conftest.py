"""A store of its own for each test, runs at each point of their way, and programs that meet at one start."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from engine.home import ROOT, Home
from engine.store import Demand, Launch, ProcessIdentity, Reader, Store
from tests.waiting import PATIENCE_S

WORKER = ProcessIdentity("boot", 4242, 77)


@pytest.fixture
def reader(home: Home, store: Store) -> Iterator[Reader]:
    with Reader.open(home) as reader:
        yield reader


@pytest.fixture
def add(store: Store) -> Callable[..., int]:
    """Queue a run and return its id."""

    def add(experiment: str = "hogwild", owner: str = "ada", **more: object) -> int:
        return store.runs.add(Launch(experiment, {"trainers": 2}, owner, demand=Demand(2, 0, 2, 1), **more))  # type: ignore[arg-type]

    return add


@pytest.fixture
def running(store: Store, add: Callable[..., int]) -> Callable[..., int]:
    """Bring a run to `running` and return its id."""

    def run(**more: object) -> int:
        run_id = add(**more)
        assert store.claims.claim(run_id, WORKER, ())
        store.worker.begin(run_id, WORKER, {"host": "lab"})
        store.worker.mark_running(run_id, 1.5)
        return run_id

    return run


class Program:
    """A Python program in a process of its own that says `ready`, waits for `go`, and prints."""

    def __init__(self, text: str, *arguments: object) -> None:
        start = (
            "import sys\nfrom pathlib import Path\nfrom engine.home import Home\nfrom engine.store import *\nhome "
            "= Home(Path(sys.argv[1]))\n"
        )
        wait = "def wait():\n    print('ready', flush=True)\n    sys.stdin.readline()\n"
        command = [sys.executable, "-c", start + wait + text, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        """Return the next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it pass its wait."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def rest(self) -> str:
        """Wait for its good end and return what else it printed."""
        out, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, errors
        return out.strip()


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Start programs that are gone when the test ends."""
    with ExitStack() as stack:

        def start(text: str, *arguments: object) -> Program:
            made = Program(text, *arguments)
            stack.enter_context(made.process)
            stack.callback(made.process.kill)
            return made

        yield start
