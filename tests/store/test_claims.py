"""The queue: first in, first out, each run to one worker, and an end that is the last word."""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import WrongStatus
from engine.home import Home
from engine.store import ENDED, ProcessIdentity, RankRow, Reader, Status, Store

WORKER = ProcessIdentity("boot", 4242, 77)
RACER = """
mine, me = [], ProcessIdentity("boot", int(sys.argv[2]), 1)
with Store.open(home) as store:
    wait()
    while (head := store.next_queued()) is not None:
        if store.claim(head.id, me, [0]):
            mine.append(head.id)
print(*mine)
"""


def test_the_head_of_the_queue_is_the_oldest(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, second, third = add(), add(), add()
    assert store.claim(second, WORKER, ())
    head = store.next_queued()
    assert head is not None
    assert head.id == first
    assert [reader.queue_position(run_id) for run_id in (first, third)] == [0, 1]


def test_a_claim_gives_a_queued_run_to_one_worker_once(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    assert store.claim(run_id, WORKER, [1, 0])
    assert not store.claim(run_id, replace(WORKER, pid=1), [])
    run = reader.run(run_id)
    assert (run.status, run.worker, run.gpus, run.starts, run.begun_at) == ("starting", WORKER, (1, 0), 1, None)
    assert [found.id for found in store.alive()] == [run_id]
    assert store.next_queued() is None


def test_eight_processes_claim_each_of_200_runs_exactly_once(home: Home, add: Callable[..., int], reader: Reader, program: Callable[..., Any]) -> None:
    runs = [add() for _ in range(200)]
    racers = {pid: program(RACER, home.path, pid) for pid in range(1, 9)}
    assert [racer.line() for racer in racers.values()] == ["ready"] * 8
    for racer in racers.values():
        racer.go()
    claimed = {pid: list(map(int, racer.rest().split())) for pid, racer in racers.items()}
    assert sorted(run_id for mine in claimed.values() for run_id in mine) == runs
    assert all(reader.run(run_id).worker == ProcessIdentity("boot", pid, 1) for pid, mine in claimed.items() for run_id in mine)
    assert Counter(event.kind for run_id in runs for event in reader.events(run_id)) == {"queued": 200, "starting": 200}


def test_a_run_that_its_worker_never_began_goes_back_to_the_head(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, _ = add(), add()
    store.claim(first, WORKER, [0])
    assert store.requeue(first, "The worker is gone.")
    run = reader.run(first)
    assert (run.status, run.worker, run.gpus, run.claimed_at, run.starts) == ("queued", None, (), None, 1)
    head = store.next_queued()
    assert head is not None
    assert head.id == first
    assert not store.requeue(first, "again")


def test_a_begun_run_is_never_queued_again(store: Store, add: Callable[..., int]) -> None:
    run_id = add()
    store.claim(run_id, WORKER, ())
    store.begin(run_id, WORKER, {})
    assert not store.requeue(run_id, "no")


@pytest.mark.parametrize("status", ENDED)
def test_an_end_is_the_last_word(store: Store, reader: Reader, running: Callable[..., int], status: Status) -> None:
    run_id = running()
    assert store.end(run_id, status, "A cause.", error="Traceback", execution_time_s=2.5, who="worker")
    ended, events = reader.run(run_id), reader.events(run_id)
    assert (ended.status, ended.cause, ended.error, ended.execution_time_s) == (status, "A cause.", "Traceback", 2.5)
    assert (events[-1].kind, events[-1].who, events[-1].detail) == (status, "worker", "A cause.")
    for other in ENDED:
        assert not store.end(run_id, other, "Another cause.")
    store.mark_running(run_id, 1.0)
    assert not store.claim(run_id, WORKER, ())
    assert not store.requeue(run_id, "no")
    assert (reader.run(run_id), reader.events(run_id)) == (ended, events)
    with pytest.raises(sqlite3.IntegrityError, match="never changes its status"), store.change() as connection:
        connection.execute("UPDATE runs SET status = 'running' WHERE id = ?", [run_id])


def test_a_run_ends_only_as_an_end(store: Store, running: Callable[..., int]) -> None:
    with pytest.raises(ValueError, match="got 'running'"):
        store.end(running(), "running", "")


def test_a_queued_run_is_refused_not_ended(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    assert not store.end(run_id, "lost", "x")
    assert store.refuse(run_id, "It asks for 9 GPUs, the machine has none.")
    assert reader.run(run_id).status == "failed"
    assert not store.refuse(run_id, "again")


def test_ranks_that_were_open_are_marked_when_the_run_ends(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id = running()
    states = ("starting", "ready", "running", "done", "failed", "ended")
    store.add_ranks(run_id, [RankRow(rank, f"trainer{rank + 1}", rank, "cpu", state, None, None, None) for rank, state in enumerate(states)])
    store.end(run_id, "lost", "The worker is gone.")
    assert [row.state for row in reader.ranks(run_id)] == ["ended", "ended", "ended", "done", "failed", "ended"]


def test_only_the_worker_it_was_claimed_for_begins_a_run_and_only_once(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    with pytest.raises(WrongStatus, match="is queued and not waiting for this worker"):
        store.begin(run_id, WORKER, {})
    store.claim(run_id, WORKER, ())
    with pytest.raises(WrongStatus, match=r"\(pid 4242\)"):
        store.begin(run_id, replace(WORKER, started_ticks=78), {})
    begun = store.begin(run_id, WORKER, {"host": "lab"})
    assert (begun.status, begun.environment, begun.begun_at is not None) == ("starting", {"host": "lab"}, True)
    assert begun == reader.run(run_id)
    with pytest.raises(WrongStatus):
        store.begin(run_id, WORKER, {})


def test_a_run_is_running_from_the_moment_its_ranks_are_ready(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run = reader.run(running())
    assert (run.status, run.startup_time_s, run.started_at is not None) == ("running", 1.5, True)
    store.mark_running(run.id, 99.0)
    assert reader.run(run.id) == run


def test_a_stopping_run_stays_stopping_when_its_ranks_are_ready(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    store.claim(run_id, WORKER, ())
    store.request_cancel(run_id, by="ada")
    store.begin(run_id, WORKER, {})
    store.mark_running(run_id, 2.0)
    assert (reader.run(run_id).status, reader.run(run_id).startup_time_s) == ("stopping", 2.0)


def test_a_runner_registers_beats_is_asked_to_stop_and_leaves(store: Store, reader: Reader) -> None:
    assert reader.runner() is None
    store.register_runner(WORKER, cores=8, gpus=2)
    first = reader.runner()
    assert first is not None
    assert (first.process, first.cores, first.gpus, first.stopping, first.warm) == (WORKER, 8, 2, False, False)
    deadline = time.monotonic() + 60
    while not store.beat_runner(warm=True) and (found := reader.runner()) and found.heartbeat_at == first.heartbeat_at:
        assert time.monotonic() < deadline
    store.ask_runner_to_stop()
    assert store.beat_runner(warm=False)
    asked = reader.runner()
    assert asked is not None
    assert asked.stopping
    store.register_runner(replace(WORKER, pid=1), cores=8, gpus=2)
    assert not store.beat_runner(warm=False)  # a new runner was never asked
    store.remove_runner()
    assert reader.runner() is None
