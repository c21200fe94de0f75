"""Who the runner starts, in which order and on what, against a real store and a launcher that starts nothing."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.access.quotas import Limits, set_limits
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.runner.placement import Placement
from engine.store import Demand, Launch, Run, Store
from engine.system.machine import Gpu, Machine
from tests.fake_gpus import FakeGpus
from tests.runner.test_runner import PaperLauncher

HERE = Machine(4, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0)


@dataclass
class Scene:
    store: Store
    placement: Placement
    gpus: FakeGpus

    def add(self, cores: int = 1, gpus: int = 0, owner: str = "ada", epochs: int = 1, **more: Any) -> int:
        return self.store.runs.add(
            Launch("hogwild", {"epochs": epochs}, owner, demand=Demand(cores, gpus, cores, 1), **more)
        )

    def started(self) -> list[int]:
        """Have the runner look once, as if a while after its last look; return who started."""
        self.placement._passed_at = self.placement._looked_at = self.placement._waits_at = float("-inf")
        return [run.id for run in self.placement.claim(self.store.read.queue.alive())]

    def started_event(self, run_id: int) -> str:
        """Return the detail of a run's start, from what it says of its wait on."""
        (event,) = (each for each in self.store.read.details.events(run_id) if each.kind == "starting")
        return event.detail.partition("; ")[2]

    def queued_since(self, run_id: int, ago_s: float) -> None:
        at = (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self.store.db.change() as connection:
            connection.execute("UPDATE runs SET created_at = ? WHERE id = ?", [at, run_id])

    def run(self, run_id: int) -> Run:
        return self.store.read.runs.one(run_id)

    def end(self, run_id: int, *, after_s: float = 0.0) -> None:
        """Finish a run that held its slots for some seconds."""
        worker = self.run(run_id).worker
        assert worker is not None
        self.store.worker.begin(run_id, worker, {"host": socket.gethostname()})
        self.store.worker.mark_running(run_id, 0.1)
        self.store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=after_s)
        if after_s:
            self.claimed(run_id, after_s)

    def claimed(self, run_id: int, ago_s: float) -> None:
        at = (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self.store.db.change() as connection:
            connection.execute("UPDATE runs SET claimed_at = ? WHERE id = ?", [at, run_id])


@pytest.fixture
def scene(home: Home) -> Iterator[Scene]:
    with Store.open(home) as store:
        gpus = FakeGpus(2)
        yield Scene(store, Placement(home, store, PaperLauncher(), HERE, gpus), gpus)


@pytest.fixture
def past(scene: Scene) -> Callable[[float, int, int], None]:
    """Finish three runs of so many seconds, cores and epochs."""

    def finish(seconds: float, cores: int, epochs: int) -> None:
        for _ in range(3):
            run_id = scene.add(cores, epochs=epochs)
            assert scene.started() == [run_id]
            scene.end(run_id, after_s=seconds)

    return finish


def test_several_small_runs_share_the_machine_each_on_cores_of_its_own(scene: Scene) -> None:
    ids = [scene.add(2), scene.add(1), scene.add(1), scene.add(1)]
    assert scene.started() == ids[:3]
    assert [scene.run(run_id).cores for run_id in ids] == [(0, 1), (2,), (3,), ()]
    scene.end(ids[1])
    assert scene.started() == [ids[3]]
    assert scene.run(ids[3]).cores == (2,)


def test_only_a_run_that_asked_for_it_starts_on_cores_that_others_hold(scene: Scene) -> None:
    first = scene.add(4)
    shares, strict = scene.add(2, terms=LaunchOptions(oversubscribe=True)), scene.add(1)
    assert scene.started() == [first, shares]
    assert scene.run(shares).cores == (0, 1)
    scene.end(first)
    assert scene.started() == [strict]
    assert scene.run(strict).cores == (2,)


def test_a_run_of_higher_priority_starts_first(scene: Scene) -> None:
    low, normal, high = (
        scene.add(4, terms=LaunchOptions(priority="low")),
        scene.add(4),
        scene.add(4, terms=LaunchOptions(priority="high")),
    )
    for run_id in (high, normal, low):
        assert scene.started() == [run_id]
        scene.end(run_id)


def test_a_start_says_how_long_the_run_waited_and_why_last(scene: Scene, home: Home) -> None:
    first, second, third = scene.add(4), scene.add(2), scene.add(4)
    assert scene.started() == [first]
    assert scene.started_event(first) == ""
    for run_id in (second, third):
        scene.queued_since(run_id, 647.0)
    assert scene.started() == []
    scene.end(first)
    assert scene.started() == [second]
    assert scene.started_event(second) == f"waited 10 min 47 s, last for 2 cores: run {first} holds 4"
    scene.store.queue.hold(third, by="grace")
    assert scene.started() == []
    scene.end(second)
    scene.store.queue.release(third, by="grace")
    assert scene.started() == [third]
    assert scene.started_event(third).endswith("last held by grace")
    reader = scene.store.read
    found = reader.runs.find(matching=reader.fields.filter('waited > "10 min"'), order=reader.fields.order("waited"))
    assert {run.id for run in found} == {second, third}


def test_a_person_has_at_most_their_share_on(scene: Scene, home: Home) -> None:
    set_limits(home, Limits(1))
    first, second, other = scene.add(), scene.add(), scene.add(owner="grace")
    assert scene.started() == [first, other]
    set_limits(home, Limits(2))
    assert scene.started() == [second]


def test_a_person_holds_at_most_their_cores_and_gpus(scene: Scene, home: Home) -> None:
    set_limits(
        home, Limits(max_cores_per_person=2, max_gpus_per_person=1, people={"grace": {"max_cores_per_person": 3}})
    )
    with scene.store.db.change() as connection:
        first, second, third, hers = (
            scene.add(cores, gpus, owner)
            for cores, gpus, owner in ((1, 1, "ada"), (1, 1, "ada"), (1, 0, "ada"), (2, 1, "grace"))
        )
        large = scene.add(2)
        connection.execute(
            "UPDATE runs SET cores = 3 WHERE id = ?", [large]
        )  # as one that was queued before the limit was set
    assert scene.started() == [first, third, hers]
    scene.end(first)
    assert scene.started() == [second]
    scene.end(second)
    scene.end(third)
    scene.end(hers)
    assert scene.started() == []
    set_limits(home, Limits(max_cores_per_person=3))
    assert scene.started() == [large]


def test_limits_that_cannot_be_read_leave_the_last_ones_in_force(scene: Scene, home: Home) -> None:
    set_limits(home, Limits(1))
    assert scene.started() == []
    for _ in range(2):
        scene.add()
    home.limits.write_text("{")
    assert len(scene.started()) == 1


def test_a_gpu_is_given_only_when_nvml_shows_it_free(scene: Scene) -> None:
    scene.gpus.occupy(0, used_mb=9_000.0)
    first, second = scene.add(1, 1), scene.add(1, 1)
    assert scene.started() == [first]
    assert scene.run(first).gpus == (1,)
    scene.gpus.clear(0)
    assert scene.started() == [second]
    assert scene.run(second).gpus == (0,)


def test_a_short_run_passes_a_waiting_one_and_a_longer_one_does_not(
    scene: Scene, past: Callable[[float, int, int], None]
) -> None:
    past(10.0, 1, 1)
    past(400.0, 3, 2)
    past(380.0, 1, 3)
    on = scene.add(3, epochs=2)
    assert scene.started() == [on]
    head, long, short = scene.add(4), scene.add(1, epochs=3), scene.add(1, epochs=1)
    assert scene.started() == [short]  # the head starts in 200 s at the soonest
    assert [scene.run(run_id).status for run_id in (head, long)] == ["queued", "queued"]
    scene.end(short)
    scene.claimed(on, 390.0)
    assert scene.add(1, epochs=1)
    assert scene.started() == []  # 5 s are too few


def test_a_run_that_needs_no_gpu_passes_one_that_waits_for_them(scene: Scene) -> None:
    on, head, small = scene.add(1, 2), scene.add(1, 1), scene.add(2)
    assert scene.started() == [on, small]
    assert scene.run(head).status == "queued"


def test_a_run_on_hold_holds_nobody_up(scene: Scene) -> None:
    kept, other = scene.add(4), scene.add(4)
    scene.store.queue.hold(kept, by="grace")
    assert scene.started() == [other]


def test_a_run_that_the_machine_can_never_hold_fails_with_the_reason_and_lets_the_next_by(scene: Scene) -> None:
    impossible, possible = scene.add(9), scene.add(1)
    assert scene.started() == [possible]
    assert "needs 9 CPU cores, this machine has 4" in scene.run(impossible).cause
