"""Runs of exercises take turns by person, in the places that they hold; all other runs keep theirs."""

from collections.abc import Callable

from engine.store import Demand, Launch, ProcessIdentity, Store
from engine.store.launches import SweepLaunch
from engine.store.sweeps.sweeps import SEED

WORKER = ProcessIdentity("boot", 4242, 77)


def attempt(store: Store, person: str) -> int:
    return store.exercises.predict("bubble", "digest", {}, 1.0, people=[person], by=person)


def launched(store: Store, person: str, count: int, attempt_id: int | None = None) -> list[int]:
    """Queue the runs of one attempt, as a sweep, and return them."""
    launch = Launch("hogwild", {}, person, attempt_id=attempt_id or attempt(store, person), demand=Demand(1, 0, 1, 1))
    runs = [Launch("hogwild", {SEED: seed}, demand=launch.demand) for seed in range(count)]
    sweep_id = store.sweeps.add(SweepLaunch(launch), runs)
    return [run.id for run in store.read.sweeps.runs(sweep_id)]


def owners(store: Store) -> str:
    return "".join(run.owner for run in store.read.queue.waiting())


def test_three_people_with_three_one_and_two_runs_take_turns(store: Store) -> None:
    for person, count in (("A", 3), ("B", 1), ("C", 2)):
        launched(store, person, count)
    assert owners(store) == "ABCACA"
    claimed = []
    while head := store.read.queue.next():
        assert store.claims.claim(head.id, WORKER, ())
        claimed.append(head.owner)
    assert "".join(claimed) == "ABCACA"
    launched(store, "D", 1)
    launched(store, "B", 2)
    assert owners(store) == "DBB", "whoever has runs on the machine has had those turns"


def test_other_runs_keep_their_places_and_priorities_stay_apart(store: Store, add: Callable[..., int]) -> None:
    launched(store, "A", 3)
    other = add(owner="x")
    launched(store, "B", 2)
    assert owners(store) == "ABAxBA"
    assert store.read.queue.position(other) == 3, "nobody who came later is before it but in the places of others"
    store.queue.set_priority(other, "high", by="x")
    assert owners(store) == "xABABA"


def test_a_class_goes_first_while_its_exercise_is_open(store: Store, add: Callable[..., int]) -> None:
    for _ in range(2):
        add(owner="x")
    urgent = add(owner="y")
    store.queue.set_priority(urgent, "high", by="y")
    launched(store, "A", 2)
    store.exercises.open("bubble", by="t")
    launched(store, "B", 2)
    assert owners(store) == "yABABxx", "those that were launched before it was opened too"
    add(owner="x")
    mine = attempt(store, "C")
    launched(store, "C", 1, mine)
    assert owners(store) == "yABCABxxx"
    store.exercises.open("bubble", by="t", class_first=False)
    launched(store, "D", 1)
    assert owners(store) == "yABCDAxxxB", "they take turns in the places that they have"
    store.exercises.open("bubble", by="t", class_first=True)
    store.exercises.close("bubble", by="t")
    found = store.read.exercises.attempt(mine)
    store.runs.cancel(next(iter(found.runs)), by="C")
    store.sweeps.retry(found.sweep_id or 0, by="C", statuses=["cancelled"])
    assert owners(store) == "yABDCxxxAB", "after it was closed nobody is passed"


def test_moves_by_hand_last(store: Store) -> None:
    first = launched(store, "A", 3)
    launched(store, "B", 2)
    assert owners(store) == "ABABA"
    store.queue.move(first[2], "front", by="A")
    assert [run.id for run in store.read.queue.waiting()][:2] == [first[2], first[0]]
    launched(store, "C", 2)
    assert next(run.id for run in store.read.queue.waiting()) == first[2]
    assert owners(store) == "AABCABC"
    store.queue.move(first[2], "back", by="A")
    assert store.read.queue.waiting()[-1].id == first[2]


def test_a_retried_run_and_one_that_the_runner_adds_belong_to_the_attempt(store: Store) -> None:
    mine = attempt(store, "A")
    (run_id,) = launched(store, "A", 1, mine)
    launched(store, "B", 2)
    store.runs.cancel(run_id, by="A")
    (again,) = store.sweeps.retry(1, by="A", statuses=["cancelled"]).values()
    assert owners(store) == "BAB"
    assert set(store.read.exercises.attempt(mine).runs) == {run_id, again}
