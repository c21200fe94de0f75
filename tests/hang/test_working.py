"""Whether a quiet rank works: by the time that its threads used or waited for a core."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.hang.rules import Doing
from engine.hang.watch import WatchedRank, busy_s, works
from engine.trace.layout import NOBODY
from engine.trace.ring import TraceMemory
from engine.trace.ring_reader import OpenOperation, TraceReader
from tests.waiting import wait_until

LIMIT_S = 10.0
COMPUTE = Doing.of([OpenOperation(0, "compute", "", NOBODY, 0, 0, 0)])
WAIT = Doing.of([OpenOperation(0, "wait", "requests", NOBODY, 0, 0, 0)])


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1_000))


@pytest.fixture
def this_process() -> WatchedRank:
    rank = WatchedRank(0, "trainer1", os.getpid(), TraceReader(TraceMemory().memory), lambda: False)
    rank.look(100.0, 0.0)
    return rank


def test_a_quiet_rank_works_while_it_is_busy_and_until_the_limit_after_that(this_process: WatchedRank) -> None:
    assert not this_process.state(COMPUTE, 101.0, LIMIT_S).works
    work(0.3)
    assert this_process.state(COMPUTE, 102.0, LIMIT_S).works
    assert this_process.state(COMPUTE, 111.9, LIMIT_S).works
    assert not this_process.state(COMPUTE, 112.1, LIMIT_S).works


def test_threads_that_only_wait_for_a_core_do_not_work() -> None:
    assert works(1.0, 0.25, 0.0) and works(1.0, 0.05, 0.6)
    assert not works(1.0, 0.01, 0.9) and not works(1.0, 0.1, 0.0)


def test_a_rank_that_waits_does_not_work_however_busy_it_is(this_process: WatchedRank) -> None:
    this_process.state(WAIT, 101.0, LIMIT_S)
    work(0.3)
    assert not this_process.state(WAIT, 102.0, LIMIT_S).works


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux")
def test_threads_of_tensorpipe_do_not_count_as_busy() -> None:
    done: list[float] = []

    def poll() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("TP_SHM_reactor")
        before, _ = busy_s(os.getpid())
        work(0.3)
        done.append(busy_s(os.getpid())[0] - before)

    thread = threading.Thread(target=poll)
    thread.start()
    thread.join()
    assert done[0] < 0.2


@pytest.mark.processes
@pytest.mark.skipif(not any(Path("/proc/self/task").glob("*/children")), reason="needs a kernel that lists children")
def test_the_work_of_a_ranks_own_processes_counts_as_its_work() -> None:
    endless = f"{sys.executable} -c 'while True: pass'"
    with subprocess.Popen(["sh", "-c", f"{endless} & read line; kill $!"], stdin=subprocess.PIPE) as shell:
        wait_until(lambda: busy_s(shell.pid)[0] > 0.3, "its child has worked")


def test_a_process_that_has_ended_is_not_busy() -> None:
    assert busy_s(2**22 + 1) == (0.0, 0.0)
