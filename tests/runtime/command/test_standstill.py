"""The hang doctor of a command names the ranks that show no sign of life, and only those."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.hang.watch import process_state
from engine.runtime.command.standstill import StandstillWatch, place_of
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


@dataclass
class Rank:
    rank: int
    role: str
    pid: int
    last_step: int | None = None
    cpu_percent: float | None = 0.0


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[Rank]]:
    (tmp_path / "logs").mkdir()
    started = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) for _ in range(2)]
    yield [Rank(number, f"rank {number}", process.pid) for number, process in enumerate(started)]
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def watch(tmp_path: Path, clock: list[float]) -> StandstillWatch:
    return StandstillWatch(tmp_path, 60.0, lambda: clock[0])


def verdict_after(watch: StandstillWatch, ranks: list[Rank], clock: list[float], seconds: int) -> tuple[str, str, str]:
    """Look each second for so long, and return the last verdict."""
    for _ in range(seconds):
        watch.look(ranks)
        clock[0] += 1
    found = watch.look(ranks)
    return found.state, found.rank, found.sentence


def test_output_steps_and_cpu_time_are_signs_of_life(
    watch: StandstillWatch, ranks: list[Rank], clock: list[float], tmp_path: Path
) -> None:
    assert verdict_after(watch, ranks, clock, 59) == ("RUNNING", "", "")
    (tmp_path / "logs" / "rank 0.log").write_text("epoch 2")
    ranks[1].last_step = 7
    assert verdict_after(watch, ranks, clock, 59) == ("RUNNING", "", "")
    ranks[0].cpu_percent = ranks[1].cpu_percent = 50.0
    assert verdict_after(watch, ranks, clock, 90) == ("RUNNING", "", "")
    ranks[0].cpu_percent = ranks[1].cpu_percent = 1.0  # a light script, or a full machine
    assert verdict_after(watch, ranks, clock, 150) == ("RUNNING", "", "")
    ranks[0].cpu_percent, ranks[0].last_step = 0.4, 1  # the idle threads of a process
    state, rank, sentence = verdict_after(watch, ranks, clock, 61)
    assert (state, rank) == ("STALLED", "rank 0")
    assert sentence.startswith("Rank 0 printed nothing, recorded nothing and used no CPU time for 6")
    ranks[1].cpu_percent = 0.0
    assert verdict_after(watch, ranks, clock, 61)[:2] == ("HUNG", "")
    ranks[0].last_step = 8
    assert verdict_after(watch, ranks, clock, 1)[:2] == ("STALLED", "rank 1")


def test_a_stopped_rank_is_named_with_its_state(watch: StandstillWatch, ranks: list[Rank], clock: list[float]) -> None:
    os.kill(ranks[1].pid, signal.SIGSTOP)
    wait_until(lambda: process_state(ranks[1].pid) == "stopped", "the rank is stopped")
    state, rank, sentence = verdict_after(watch, ranks, clock, 61)
    assert (state, rank) == ("HUNG", "rank 1")
    assert sentence.endswith("s: it is stopped (SIGSTOP).")


def test_time_in_which_the_watch_itself_was_stopped_does_not_count(
    watch: StandstillWatch, ranks: list[Rank], clock: list[float]
) -> None:
    verdict_after(watch, ranks, clock, 50)
    clock[0] += 500
    assert verdict_after(watch, ranks, clock, 50)[0] == "RUNNING"


def test_the_place_of_a_rank_is_its_own_innermost_frame() -> None:
    dumped = (
        'Process 7: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread 7 (idle): "MainThread"\n'
        "    wait (threading.py:327)\n    all_reduce (torch/distributed/distributed_c10d.py:2501)\n"
        '    average (train.py:31)\n    <module> (train.py:40)\nThread 9 (idle): "other"\n    run (load.py:1)\n'
    )
    assert place_of(dumped) == "average(), train.py:31"
    assert place_of("") == ""
