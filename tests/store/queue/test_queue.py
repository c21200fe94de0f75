"""The order of the queue: priority, then first in first out, changed by hold, release and move."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import ConfigError, NoSuchRun, WrongStatus
from engine.home import Home
from engine.launch_options import LaunchOptions, Priority
from engine.store import ENDED, Demand, Launch, ProcessIdentity, RankRow, Reader, Status, Store, SweepLaunch
from engine.store.queue.queue import End, QuotaLimits
from tests.waiting import wait_until

WORKER = ProcessIdentity("boot", 4242, 77)


def order(store: Store) -> list[int]:
    return [run.id for run in store.read.queue.waiting()]


def drained(store: Store) -> list[int]:
    """Claim the queue empty and return the order."""
    found = []
    while head := store.read.queue.next():
        assert store.claims.claim(head.id, WORKER, (), (1, 0))
        found.append(head.id)
    return found


def test_a_higher_priority_goes_first_and_the_head_is_found_by_an_index(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    low, first, high, second = (
        add(terms=LaunchOptions(priority="low")),
        add(),
        add(terms=LaunchOptions(priority="high")),
        add(),
    )
    assert order(store) == [high, first, second, low]
    assert [reader.queue.position(run_id) for run_id in (high, first, second, low)] == [0, 1, 2, 3]
    assert reader.runs.one(high).terms.priority == "high"
    assert drained(store) == [high, first, second, low]
    asked: list[str] = []
    store.db.connection.set_trace_callback(asked.append)
    store.read.queue.next(QuotaLimits(("ada",)))
    store.read.queue.waiting(limit=1)
    store.db.connection.set_trace_callback(None)
    for sql in (text for text in asked if text.startswith("SELECT")):
        plan = [row["detail"] for row in store.db.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert any("runs_queue" in line for line in plan)
        assert not any("TEMP B-TREE FOR ORDER BY" in line and "tag" not in line for line in plan), plan


def test_a_run_on_hold_keeps_its_place_and_is_not_claimed(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    first, second = add(), add()
    store.queue.hold(first, by="grace")
    store.queue.hold(first, by="ada")
    assert reader.runs.one(first).held_by == "grace"
    assert order(store) == [first, second]
    assert drained(store) == [second]
    assert not store.claims.claim(first, WORKER, ())
    store.queue.release(first, by="ada")
    assert reader.runs.one(first).held_by is None
    assert drained(store) == [first]
    assert [(event.kind, event.who) for event in reader.details.events(first)][1:3] == [
        ("held", "grace"),
        ("released", "ada"),
    ]


def test_runs_on_hold_and_of_a_paused_sweep_do_not_count_as_waiting_before_another(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    held, first = add(), add()
    sweep_id = store.sweeps.add(
        SweepLaunch(Launch("hogwild", {}, "ada"), {"trainers": [1, 2]}),
        [Launch("hogwild", {"trainers": count}, demand=Demand(1, 0, 1, 1)) for count in (1, 2)],
    )
    last = add()
    store.queue.hold(held, by="grace")
    assert [reader.queue.position(run_id) for run_id in (held, first, last)] == [None, 0, 3]
    assert (reader.queue.count(), reader.queue.count_held()) == (5, 1)
    paused = store.sweeps.hold(sweep_id, by="grace")
    assert [reader.queue.position(run_id) for run_id in (*paused, first, last)] == [None, None, 0, 1]
    assert reader.queue.count_held() == 3
    store.claims.claim(first, WORKER, ())
    assert [reader.queue.position(run_id) for run_id in (first, last)] == [None, 0], "one that is on waits for nothing"


@pytest.mark.parametrize(("end", "moved"), [("front", [3, 1, 2, 4]), ("back", [1, 2, 4, 3])])
def test_a_run_is_moved_before_or_behind_its_priority(
    store: Store, add: Callable[..., int], end: End, moved: list[int]
) -> None:
    for _ in range(4):
        add()
    store.queue.move(3, end, by="ada")
    assert order(store) == moved
    assert order(store)[0] != add(), "a new run goes to the back"
    assert order(store)[-1] == 5


def test_a_run_is_moved_within_its_priority_and_what_changes_nothing_is_no_news(
    store: Store, add: Callable[..., int], reader: Reader
) -> None:
    high, low, other = (
        add(terms=LaunchOptions(priority="high")),
        add(terms=LaunchOptions(priority="low")),
        add(terms=LaunchOptions(priority="low")),
    )
    store.queue.move(other, "front", by="ada")
    assert order(store) == [high, other, low]
    store.queue.move(high, "back", by="ada")
    assert order(store) == [high, other, low]
    store.queue.set_priority(low, "high", by="ada")
    store.queue.move(low, "front", by="ada")
    assert order(store) == [low, high, other]
    run_id = add()
    before = reader.runs.token(run_id)
    store.queue.release(run_id, by="ada")
    store.queue.set_priority(run_id, "normal", by="ada")
    assert reader.runs.token(run_id) == before
    store.queue.set_priority(run_id, "high", by="ada")
    assert reader.runs.token(run_id) > before
    assert [(event.kind, event.who, event.detail) for event in reader.details.events(run_id)][1:] == [
        ("priority", "ada", "high")
    ]


def test_only_a_run_that_waits_is_rearranged_and_open_ranks_end_with_theirs(
    store: Store, running: Callable[..., int], reader: Reader
) -> None:
    run_id = running()
    for command in (store.queue.hold, store.queue.release):
        with pytest.raises(WrongStatus, match=rf"Run {run_id} is not queued: it is running\."):
            command(run_id, by="ada")
    with pytest.raises(NoSuchRun):
        store.queue.move(99, "front", by="ada")
    with pytest.raises(ConfigError, match="must be one of low, normal, high, got 'urgent'"):
        store.queue.set_priority(run_id, "urgent", by="ada")  # type: ignore[arg-type]
    run_id = running()
    states = ("starting", "ready", "running", "done", "failed", "ended")
    store.worker.add_ranks(
        run_id,
        [
            RankRow(rank, f"trainer{rank + 1}", rank, "cpu", state, None, None, None)
            for rank, state in enumerate(states)
        ],
    )
    store.claims.end(run_id, "lost", "The worker is gone.")
    assert [row.state for row in reader.details.ranks(run_id)] == ["ended", "ended", "ended", "done", "failed", "ended"]


def test_a_claim_keeps_cores_and_a_person_at_the_limit_is_passed_over(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    run_id = add(terms=LaunchOptions(oversubscribe=True))
    store.claims.claim(run_id, WORKER, [1], [2, 3])
    run = reader.runs.one(run_id)
    assert (run.gpus, run.cores, run.terms.oversubscribe) == ((1,), (2, 3), True)
    assert "GPU 1, cores 2, 3" in reader.details.events(run_id)[-1].detail
    store.claims.requeue(run_id, "The worker is gone.")
    assert reader.runs.one(run_id).cores == ()
    third = [add(owner=owner) for owner in ("ada", "ada", "grace")][-1]
    head = store.read.queue.next(QuotaLimits(("ada",)))
    assert head is not None
    assert head.id == third
    assert [run.id for run in store.read.queue.waiting(ready=QuotaLimits(("ada",)))] == [third]


@pytest.mark.parametrize("priority", ["low", "normal", "high"])
def test_a_run_put_back_is_first_again(store: Store, add: Callable[..., int], priority: Priority) -> None:
    first, _ = add(terms=LaunchOptions(priority=priority)), add(terms=LaunchOptions(priority=priority))
    store.claims.claim(first, WORKER, ())
    add(terms=LaunchOptions(priority=priority))
    store.claims.requeue(first, "The worker is gone.")
    assert order(store)[0] == first


RACER = """
mine, me = [], ProcessIdentity("boot", int(sys.argv[2]), 1)
with Store.open(home) as store:
    wait()
    while (head := store.read.queue.next()) is not None:
        if store.claims.claim(head.id, me, [0]):
            mine.append(head.id)
print(*mine)
"""


def test_the_head_of_the_queue_is_the_oldest(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, second, third = add(), add(), add()
    assert store.claims.claim(second, WORKER, ())
    head = store.read.queue.next()
    assert head is not None
    assert head.id == first
    assert [reader.queue.position(run_id) for run_id in (first, third)] == [0, 1]


def test_a_claim_gives_a_queued_run_to_one_worker_once(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    assert store.claims.claim(run_id, WORKER, [1, 0])
    assert not store.claims.claim(run_id, replace(WORKER, pid=1), [])
    run = reader.runs.one(run_id)
    assert (run.status, run.worker, run.gpus, run.starts, run.begun_at) == ("starting", WORKER, (1, 0), 1, None)
    assert [found.id for found in store.read.queue.alive()] == [run_id]
    assert store.read.queue.next() is None


def test_a_run_that_its_worker_never_began_goes_back_to_the_head(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    first, _ = add(), add()
    store.claims.claim(first, WORKER, [0])
    assert store.claims.requeue(first, "The worker is gone.")
    run = reader.runs.one(first)
    assert (run.status, run.worker, run.gpus, run.claimed_at, run.starts) == ("queued", None, (), None, 1)
    head = store.read.queue.next()
    assert head is not None
    assert head.id == first
    assert not store.claims.requeue(first, "again")


@pytest.mark.processes
def test_eight_processes_claim_each_of_200_runs_exactly_once(
    home: Home, add: Callable[..., int], reader: Reader, program: Callable[..., Any]
) -> None:
    runs = [add() for _ in range(200)]
    racers = {pid: program(RACER, home.path, pid) for pid in range(1, 9)}
    assert [racer.line() for racer in racers.values()] == ["ready"] * 8
    for racer in racers.values():
        racer.go()
    claimed = {pid: list(map(int, racer.rest().split())) for pid, racer in racers.items()}
    assert sorted(run_id for mine in claimed.values() for run_id in mine) == runs
    assert all(
        reader.runs.one(run_id).worker == ProcessIdentity("boot", pid, 1)
        for pid, mine in claimed.items()
        for run_id in mine
    )
    assert Counter(event.kind for run_id in runs for event in reader.details.events(run_id)) == {
        "queued": 200,
        "starting": 200,
    }


@pytest.mark.parametrize("status", ENDED)
def test_an_end_is_the_last_word(store: Store, reader: Reader, running: Callable[..., int], status: Status) -> None:
    run_id = running()
    assert store.claims.end(run_id, status, "A cause.", error="Traceback", execution_time_s=2.5, who="worker")
    ended, events = reader.runs.one(run_id), reader.details.events(run_id)
    assert (ended.status, ended.cause, ended.error, ended.execution_time_s) == (status, "A cause.", "Traceback", 2.5)
    assert (events[-1].kind, events[-1].who, events[-1].detail) == (status, "worker", "A cause.")
    for other in ENDED:
        assert not store.claims.end(run_id, other, "Another cause.")
    store.worker.mark_running(run_id, 1.0)
    assert not store.claims.claim(run_id, WORKER, ())
    assert not store.claims.requeue(run_id, "no")
    assert (reader.runs.one(run_id), reader.details.events(run_id)) == (ended, events)
    with pytest.raises(sqlite3.IntegrityError, match="never changes its status"), store.db.change() as connection:
        connection.execute("UPDATE runs SET status = 'running' WHERE id = ?", [run_id])


def test_a_run_ends_only_as_an_end_and_a_queued_one_is_refused(
    store: Store, running: Callable[..., int], reader: Reader, add: Callable[..., int]
) -> None:
    with pytest.raises(ValueError, match="got 'running'"):
        store.claims.end(running(), "running", "")
    run_id = add()
    assert not store.claims.end(run_id, "lost", "x")
    assert store.claims.refuse(run_id, "It asks for 9 GPUs, the machine has none.")
    assert reader.runs.one(run_id).status == "failed"
    assert not store.claims.refuse(run_id, "again")
    run_id = add()
    store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    assert not store.claims.requeue(run_id, "no")


def test_only_the_worker_it_was_claimed_for_begins_a_run_and_only_once(
    store: Store, reader: Reader, add: Callable[..., int]
) -> None:
    run_id = add()
    with pytest.raises(WrongStatus, match="is queued and not assigned to this worker"):
        store.worker.begin(run_id, WORKER, {})
    store.claims.claim(run_id, WORKER, ())
    with pytest.raises(WrongStatus, match=r"\(pid 4242\)"):
        store.worker.begin(run_id, replace(WORKER, started_ticks=78), {})
    begun = store.worker.begin(run_id, WORKER, {"host": "lab"})
    assert (begun.status, begun.environment, begun.begun_at is not None) == ("starting", {"host": "lab"}, True)
    assert begun == reader.runs.one(run_id)
    with pytest.raises(WrongStatus):
        store.worker.begin(run_id, WORKER, {})


def test_a_run_is_running_once_its_ranks_are_ready_unless_it_is_stopping(
    store: Store, reader: Reader, running: Callable[..., int], add: Callable[..., int]
) -> None:
    run = reader.runs.one(running())
    assert (run.status, run.startup_time_s, run.started_at is not None) == ("running", 1.5, True)
    store.worker.mark_running(run.id, 99.0)
    assert reader.runs.one(run.id) == run
    run_id = add()
    store.claims.claim(run_id, WORKER, ())
    store.runs.cancel(run_id, by="ada")
    store.worker.begin(run_id, WORKER, {})
    store.worker.mark_running(run_id, 2.0)
    assert (reader.runs.one(run_id).status, reader.runs.one(run_id).startup_time_s) == ("stopping", 2.0)


def test_a_runner_registers_beats_is_asked_to_stop_and_leaves(store: Store, reader: Reader) -> None:
    assert reader.runner.current() is None
    store.runner.register(WORKER, cores=8, gpus=2)
    first = reader.runner.current()
    assert first is not None
    assert (first.process, first.cores, first.gpus, first.stopping, first.warm) == (WORKER, 8, 2, False, False)
    wait_until(
        lambda: (
            store.runner.beat(warm=True)
            or (found := reader.runner.current()) is None
            or found.heartbeat_at != first.heartbeat_at
        ),
        "the runner beats",
    )
    store.runner.ask_to_stop()
    assert store.runner.beat(warm=False)
    asked = reader.runner.current()
    assert asked is not None
    assert asked.stopping
    store.runner.register(replace(WORKER, pid=1), cores=8, gpus=2)
    assert not store.runner.beat(warm=False)  # a new runner was never asked
    store.runner.remove()
    assert reader.runner.current() is None
