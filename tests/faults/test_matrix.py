"""Each process killed or stopped at each moment of a run: what comes of the run stands in docs/fault-matrix.md, which this writes and is held to.

`PARALLAB_WRITE_DOCS=1 python -m pytest -m "long or not long" tests/faults/test_matrix.py` writes the page anew (`make fault-matrix`).
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.machine import machine
from engine.runtime.processes import identity, is_alive
from engine.runtime.remains import tree
from engine.runtime.running import runner_process
from engine.runtime.segments import SHARED, SHARED_PREFIXES, held
from engine.store import Reader, Store
from engine.store.records import ALIVE, ENDED, ProcessIdentity, Run

PAGE = ROOT / "docs" / "fault-matrix.md"
HEAD = """# Fault matrix

What comes of a run when one of the processes is killed (SIGKILL) or stopped for {hold:g} s (SIGSTOP, then SIGCONT) while the run is queued,
starting, running or stopping. "Goes on" means that the run trains on afterwards and can be cancelled; "starts in its turn" that it leaves the
queue once the machine is free. The console starts a runner that died, and a console that died is started by hand. After each of these nothing
of the run is left: no process, no shared memory.

Where a worker has not ended a few seconds after a cancel it is killed, and the cause says so; that depends on what else the machine does and is left
out here.

This page is written by `make fault-matrix` from what `tests/faults/test_matrix.py` sees (pids are written as N), and held against it.
"""
MOMENTS = ("queued", "starting", "running", "stopping")
ROWS = {
    f"{victim} {done}": (victim, number)
    for number, done in ((signal.SIGKILL, "killed"), (signal.SIGSTOP, "stopped"))
    for victim in ("runner", "worker", "rank", "console")
}
NOBODY = {("worker", "queued"), ("rank", "queued")}
"""A queued run has neither."""
CELLS = [(row, moment) for row, (victim, _) in ROWS.items() for moment in MOMENTS if (victim, moment) not in NOBODY]
SHORT = {("worker killed", "starting"), ("runner killed", "stopping")}
"""Those that every `make test` runs; the others are long."""
HOLD_S = 3.0
TRIES = 8
LATE = re.compile(r" Its worker had not ended [0-9.]+ s later and was killed\.")
GOES_ON, STARTS = "goes on", "starts in its turn"


@dataclass
class Lab:
    """One home with a console, which keeps the runner alive."""

    home: Home
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
        wait(lambda: _answers(port) and runner_process(self.home) is not None, 120)

    def run(self, run_id: int) -> Run:
        with Reader.open(self.home, timeout_s=30) as reader:
            return reader.run(run_id)

    def launch(self) -> int:
        """Queue a run that takes all of the machine and would go on for long."""
        trainers = min(16, machine().cores)
        settings: dict[str, Any] = {"dataset": "synthetic", "trainers": trainers, "epochs": 1000, "device": "cpu", "threads_per_rank": 1}
        return launch(self.home, "hogwild", experiment("hogwild").configure(None, settings), owner="ada", timeout_s=30)

    def cancel(self, run_id: int) -> None:
        with Store.open(self.home) as store:
            store.request_cancel(run_id, by="grace")

    def ranks(self, run_id: int) -> list[int]:
        with Reader.open(self.home, timeout_s=30) as reader:
            return [row.pid for row in reader.ranks(run_id) if row.pid and row.state != "ended" and identity(row.pid)]

    def unended(self) -> list[int]:
        with Reader.open(self.home, timeout_s=30) as reader:
            return [row.id for row in reader.runs(statuses=("queued", *ALIVE))]

    def trains(self, run_id: int) -> bool:
        before = self.run(run_id).progress_done
        wait(lambda: self.run(run_id).progress_done > before or self.run(run_id).status in ENDED, 120)
        return self.run(run_id).status == "running"


@pytest.fixture(autouse=True)
def empty_queue(lab: Lab) -> Iterator[None]:
    """Leave no run to the next test, wherever this one breaks off: it would hold the machine."""
    yield
    with Store.open(lab.home, timeout_s=30) as store:
        for run_id in lab.unended():
            store.request_cancel(run_id, by="the test's end", force=True)
    wait(lambda: not lab.unended(), 120)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Serve a home; afterwards nothing of it may be alive."""
    made = Lab(Home(tmp_path_factory.mktemp("matrix")).create())
    made.start()
    yield made
    runner = runner_process(made.home)
    with Store.open(made.home) as store:
        store.ask_runner_to_stop()
    assert made.process is not None
    made.process.terminate()
    made.process.wait(timeout=30)
    wait(lambda: runner is None or not is_alive(runner), 120)


def wait(true: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain"
        time.sleep(0.03)


def _answers(port: int) -> bool:
    try:
        return bool(httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).json()["store"] == "ok")
    except (httpx.HTTPError, ValueError):
        return False


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("row", "moment"), [pytest.param(*cell, marks=() if cell in SHORT else pytest.mark.long) for cell in CELLS])
def test_a_process_dies_or_stops(lab: Lab, row: str, moment: str) -> None:
    victim, number = ROWS[row]
    shared = _unheld()
    before = lab.launch() if moment == "queued" else None
    run_id, held = _brought_to(lab, moment)
    worker = lab.run(run_id).worker
    process = _victim(lab, run_id, victim, held)
    os.kill(process.pid, number)
    if number == signal.SIGSTOP:
        time.sleep(HOLD_S)
        if is_alive(process):
            os.kill(process.pid, signal.SIGCONT)
    _recover(lab, victim, number)
    if held:
        _go_on(held)
    if before is not None:
        assert lab.run(run_id).status == "queued"
        lab.cancel(before)
    expected = _expected(victim, number, moment)
    lab.seen[row, moment] = _outcome(lab, run_id, expected)
    ended = lab.run(run_id)
    assert ended.status in ENDED
    worker = ended.worker or worker
    wait(lambda: worker is None or tree(worker) == [], 120)
    wait(lambda: _unheld() <= shared, 120)  # other programs of this machine may share memory for a moment
    assert lab.seen[row, moment].partition(":")[0] == expected, lab.seen[row, moment]
    if os.environ.get("PARALLAB_WRITE_DOCS"):
        PAGE.write_text(page((written() if PAGE.exists() else {}) | lab.seen))


def _expected(victim: str, number: int, moment: str) -> str:
    """Return what may come of it: a kill of what carries out the run ends it, a stop only delays it, a cancel is always carried out."""
    if moment == "stopping":
        return "cancelled"
    if moment == "queued":
        return STARTS
    return {("worker", signal.SIGKILL): "lost", ("rank", signal.SIGKILL): "failed"}.get((victim, signal.Signals(number)), GOES_ON)


def _brought_to(lab: Lab, moment: str) -> tuple[int, int | None]:
    """Launch a run and bring it to the moment; one that went past it before its rank could be held is cancelled, and another one launched."""
    for _ in range(TRIES):
        run_id = lab.launch()
        held = _bring_to(lab, run_id, moment)
        if lab.run(run_id).status == moment:
            return run_id, held
        if held:
            _go_on(held)
        lab.cancel(run_id)
        wait(lambda run_id=run_id: lab.run(run_id).status in ENDED, 120)  # type: ignore[misc]
    raise AssertionError(f"no run of {TRIES} could be held while it was {moment}")


def _bring_to(lab: Lab, run_id: int, moment: str) -> int | None:
    """Bring the run to the moment; return the rank that is held (SIGSTOP) so that the moment lasts."""
    if moment == "queued":
        wait(lambda: any(_is(lab, each, ALIVE) for each in (run_id - 1,)), 120)
        return None
    if moment == "running":
        wait(lambda: lab.run(run_id).progress_done > 0, 120)
        return None
    if moment == "stopping":
        wait(lambda: lab.run(run_id).progress_done > 0, 120)
    wait(lambda: bool(lab.ranks(run_id)), 120)
    held = lab.ranks(run_id)[0]
    os.kill(held, signal.SIGSTOP)
    if moment == "stopping":
        lab.cancel(run_id)
    return held


def _go_on(held: int) -> None:
    with suppress(ProcessLookupError):  # it died with its worker
        os.kill(held, signal.SIGCONT)


def _is(lab: Lab, run_id: int, statuses: tuple[str, ...]) -> bool:
    return lab.run(run_id).status in statuses


def _victim(lab: Lab, run_id: int, victim: str, held: int | None) -> ProcessIdentity:
    known: ProcessIdentity | None
    if victim == "runner":
        known = runner_process(lab.home)
    elif victim == "worker":
        known = lab.run(run_id).worker
    elif victim == "console":
        assert lab.process is not None
        known = identity(lab.process.pid)
    else:
        known = identity(next(pid for pid in lab.ranks(run_id) if pid != held))
    assert known is not None
    return known


def _recover(lab: Lab, victim: str, number: int) -> None:
    """Start the console again where it was killed; wait for the runner that it starts."""
    if victim == "console" and number == signal.SIGKILL:
        assert lab.process is not None
        lab.process.wait()
        lab.start()
    wait(lambda: runner_process(lab.home) is not None, 120)


def _outcome(lab: Lab, run_id: int, expected: str) -> str:
    """Return what comes of the run in words; one that goes on is cancelled afterwards."""
    if expected in (GOES_ON, STARTS):
        wait(lambda: lab.run(run_id).status in ("running", *ENDED), 120)
    if expected in (GOES_ON, STARTS) and lab.run(run_id).status == "running" and lab.trains(run_id):
        lab.cancel(run_id)
        wait(lambda: lab.run(run_id).status in ENDED, 120)
        assert lab.run(run_id).cause == "Cancelled by grace."
        return expected
    wait(lambda: lab.run(run_id).status in ENDED, 120)
    run = lab.run(run_id)
    cause = re.sub(r"(trainer|rank |pid )[0-9]+", r"\1N", LATE.sub("", run.cause))
    return f"{run.status}: {cause}"


def _unheld() -> set[str]:
    """Return the segments of shared memory that no process of this machine has mapped or open."""
    there = {path for path in SHARED.iterdir() if path.name.startswith(SHARED_PREFIXES)}
    return {path.name for path in there - held()}


# ---- the page ------------------------------------------------------------------------------------------------------


def page(seen: dict[tuple[str, str], str]) -> str:
    """Return the text of docs/fault-matrix.md."""
    lines = [f"| what | {' | '.join(MOMENTS)} |", f"|---|{'---|' * len(MOMENTS)}"]
    lines += [f"| {row} | {' | '.join(seen.get((row, moment), '–') for moment in MOMENTS)} |" for row in ROWS]
    return "\n".join([HEAD.format(hold=HOLD_S), *lines, ""])


def written(path: Path = PAGE) -> dict[tuple[str, str], str]:
    """Return the cells of the page as it stands."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in path.read_text().splitlines() if line.startswith("| ")]
    return {(row[0], moment): cell for row in rows[1:] for moment, cell in zip(MOMENTS, row[1:], strict=True) if cell != "–"}


def test_the_page_says_what_was_seen(lab: Lab) -> None:
    known = written()
    assert {cell: known.get(cell) for cell in lab.seen} == lab.seen


def test_the_page_has_every_cell() -> None:
    assert PAGE.read_text() == page(written())
    assert set(written()) == set(CELLS)
