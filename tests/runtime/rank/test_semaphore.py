"""Bells: no ring is lost, none is heard twice, by threads and by processes."""

import threading
import time
from pathlib import Path

import pytest
import torch

from engine.runtime.rank.rank import Semaphore
from tests import semaphore_functions as functions
from tests.doubles import MemorySink, process_ranks
from tests.waiting import PATIENCE_S, wait_until


def test_rings_are_counted_and_silence_has_an_end() -> None:
    bell = Semaphore()
    bell.release(3)
    assert [bell.acquire(0.0) for _ in range(4)] == [True, True, True, False]
    began = time.monotonic()
    assert not bell.acquire(0.2)
    assert time.monotonic() - began > 0.15


def test_a_ring_wakes_one_of_many_threads() -> None:
    bell, woken = Semaphore(), list[bool]()
    threads = [threading.Thread(target=lambda: woken.append(bell.acquire(PATIENCE_S))) for _ in range(8)]
    for thread in threads:
        thread.start()
    bell.release(5)
    wait_until(lambda: len(woken) >= 5)
    time.sleep(0.3)
    assert woken == [True] * 5
    bell.release(3)
    for thread in threads:
        thread.join()
    assert woken == [True] * 8 and not bell.acquire(0.0)


@pytest.mark.processes
def test_processes_hear_every_ring_once(tmp_path: Path) -> None:
    heard = torch.zeros(4, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
    ranks = process_ranks(tuple("abcd"), ("cpu",) * 4, 1, 0, tmp_path, MemorySink())
    bell = Semaphore()
    ranks.run(functions.ring_and_hear, bell, Semaphore(), heard, 3000)
    assert heard.tolist()[0] == 0
    assert int(heard.sum()) == 3000 and not bell.acquire(0.0)
