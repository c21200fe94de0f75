"""The queue of a real store seen ahead: estimates from finished runs, starts, reasons."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.home import Home
from engine.limits import Limits, set_limits
from engine.queue.outlook import clock, outlook, prospect, start_in_words
from engine.runtime.gpus import FakeGpus
from engine.runtime.machine import Gpu, Machine
from engine.store import Demand, ProcessIdentity, Reader, Store
from engine.terms import Terms

HERE = Machine(4, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0)
WORKER = ProcessIdentity("boot", 4242, 77)


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test has claimed be claimed at this moment, however long the test takes."""
    monkeypatch.setattr("engine.queue.outlook.seconds_since", lambda _: 0.0)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    with Store.open(home) as store:
        yield store


@pytest.fixture
def add(store: Store) -> Callable[..., int]:
    def add(cores: int = 1, gpus: int = 0, owner: str = "ada", epochs: int = 1, seed: int = 0, **more: Any) -> int:
        return store.add_run("hogwild", {"epochs": epochs, "seed": seed}, owner=owner, demand=Demand(cores, gpus, cores, 1), **more)

    return add


@pytest.fixture
def finished(store: Store, add: Callable[..., int]) -> Callable[..., int]:
    """Finish a run that held its slots for some seconds."""

    def finish(seconds: float, host: str = "lab", **settings: Any) -> int:
        run_id = add(**settings)
        store.claim(run_id, WORKER, ())
        store.begin(run_id, WORKER, {"host": host})
        store.mark_running(run_id, 0.5)
        store.end(run_id, "finished", "All ranks ended their work.", execution_time_s=seconds)
        ended = datetime.fromisoformat(str(store.run(run_id).ended_at))
        claimed = (ended - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with store.change() as connection:
            connection.execute("UPDATE runs SET claimed_at = ? WHERE id = ?", [claimed, run_id])
        return run_id

    return finish


def test_like_runs_of_this_machine_alone_tell_how_long_a_run_takes(home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]) -> None:
    for seconds in (36.0, 40.0, 44.0):
        finished(seconds, seed=int(seconds))
    finished(4.0, host="elsewhere")
    finished(400.0, epochs=9)
    finished(20.0, terms=Terms(oversubscribe=True))
    found = prospect(store, home, "hogwild", {"epochs": 1, "seed": 3}, Demand(1, 0, 1, 1), owner="ada", here=HERE, gpus=FakeGpus(2), host="lab")
    assert found.takes is not None
    assert (found.takes.runs, round(found.takes.median), round(found.takes.shortest), round(found.takes.longest)) == (3, 40, 36, 44)
    assert (found.starts_in_s, found.reason) == (0.0, "")
    alone = prospect(store, home, "hogwild", {"epochs": 2, "seed": 3}, Demand(1, 0, 1, 1), owner="ada", here=HERE, gpus=FakeGpus(2), host="lab")
    assert alone.takes is None


def test_each_waiting_run_has_its_reason_and_its_start(home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]) -> None:
    finished(100.0, cores=3)
    on, large, behind, kept = add(cores=3), add(cores=4), add(cores=2), add()
    store.claim(on, WORKER, (), (0, 1, 2))
    store.hold(kept, by="grace")
    with Reader.open(home) as reader:
        found = outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")
    assert list(found) == [large, behind, kept]
    assert found[large].reason.startswith(f"waits for 4 cores: run {on} holds 3 until about ")
    assert found[large].starts_in_s == pytest.approx(100.0, abs=5.0)
    assert (found[behind].reason, found[behind].starts_in_s) == (f"waits behind run {large}", None)
    assert (found[kept].reason, found[kept].starts_in_s) == ("held by grace", None)


def test_a_foreign_program_on_a_gpu_is_a_reason(home: Home, store: Store, add: Callable[..., int]) -> None:
    run_id, gpus = add(gpus=2), FakeGpus(2)
    gpus.occupy(1, used_mb=9_000.0, pids=(4711,))
    found = outlook(store, home, here=HERE, gpus=gpus)
    assert found[run_id].reason == "waits for 2 GPUs: another program uses GPU 1"
    gpus.clear(1)
    assert outlook(store, home, here=HERE, gpus=gpus)[run_id].reason == "starts next"


def test_a_run_is_seen_ahead_where_its_priority_would_put_it(home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]) -> None:
    finished(60.0, cores=4)
    on, _ = add(cores=4), add(cores=4)
    store.claim(on, WORKER, (), (0, 1, 2, 3))

    def starts(priority: Any) -> float | None:
        asked = {"epochs": 1, "seed": 1}
        return prospect(store, home, "hogwild", asked, Demand(4, 0, 4, 1), owner="ada", priority=priority, here=HERE, gpus=FakeGpus(2), host="lab").starts_in_s

    assert starts("high") == pytest.approx(60, abs=5)
    assert starts("normal") == pytest.approx(120, abs=5)


def test_the_share_of_a_person_is_the_homes(home: Home, store: Store, add: Callable[..., int]) -> None:
    on, next_one = add(), add()
    store.claim(on, WORKER, (), (0,))
    set_limits(home, Limits(1))
    assert outlook(store, home, here=HERE, gpus=FakeGpus(2))[next_one].reason == "ada has 1 run on, the most a person may have"


def test_a_start_is_said_as_people_say_it() -> None:
    assert [start_in_words(seconds) for seconds in (None, 0.0, 40.2)] == ["", "at once", "in about 40 s"]
    assert start_in_words(3600.0).startswith("at about ")
    before, told, after = datetime.now(UTC).astimezone().strftime("%H:%M"), clock(0.0), datetime.now(UTC).astimezone().strftime("%H:%M")
    assert told in (before, after)
    assert ", " in clock(3 * 86_400.0)
