"""Each process killed or stopped at each moment of a run: what comes of the run stands in docs/fault-matrix.md, which
this writes and is held to.

`PARALLAB_WRITE_DOCS=1 python -m pytest -m "long or not long" tests/faults/test_matrix.py` writes the page anew (`make
fault-matrix`).
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from engine.home import ROOT, Home
from engine.store.records import ALIVE, ENDED, ProcessIdentity
from engine.system.machine import machine
from engine.system.processes import identity, is_alive
from engine.system.runner_process import runner_process
from tests.faults.lab import Lab, go_on
from tests.waiting import PATIENCE_S, wait_until

PAGE = ROOT / "docs" / "fault-matrix.md"
HEAD = """# Fault matrix

This page shows the outcome of a run when one of its processes is killed (SIGKILL) or stopped for {hold:g} s (SIGSTOP, then SIGCONT) while the run is
queued, starting, running or stopping.

- "continues": the run keeps training and can be cancelled.
- "starts later": the run leaves the queue when the machine is free.

The console restarts a killed runner; a killed console is restarted by hand. In every case nothing of the run remains: no process, no shared memory.

A worker that has not ended a few seconds after a cancel is killed, and the cause states that. This depends on the machine's load and is omitted here.

`make fault-matrix` writes this page from the observations of `tests/faults/test_matrix.py` (pids are written as N); a test compares them.
"""  # noqa: E501
MOMENTS = ("queued", "starting", "running", "stopping")
ROWS = {
    f"{victim} {done}": (victim, number)
    for number, done in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped"))
    for victim in ("runner", "worker", "rank", "console")
}
NOBODY = {("worker", "queued"), ("rank", "queued")}
"""A queued run has neither."""
CELLS = [(row, moment) for row, (victim, _) in ROWS.items() for moment in MOMENTS if (victim, moment) not in NOBODY]
HOLD_S = 3.0
TRIES = 8
LATE = re.compile(r" Its processes were killed: they had not ended within [0-9.]+ s\.")
GOES_ON, STARTS = "continues", "starts later"


@dataclass
class Supervised(Lab):
    """A home with a console, which keeps the runner alive."""

    process: subprocess.Popen[bytes] | None = None
    seen: dict[tuple[str, str], str] = field(default_factory=dict)

    def start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with (self.home.path / "console.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app/asgi.py", "--server.port", str(port)],
                cwd=ROOT,
                env=os.environ | {"PARALLAB_HOME": str(self.home.path)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(
            lambda: _answers(port) and runner_process(self.home) is not None, "the console answers and a runner serves"
        )

    def fill(self) -> int:
        """Queue a run that takes all of the machine and would go on for long."""
        settings = {
            "dataset": "synthetic",
            "trainers": min(16, machine().cores),
            "epochs": 1000,
            "device": "cpu",
            "threads_per_rank": 1,
        }
        return self.launch("hogwild", settings, oversubscribe=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervised]:
    """Serve a home; afterwards nothing of it may be alive."""
    made = Supervised(Home(tmp_path_factory.mktemp("matrix")).create())
    made.start()
    yield made
    assert made.process is not None
    made.process.terminate()
    made.process.wait(timeout=PATIENCE_S)
    made.close()


@pytest.fixture
def lab(served: Supervised) -> Iterator[Supervised]:
    """Leave no run to the next test, wherever this one breaks off: it would hold the machine."""
    yield served
    served.cancel_all()


def _answers(port: int) -> bool:
    try:
        return bool(httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).json()["store"] == "ok")
    except (httpx.HTTPError, ValueError):
        return False


@pytest.mark.long
@pytest.mark.parametrize(("row", "moment"), CELLS)
def test_a_process_dies_or_stops(lab: Supervised, row: str, moment: str) -> None:
    victim, number = ROWS[row]
    before = lab.fill() if moment == "queued" else None
    run_id, held = _brought_to(lab, moment)
    if lab.run(run_id).worker:
        lab.note(run_id)
    process = _victim(lab, run_id, victim, held)
    os.kill(process.pid, number)
    if number == signal.SIGSTOP:
        time.sleep(HOLD_S)
        if is_alive(process):
            os.kill(process.pid, signal.SIGCONT)
    _recover(lab, victim, number)
    if held:
        go_on(held)
    if before is not None:
        assert lab.run(run_id).status == "queued"
        lab.cancel(before)
    expected = _expected(victim, number, moment)
    lab.seen[row, moment] = _outcome(lab, run_id, expected)
    lab.ended(run_id)
    assert lab.seen[row, moment].partition(":")[0] == expected, lab.seen[row, moment]
    if os.environ.get("PARALLAB_WRITE_DOCS"):
        PAGE.write_text(page((written() if PAGE.exists() else {}) | lab.seen))


def _expected(victim: str, number: int, moment: str) -> str:
    """Return what may come of it: a kill of what carries out the run ends it, a stop only delays it, a cancel is always
    carried out.
    """
    if moment == "stopping":
        return "cancelled"
    if moment == "queued":
        return STARTS
    return {("worker", signal.SIGKILL): "lost", ("rank", signal.SIGKILL): "failed"}.get(
        (victim, signal.Signals(number)), GOES_ON
    )


def _brought_to(lab: Supervised, moment: str) -> tuple[int, int | None]:
    """Launch a run and bring it to the moment; one that went past it before its rank could be held is cancelled, and
    another one launched.
    """
    for _ in range(TRIES):
        run_id = lab.fill()
        held = _bring_to(lab, run_id, moment)
        if lab.run(run_id).status == moment:
            return run_id, held
        if held:
            go_on(held)
        lab.cancel(run_id)
        lab.ended(run_id)
    raise AssertionError(f"no run of {TRIES} could be held while it was {moment}")


def _bring_to(lab: Supervised, run_id: int, moment: str) -> int | None:
    """Bring the run to the moment; return the rank that is held (SIGSTOP) so that the moment lasts."""
    if moment == "queued":
        wait_until(lambda: lab.run(run_id - 1).status in ALIVE, "the run before it holds the machine")
        return None
    if moment in ("running", "stopping"):
        lab.until_training(run_id)
    if moment == "running":
        return None
    held = lab.hold(run_id)
    if moment == "stopping":
        lab.cancel(run_id)
    return held


def _victim(lab: Supervised, run_id: int, victim: str, held: int | None) -> ProcessIdentity:
    known: ProcessIdentity | None
    if victim == "runner":
        known = runner_process(lab.home)
    elif victim == "worker":
        known = lab.run(run_id).worker
    elif victim == "console":
        assert lab.process is not None
        known = identity(lab.process.pid)
    else:
        known = identity(next(pid for pid in lab.ranks(run_id).values() if pid != held and identity(pid)))
    assert known is not None
    return known


def _recover(lab: Supervised, victim: str, number: int) -> None:
    """Start the console again where it was killed; wait for the runner that it starts."""
    if victim == "console" and number == signal.SIGKILL:
        assert lab.process is not None
        lab.process.wait()
        lab.start()
    wait_until(lambda: runner_process(lab.home) is not None, "a runner serves the home")


def _outcome(lab: Supervised, run_id: int, expected: str) -> str:
    """Return what comes of the run in words; one that goes on is cancelled afterwards."""
    if expected in (GOES_ON, STARTS):
        wait_until(lambda: lab.run(run_id).status in ("running", *ENDED), f"run {run_id} runs")
    if expected in (GOES_ON, STARTS) and lab.run(run_id).status == "running" and lab.goes_on(run_id):
        lab.note(run_id)
        lab.cancel(run_id)
        assert LATE.sub("", lab.ended(run_id).cause) == "Cancelled by grace."
        return expected
    run = lab.ended(run_id)
    cause = re.sub(r"(trainer|rank |pid )[0-9]+", r"\1N", LATE.sub("", run.cause))
    return f"{run.status}: {cause}"


# ---- the page ------------------------------------------------------------------------------------------------------


def page(seen: dict[tuple[str, str], str]) -> str:
    """Return the text of docs/fault-matrix.md."""
    lines = [f"| Event | {' | '.join(MOMENTS)} |", f"|---|{'---|' * len(MOMENTS)}"]
    lines += [f"| {row} | {' | '.join(seen.get((row, moment), '–') for moment in MOMENTS)} |" for row in ROWS]
    return "\n".join([HEAD.format(hold=HOLD_S), *lines, ""])


def written(path: Path = PAGE) -> dict[tuple[str, str], str]:
    """Return the cells of the page as it stands."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in path.read_text().splitlines()
        if line.startswith("| ")
    ]
    return {
        (row[0], moment): cell for row in rows[1:] for moment, cell in zip(MOMENTS, row[1:], strict=True) if cell != "–"
    }


@pytest.mark.long
def test_the_page_says_what_was_seen(lab: Supervised) -> None:
    known = written()
    assert {cell: known.get(cell) for cell in lab.seen} == lab.seen


def test_the_page_has_every_cell() -> None:
    assert PAGE.read_text() == page(written())
    assert set(written()) == set(CELLS)
