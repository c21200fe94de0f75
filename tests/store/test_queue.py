"""The order of the queue: priority, then first in first out, changed by hold, release and move."""

from collections.abc import Callable

import pytest

from engine.errors import ConfigError, NoSuchRun, WrongStatus
from engine.store import Demand, NewRun, ProcessIdentity, Reader, Store
from engine.store.queue import Bounded, End
from engine.terms import Priority, Terms

WORKER = ProcessIdentity("boot", 4242, 77)


def order(store: Store) -> list[int]:
    return [run.id for run in store.queue()]


def drained(store: Store) -> list[int]:
    """Claim the queue empty and return the order."""
    found = []
    while head := store.next_queued():
        assert store.claim(head.id, WORKER, (), (1, 0))
        found.append(head.id)
    return found


def test_a_higher_priority_goes_first_and_within_one_the_first_in(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    low, first, high, second = add(terms=Terms(priority="low")), add(), add(terms=Terms(priority="high")), add()
    assert order(store) == [high, first, second, low]
    assert [reader.queue_position(run_id) for run_id in (high, first, second, low)] == [0, 1, 2, 3]
    assert reader.run(high).terms.priority == "high"
    assert drained(store) == [high, first, second, low]


def test_a_run_on_hold_keeps_its_place_and_is_not_claimed(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    first, second = add(), add()
    store.hold(first, by="grace")
    store.hold(first, by="ada")
    assert reader.run(first).held_by == "grace"
    assert order(store) == [first, second]
    assert drained(store) == [second]
    assert not store.claim(first, WORKER, ())
    store.release(first, by="ada")
    assert reader.run(first).held_by is None
    assert drained(store) == [first]
    assert [(event.kind, event.who) for event in reader.events(first)][1:3] == [("held", "grace"), ("released", "ada")]


def test_runs_on_hold_and_of_a_paused_sweep_do_not_count_as_waiting_before_another(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    held, first = add(), add()
    sweep_id = store.add_sweep("hogwild", {"trainers": [1, 2]}, [NewRun({"trainers": count}, Demand(1, 0, 1, 1), "") for count in (1, 2)], owner="ada")
    last = add()
    store.hold(held, by="grace")
    assert [reader.queue_position(run_id) for run_id in (held, first, last)] == [None, 0, 3]
    assert (reader.count_queued(), reader.count_held()) == (5, 1)
    paused = store.hold_sweep(sweep_id, by="grace")
    assert [reader.queue_position(run_id) for run_id in (*paused, first, last)] == [None, None, 0, 1]
    assert reader.count_held() == 3
    store.claim(first, WORKER, ())
    assert [reader.queue_position(run_id) for run_id in (first, last)] == [None, 0], "one that is on waits for nothing"


@pytest.mark.parametrize(("end", "moved"), [("front", [3, 1, 2, 4]), ("back", [1, 2, 4, 3])])
def test_a_run_is_moved_before_or_behind_its_priority(store: Store, add: Callable[..., int], end: End, moved: list[int]) -> None:
    for _ in range(4):
        add()
    store.move(3, end, by="ada")
    assert order(store) == moved
    assert order(store)[0] != add(), "a new run goes to the back"
    assert order(store)[-1] == 5


def test_a_move_stays_within_the_priority(store: Store, add: Callable[..., int]) -> None:
    high, low, other = add(terms=Terms(priority="high")), add(terms=Terms(priority="low")), add(terms=Terms(priority="low"))
    store.move(other, "front", by="ada")
    assert order(store) == [high, other, low]
    store.move(high, "back", by="ada")
    assert order(store) == [high, other, low]
    store.set_priority(low, "high", by="ada")
    store.move(low, "front", by="ada")
    assert order(store) == [low, high, other]


def test_a_change_is_news_of_the_run_and_a_change_of_nothing_is_none(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add()
    before = reader.token(run_id)
    store.release(run_id, by="ada")
    store.set_priority(run_id, "normal", by="ada")
    assert reader.token(run_id) == before
    store.set_priority(run_id, "high", by="ada")
    assert reader.token(run_id) > before
    assert [(event.kind, event.who, event.detail) for event in reader.events(run_id)][1:] == [("priority", "ada", "high")]


def test_only_a_run_that_waits_can_be_rearranged(store: Store, running: Callable[..., int]) -> None:
    run_id = running()
    for command in (store.hold, store.release):
        with pytest.raises(WrongStatus, match=rf"Run {run_id} does not wait in the queue: it is running\."):
            command(run_id, by="ada")
    with pytest.raises(NoSuchRun):
        store.move(99, "front", by="ada")
    with pytest.raises(ConfigError, match="must be one of low, normal, high, got 'urgent'"):
        store.set_priority(run_id, "urgent", by="ada")  # type: ignore[arg-type]


def test_people_at_their_limit_are_passed_over(store: Store, add: Callable[..., int]) -> None:
    third = [add(owner=owner) for owner in ("ada", "ada", "grace")][-1]
    head = store.next_queued(Bounded(("ada",)))
    assert head is not None
    assert head.id == third
    assert [run.id for run in store.queue(ready=Bounded(("ada",)))] == [third]


def test_a_claim_keeps_cores_and_a_run_put_back_has_none(store: Store, reader: Reader, add: Callable[..., int]) -> None:
    run_id = add(terms=Terms(oversubscribe=True))
    store.claim(run_id, WORKER, [1], [2, 3])
    run = reader.run(run_id)
    assert (run.gpus, run.cores, run.terms.oversubscribe) == ((1,), (2, 3), True)
    assert "GPUs 1, cores 2, 3" in reader.events(run_id)[-1].detail
    store.requeue(run_id, "The worker is gone.")
    assert reader.run(run_id).cores == ()


@pytest.mark.parametrize("priority", ["low", "normal", "high"])
def test_a_run_put_back_is_first_again(store: Store, add: Callable[..., int], priority: Priority) -> None:
    first, _ = add(terms=Terms(priority=priority)), add(terms=Terms(priority=priority))
    store.claim(first, WORKER, ())
    add(terms=Terms(priority=priority))
    store.requeue(first, "The worker is gone.")
    assert order(store)[0] == first


def test_the_head_of_a_long_queue_is_found_by_its_index(store: Store) -> None:
    asked: list[str] = []
    store.connection.set_trace_callback(asked.append)
    store.next_queued(Bounded(("ada",)))
    store.queue(limit=1)
    store.connection.set_trace_callback(None)
    for sql in (text for text in asked if text.startswith("SELECT")):
        plan = [row["detail"] for row in store.rows(f"EXPLAIN QUERY PLAN {sql}")]
        assert any("runs_queue" in line for line in plan)
        assert not any("TEMP B-TREE FOR ORDER BY" in line and "tag" not in line for line in plan), plan
