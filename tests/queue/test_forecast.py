"""The queue of a real store seen ahead: estimates from finished runs, starts, reasons."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.actions.queue_actions import takes
from app.ui.run_state import time_left
from engine.access.quotas import Limits, set_limits
from engine.experiment import Experiment
from engine.home import Home
from engine.launch_options import USUAL, LaunchOptions
from engine.queue.estimates import Estimate, by_kind, kind_of, left
from engine.queue.forecast import clock, outlook, prospect, start_in_words, time_left_s
from engine.queue.sweep_estimate import Outlay, before_launch, what_is_left
from engine.recorder import Point
from engine.registry import experiments
from engine.script.command import Command, read_command
from engine.script.lengths import UNKNOWN, LengthProgress, ScriptPace, length_of
from engine.store import Demand, Launch, ProcessIdentity, Reader, Store, SweepLaunch
from engine.store.queue.queue import PastRun
from engine.store.scripts import keep_command
from engine.system.machine import Gpu, Machine
from engine.system.processes import me
from tests.fake_gpus import FakeGpus
from tests.labs import small

HERE = Machine(4, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0)
WORKER = ProcessIdentity("boot", 4242, 77)


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test has claimed be claimed at this moment, however long the test takes."""
    monkeypatch.setattr("engine.queue.forecast.seconds_since", lambda _: 0.0)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    small.without_a_runner(home)
    with Store.open(home) as store:
        yield store


@pytest.fixture
def add(store: Store) -> Callable[..., int]:
    def add(cores: int = 1, gpus: int = 0, owner: str = "ada", epochs: int = 1, seed: int = 0, **more: Any) -> int:
        return store.runs.add(
            Launch("hogwild", {"epochs": epochs, "seed": seed}, owner, demand=Demand(cores, gpus, cores, 1), **more)
        )

    return add


@pytest.fixture
def finished(store: Store, add: Callable[..., int]) -> Callable[..., int]:
    """Finish a run that held its slots for some seconds."""

    def finish(seconds: float, host: str = "lab", **settings: Any) -> int:
        run_id = add(**settings)
        store.claims.claim(run_id, WORKER, ())
        store.worker.begin(run_id, WORKER, {"host": host})
        store.worker.mark_running(run_id, 0.5)
        store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=seconds)
        ended = datetime.fromisoformat(str(store.read.runs.one(run_id).ended_at))
        claimed = (ended - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with store.db.change() as connection:
            connection.execute("UPDATE runs SET claimed_at = ? WHERE id = ?", [claimed, run_id])
        return run_id

    return finish


def test_like_runs_of_this_machine_alone_tell_how_long_a_run_takes(
    home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]
) -> None:
    for seconds in (36.0, 40.0, 44.0):
        finished(seconds, seed=int(seconds))
    finished(4.0, host="elsewhere")
    finished(400.0, epochs=9)
    finished(20.0, terms=LaunchOptions(oversubscribe=True))
    asked = Launch("hogwild", {"epochs": 1, "seed": 3}, "ada", demand=Demand(1, 0, 1, 1))
    found = prospect(store.read, home, asked, here=HERE, gpus=FakeGpus(2), host="lab")
    assert found.takes is not None
    assert (found.takes.runs, round(found.takes.median), round(found.takes.shortest), round(found.takes.longest)) == (
        3,
        40,
        36,
        44,
    )
    assert (found.starts_in_s, found.reason) == (0.0, "")


SCALED = [
    ((), {"epochs": 2}, Demand(1, 0, 1, 1), ""),
    (
        ((100.0, 1),),
        {"epochs": 1},
        Demand(1, 0, 1, 1),
        "about 1 min 40 s in total (execution 1 min 40 s), from 1 ",
    ),
    (
        ((100.0, 1),),
        {"epochs": 3},
        Demand(1, 0, 1, 1),
        "about 5 min in total (execution 5 min), scaled by ",
    ),
    (
        ((100.0, 1), (300.0, 6)),
        {"epochs": 4},
        Demand(1, 0, 1, 1),
        "about 3 min 20 s (3 min 20 s to 6 min 40 s) in total",
    ),
    (((100.0, 1),), {"epochs": 3, "trainers": 2}, Demand(1, 0, 1, 1), ""),
    (((100.0, 1),), {"epochs": 3}, Demand(2, 0, 2, 1), ""),
]
"""Finished runs as seconds and epochs, a new run, and the start of its estimate."""


@pytest.mark.parametrize(("past", "config", "demand", "words"), SCALED)
def test_runs_that_differ_only_in_their_epochs_are_scaled_and_named(
    home: Home,
    store: Store,
    finished: Callable[..., int],
    past: tuple[tuple[float, int], ...],
    config: dict[str, Any],
    demand: Demand,
    words: str,
) -> None:
    for seconds, epochs in past:
        finished(seconds, epochs=epochs)
    new = Launch("hogwild", {"seed": 3, **config}, "ada", demand=demand)
    found = prospect(store.read, home, new, here=HERE, gpus=FakeGpus(2), host="lab").takes
    assert takes(found).startswith(words or "No estimate yet"), takes(found)
    if "trainers" not in config and found and found.scaled_from:
        named = " or ".join(f"epochs {epochs}" for _, epochs in past)
        assert takes(found).endswith(
            f"scaled by work from {len(past)} {'run' if len(past) == 1 else 'runs'} with {named}"
        )


def test_runs_of_a_command_are_scaled_by_the_length_that_their_script_names(
    home: Home, store: Store, finished: Callable[..., int]
) -> None:
    command = read_command("python train.py --lr 0.1 --num-epochs 2 --width 8")
    with store.db.change():
        command_id = keep_command(store.db, command, "train.py")
    for run_id in (finished(100.0), finished(120.0)):
        config = '{"lr": 0.1, "num_epochs": 2, "width": 8}'
        sql = "UPDATE runs SET experiment = 'train.py', config = ?, command_id = ? WHERE id = ?"
        store.db.connection.execute(sql, [config, command_id, run_id])

    def estimate(asked: Command = command, **changed: int | float) -> str:
        new = Launch("train.py", {**command.defaults(), **changed}, "ada", demand=Demand(1, 0, 1, 1), command=asked)
        return takes(prospect(store.read, home, new, here=HERE, gpus=FakeGpus(2), host="lab").takes)

    assert estimate(lr=0.3).startswith("about 1 min 50 s")
    assert "scaled by work from 2 runs with num_epochs 2" in estimate(num_epochs=6)
    three = Launch(
        "train.py", {"lr": 0.1, "num_epochs": 3, "width": 8}, "ada", demand=Demand(1, 0, 1, 1), command=command
    )
    found = before_launch(store.read, home, [three], ["lr"], here=HERE, gpus=FakeGpus(2), host="lab")
    assert found.are_scaled and found.like == 1
    assert estimate(width=9).startswith("No estimate yet")
    assert estimate(replace(command, folder="/elsewhere")).startswith("No estimate yet")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"trainer.max_epochs": 3, "lr": 0.1}, "trainer.max_epochs"),
        ({"trainer.max_epochs": -1, "trainer.max_steps": 100}, "trainer.max_steps"),
        ({"EPOCHS": 3}, "EPOCHS"),
        ({"epochs": None, "max_train_steps": 50}, "max_train_steps"),
        ({"epochs": True, "steps_per_print": 3}, ""),
    ],
)
def test_the_length_of_a_script_is_known_by_its_name(settings: dict[str, Any], name: str) -> None:
    assert length_of(settings) == ((name,) if name else ())


@pytest.mark.parametrize("known", experiments(), ids=lambda known: known.name)
def test_an_experiment_names_the_counts_of_its_work(known: Experiment) -> None:
    for name in known.presets:
        settings = known.configure(name).model_dump(mode="json")
        counts = known.config.counts(settings)
        assert counts and all(isinstance(settings[count], int) for count in counts)


def test_each_waiting_run_has_its_reason_and_its_start(
    home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]
) -> None:
    finished(100.0, cores=3)
    on, large, behind, kept = add(cores=3), add(cores=4), add(cores=2), add()
    store.claims.claim(on, WORKER, (), (0, 1, 2))
    store.queue.hold(kept, by="grace")
    with Reader.open(home) as reader:
        found = outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")
    assert list(found) == [large, behind, kept]
    assert found[large].reason.startswith(f"waits for 4 cores: run {on} holds 3 until about ")
    assert found[large].starts_in_s == pytest.approx(100.0, abs=5.0)
    assert (found[behind].reason, found[behind].starts_in_s) == (f"waits behind run {large}", None)
    assert (found[kept].reason, found[kept].starts_in_s) == ("held by grace", None)


def test_the_expected_end_of_a_run_follows_from_its_progress(
    home: Home, store: Store, add: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    on, waiting = add(cores=4), add()
    store.claims.claim(on, WORKER, (), (0, 1, 2, 3))
    store.worker.begin(on, WORKER, {"host": "lab"})
    store.worker.mark_running(on, 0.5)
    store.worker.write(on, [], progress=(25, 100, "samples"))
    monkeypatch.setattr("engine.queue.forecast.seconds_since", lambda _: 30.0)
    with Reader.open(home) as reader:
        assert outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")[waiting].starts_in_s == pytest.approx(
            90.0
        )
    store.worker.write(on, [], progress=(100, 100, "samples"))
    with Reader.open(home) as reader:
        late = outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")[waiting]
    assert (late.reason, late.start) == (f"waits for 1 core: run {on} holds 4", "soon")


def test_the_time_left_of_a_run_is_the_one_by_which_the_queue_waits_for_it(
    home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is scaled from runs with another amount of work."""
    monkeypatch.setattr("engine.store.runs.rows.seconds_since", lambda _: 0.0)
    monkeypatch.setattr("engine.queue.forecast.seconds_since", lambda _: 0.0)
    finished(100.0, cores=4, epochs=1)
    run_id, waiting = add(cores=4, epochs=8), add()
    store.claims.claim(run_id, WORKER, (), (0, 1, 2, 3))
    store.worker.begin(run_id, WORKER, {"host": "lab"})
    store.worker.mark_running(run_id, 0.5)
    store.worker.write(run_id, [], progress=(1, 1000, "samples"))
    left = time_left_s(store.read, store.read.runs.entry(run_id), "lab")
    assert left is not None and left > 700
    assert outlook(store.read, home, here=HERE, gpus=FakeGpus(2), host="lab")[waiting].starts_in_s == left


def test_time_left_comes_from_similar_runs_until_the_runs_own_pace_is_known(
    home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]
) -> None:
    run_id = add()
    store.claims.claim(run_id, WORKER, (), (0,))
    store.worker.begin(run_id, WORKER, {"host": "lab"})
    store.worker.mark_running(run_id, 0.5)
    store.worker.write(run_id, [], progress=(1, 1000, "samples"))
    entry = store.read.runs.entry(run_id)
    assert (entry.time_left_s, time_left_s(store.read, entry, "lab")) == (None, None)
    finished(24.0)
    assert time_left_s(store.read, entry, "lab") == pytest.approx(24.0, abs=0.1)
    early, later = (replace(entry, time_left_s=9.0, progress=share) for share in (0.04, 0.06))
    assert time_left_s(store.read, early, "lab") == pytest.approx(24.0, abs=0.1), "as the queue counts on it"
    assert time_left_s(store.read, later, "lab") == 9.0
    assert time_left_s(store.read, replace(entry, target="cluster"), "lab") is None


def test_a_script_is_as_far_as_the_steps_or_epochs_it_prints_until_they_exceed_its_length() -> None:
    assert LengthProgress({"lr": 0.1, "steps": 400}).at(240, None) == (240, 400, "steps")
    assert LengthProgress({"steps": 400, "train.max_epochs": 3.0}).at(240, 1) == (1, 3, "epochs")
    assert LengthProgress({"epochs": 3}).at(240, None) == UNKNOWN
    assert LengthProgress({"lr": 0.1}).at(1, 1) == UNKNOWN
    found = LengthProgress({"steps": 400})
    assert found.at(401, None) == found.at(10, None) == UNKNOWN, "it counts something else"


def test_progress_within_an_epoch_is_that_of_all_epochs_where_their_number_is_known() -> None:
    found = LengthProgress({"epochs": 14})
    assert found.over_epochs((640, 60_000, "steps"), 2) == (60_640, 840_000, "steps")
    assert found.over_epochs((640, 60_000, "steps"), 15) == (640, 60_000, "steps"), "it counts something else"
    assert found.over_epochs((640, 60_000, "steps"), 0) == (640, 840_000, "steps")
    assert found.over_epochs((0, 60_000, "steps"), 1) == (60_000, 840_000, "steps"), "its first epoch is 0"
    assert LengthProgress({"steps": 14}).over_epochs((1, 10, "steps"), 2) == (1, 10, "steps")


def test_the_pace_of_a_script_leaves_out_its_start() -> None:
    pace = ScriptPace()
    for progress, at_s in ((UNKNOWN, 1.0), ((1, 10, "epochs"), 80.0), ((1, 10, "epochs"), 85.0)):
        pace.add(progress, at_s)
        assert pace.per_second is None
    pace.add((3, 10, "epochs"), 100.0)
    pace.add((3, 10, "epochs"), 109.0)
    assert pace.per_second == 0.1
    pace.add((0, 10, "epochs"), 110.0)
    assert pace.per_second is None, "another count began"


def test_the_time_left_of_a_script_is_that_at_its_recorded_pace(
    home: Home, store: Store, add: Callable[..., int]
) -> None:
    command = read_command("python train.py --epochs 10", "/data")
    run_id = store.runs.add(Launch("train.py", {"epochs": 10}, "ada", demand=Demand(4, 0, 1, 1), command=command))
    waiting = add()
    store.claims.claim(run_id, WORKER, (), (0, 1, 2, 3))
    store.worker.begin(run_id, WORKER, {"host": "lab"})
    store.worker.mark_running(run_id, 0.5)
    store.worker.write(run_id, [], progress=(1, 10, "epochs"))
    assert store.read.runs.entry(run_id).time_left_s is None
    store.worker.write(run_id, [], [Point("perf/epochs_per_second", 3, 0.1, 100.0)], progress=(3, 10, "epochs"))
    assert store.read.runs.entry(run_id).time_left_s == pytest.approx(70.0)
    with Reader.open(home) as reader:
        found = outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")[waiting]
    assert found.starts_in_s == pytest.approx(70.0)


def test_a_time_limit_ends_every_forecast(
    home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.runs.rows.seconds_since", lambda _: 0.0)
    finished(100.0, cores=4)
    run_id = add(cores=4, terms=LaunchOptions(max_run_time_s=60.0))
    add(cores=4, terms=LaunchOptions(max_run_time_s=40.0))
    add()
    store.claims.claim(run_id, WORKER, (), (0, 1, 2, 3))
    store.worker.begin(run_id, WORKER, {"host": "lab"})
    store.worker.mark_running(run_id, 0.5)
    store.worker.write(run_id, [], progress=(1, 1000, "samples"))

    def starts() -> list[float | None]:
        with Reader.open(home) as reader:
            return [
                wait.starts_in_s for wait in outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab").values()
            ]

    entry = store.read.runs.entry(run_id)
    assert time_left_s(store.read, entry, "lab") == pytest.approx(60.0, abs=0.1)
    assert entry.limit_left_s == pytest.approx(60.0, abs=1.0) and entry.share_at_limit is None
    assert starts() == pytest.approx([60.0, 100.0]), "each until its limit, not for the 100 s that it would take"
    for place in ("engine.queue.forecast", "engine.store.runs.rows"):
        monkeypatch.setattr(f"{place}.seconds_since", lambda _: 20.0)
    store.worker.write(run_id, [], progress=(250, 1000, "samples"))
    entry = store.read.runs.entry(run_id)
    assert entry.time_left_s == entry.limit_left_s == pytest.approx(40.0)
    assert entry.share_at_limit == pytest.approx(0.75), "a quarter in 20 s"
    assert time_left(entry) == "ends at its time limit in 40 s, at about 75%"
    assert starts() == pytest.approx([40.0, 80.0])
    store.worker.write(run_id, [], progress=(400, 1000, "samples"))
    entry = store.read.runs.entry(run_id)
    assert (entry.time_left_s, entry.share_at_limit, time_left(entry)) == (30.0, None, "about 30 s left")
    assert time_left(replace(entry, config={"stop_when_solved": True})) == "at most 30 s left"
    store.worker.write(run_id, [], progress=(0, 0, "samples"))
    assert time_left(store.read.runs.entry(run_id)) == "time left unknown, at most 40 s (time limit)"


def test_an_estimate_before_a_launch_ends_at_the_limit_asked_for_or_of_the_quota(
    home: Home, store: Store, finished: Callable[..., int]
) -> None:
    finished(100.0)
    asked = Launch("hogwild", {"epochs": 1, "seed": 3}, "ada", demand=Demand(1, 0, 1, 1))

    def found(limit_s: float | None = None) -> str:
        limited = replace(asked, terms=LaunchOptions(max_run_time_s=limit_s))
        return takes(prospect(store.read, home, limited, here=HERE, gpus=FakeGpus(2), host="lab").takes)

    assert found() == "about 1 min 40 s in total (execution 1 min 40 s), from 1 similar run"
    assert found(150.0) == found()
    assert found(50.0) == "50 s, its time limit (about 1 min 40 s without it), from 1 similar run"
    limited = replace(asked, terms=LaunchOptions(max_run_time_s=50.0))
    runs = [replace(limited, config={"epochs": 1, "seed": seed}) for seed in range(2)]
    outlay = before_launch(store.read, home, runs, ["epochs"], here=Machine(1, (), "cpu", 8.0), host="lab")
    assert (outlay.idle_s, outlay.cut) == (pytest.approx(100.0, abs=0.1), 2)
    set_limits(home, Limits(max_run_time_s=20.0))
    assert found(50.0).startswith("20 s, its time limit")


def test_without_a_runner_no_run_starts_next_or_at_once(home: Home, store: Store, add: Callable[..., int]) -> None:
    first, second = add(), add()
    config = {"epochs": 1, "seed": 0}

    def seen() -> list[tuple[str, str, float | None]]:
        waits = outlook(store.read, home, here=HERE, gpus=FakeGpus(2))
        launched = prospect(store.read, home, Launch("hogwild", config, "ada", demand=Demand(1, 0, 1, 1)), here=HERE)
        return [
            *((waits[run_id].reason, waits[run_id].start, waits[run_id].starts_in_s) for run_id in (first, second)),
            (launched.reason, start_in_words(launched.starts_in_s), launched.starts_in_s),
        ]

    behind = f"waits behind run {first}"
    assert seen()[0] == ("starts next", "at once", 0.0)
    store.runner.ask_to_stop()
    assert seen()[:2] == [("waits: the runner is stopping", "", None), (behind, "", None)]
    store.runner.remove()
    assert seen()[:2] == [("waits: no runner is running", "", None), (behind, "", None)]
    store.runner.register(replace(me(), started_ticks=1), cores=4, gpus=0)
    assert seen()[:2] == [("waits: no runner is running", "", None), (behind, "", None)]
    assert seen()[2] == ("waits: no runner is running", "", None)


def test_a_foreign_program_and_a_full_share_are_reasons_and_a_start_is_said_plainly(
    home: Home, store: Store, add: Callable[..., int]
) -> None:
    run_id, gpus = add(gpus=2), FakeGpus(2)
    gpus.occupy(1, used_mb=9_000.0, pids=(4711,))
    found = outlook(store.read, home, here=HERE, gpus=gpus)
    assert found[run_id].reason == "waits for 2 GPUs: another program uses GPU 1"
    gpus.clear(1)
    assert outlook(store.read, home, here=HERE, gpus=gpus)[run_id].reason == "starts next"
    on, next_one = add(), add()
    store.claims.claim(on, WORKER, (), (0,))
    set_limits(home, Limits(1))
    assert (
        outlook(store.read, home, here=HERE, gpus=FakeGpus(2))[next_one].reason
        == "waits: ada has 1 running run, and the limit per person is 1"
    )
    assert [start_in_words(seconds) for seconds in (None, 0.0, 40.2)] == ["", "at once", "in about 40 s"]
    assert start_in_words(3600.0).startswith("at about ")
    assert ", " in clock(3 * 86_400.0)


def test_a_run_is_seen_ahead_where_its_priority_would_put_it(
    home: Home, store: Store, add: Callable[..., int], finished: Callable[..., int]
) -> None:
    finished(60.0, cores=4)
    on, _ = add(cores=4), add(cores=4)
    store.claims.claim(on, WORKER, (), (0, 1, 2, 3))

    def starts(priority: Any) -> float | None:
        terms, demand = LaunchOptions(priority), Demand(4, 0, 4, 1)
        asked = Launch("hogwild", {"epochs": 1, "seed": 1}, "ada", terms=terms, demand=demand)
        return prospect(store.read, home, asked, here=HERE, gpus=FakeGpus(2), host="lab").starts_in_s

    assert starts("high") == pytest.approx(60, abs=5)
    assert starts("normal") == pytest.approx(120, abs=5)


__all__ = ["add", "finished", "no_time_passes", "store"]
Finish = Callable[..., int]


def asked(
    home: Home, epochs: list[int], cores: int = 1, gpus: int = 0, terms: LaunchOptions = USUAL, **more: Any
) -> Outlay:
    """Return what a sweep over epochs would take."""
    demand = Demand(cores, gpus, cores, 1)
    runs = [Launch("hogwild", {"epochs": n, "seed": 0}, "ada", terms=terms, demand=demand) for n in epochs]
    with Reader.open(home) as reader:
        return before_launch(reader, home, runs, ["epochs"], here=HERE, gpus=FakeGpus(2), host="lab", **more)


def rest(home: Home, sweep_id: int) -> Outlay:
    with Reader.open(home) as reader:
        return what_is_left(reader, home, sweep_id, ["epochs"], here=HERE, gpus=FakeGpus(2), host="lab")


def swept(store: Store, epochs: list[int], cores: int = 1, **more: Any) -> int:
    runs = [Launch("hogwild", {"epochs": count, "seed": 0}, demand=Demand(cores, 0, cores, 1)) for count in epochs]
    return store.sweeps.add(SweepLaunch(Launch("hogwild", {}, "ada"), {"epochs": epochs, "seed": [0]}, **more), runs)


def test_what_fits_goes_side_by_side_and_gpus_shares_and_exclusive_sweeps_wait(
    home: Home, store: Store, finished: Finish
) -> None:
    finished(100.0, epochs=1)
    finished(300.0, epochs=2)
    found = asked(home, [1] * 4 + [2])
    assert (found.runs, found.like, found.assumed_s) == (5, 5, None)
    assert found.core_hours == pytest.approx((4 * 100 + 300) / 3600, rel=0.01)
    assert found.idle_s == found.ends_in_s == pytest.approx(400.0, abs=1), "four at once, the fifth in the place of one"
    found = asked(home, [1] * 3, exclusive=True)
    assert (found.idle_s, found.core_hours) == (pytest.approx(303.0, abs=1), pytest.approx(300 / 3600, rel=0.01))
    set_limits(home, Limits(1))
    assert asked(home, [1] * 3).idle_s == pytest.approx(300.0, abs=1)


def test_gpus_are_counted_and_waited_for(home: Home, store: Store, finished: Finish) -> None:
    finished(100.0, epochs=1, gpus=1)
    found = asked(home, [1] * 3, gpus=1)
    assert (found.idle_s, found.gpu_hours) == (pytest.approx(200.0, abs=1), pytest.approx(300 / 3600, rel=0.01))


def test_what_is_on_and_what_waits_comes_first_unless_the_priority_is_higher(
    home: Home, store: Store, add: Finish, finished: Finish
) -> None:
    finished(100.0, epochs=1, cores=4)
    on, waiting = add(cores=4), add(cores=4)
    store.claims.claim(on, WORKER, ())
    found = asked(home, [1, 1], cores=4)
    assert (found.idle_s, found.ends_in_s) == (pytest.approx(200.0, abs=1), pytest.approx(400.0, abs=2))
    assert asked(home, [1, 1], cores=4, terms=LaunchOptions(priority="high")).ends_in_s == pytest.approx(300.0, abs=2)
    store.queue.hold(waiting, by="grace")
    assert asked(home, [1, 1], cores=4).ends_in_s == pytest.approx(300.0, abs=2)


def test_cells_without_like_runs_last_as_those_that_differ_only_in_what_varies(
    home: Home, store: Store, finished: Finish
) -> None:
    finished(100.0, epochs=1)
    finished(200.0, epochs=2)
    finished(900.0, epochs=2, host="elsewhere")
    found = asked(home, [1, 2, 3, 4])
    assert (found.runs, found.like, found.are_scaled) == (4, 4, True)
    assert found.core_hours == pytest.approx((100 + 200 + 300 + 400) / 3600, rel=0.05), "by their work"
    found = asked(home, [1, 2, 3, 4], cores=2)
    assert (found.runs, found.like, found.near) == (4, 0, 2), "what varies may change the slots"
    assert found.assumed_s == pytest.approx(150.0, abs=1)
    assert found.core_hours == pytest.approx(4 * 2 * 150 / 3600, rel=0.01)
    assert asked(home, [1, 2], gpus=1).idle_s is None, "runs without a GPU tell nothing of runs with one"


def test_nothing_is_said_where_nothing_is_known_and_an_end_behind_it_neither(
    home: Home, store: Store, add: Finish, finished: Finish
) -> None:
    found = asked(home, [1, 2])
    assert (found.runs, found.like, found.assumed_s, found.core_hours, found.idle_s, found.ends_in_s) == (
        2,
        0,
        None,
        None,
        None,
        None,
    )
    finished(100.0, epochs=1)
    store.claims.claim(add(cores=4, epochs=77), WORKER, ())
    found = asked(home, [1])
    assert (found.idle_s, found.ends_in_s) == (pytest.approx(100.0, abs=1), None)


# ---- what is left --------------------------------------------------------------------------------------------------


def test_what_is_left_counts_queued_and_live_runs_from_now(
    home: Home, store: Store, add: Finish, finished: Finish
) -> None:
    finished(100.0, epochs=1, cores=2)
    sweep_id = swept(store, [1, 1, 1, 5], cores=2)
    ids = [run.id for run in store.read.queue.waiting()]
    for run_id in ids[:2]:
        store.claims.claim(run_id, WORKER, ())
    add(cores=2)
    found = rest(home, sweep_id)
    assert (found.runs, found.like, found.near, found.held) == (4, 4, 1, 0)
    assert found.core_hours == pytest.approx(2 * (3 * 100 + 500) / 3600, rel=0.02)
    assert found.idle_s == found.ends_in_s == pytest.approx(600.0, abs=3), "the stranger behind it delays nothing"
    for run_id in ids:
        store.runs.cancel(run_id, by="ada")
    for run_id in ids[:2]:
        store.claims.end(run_id, "cancelled", "Cancelled by ada.")
    assert rest(home, sweep_id) == Outlay(0, 0, None, 0, 0.0, 0.0, 0.0, 0.0)


def test_a_live_run_uses_its_own_estimate_not_the_median_of_its_sweep(
    home: Home, store: Store, finished: Finish
) -> None:
    finished(100.0, epochs=1, cores=2)
    finished(300.0, epochs=5, cores=2)
    sweep_id = swept(store, [1], cores=2)
    store.claims.claim(store.read.queue.waiting()[0].id, WORKER, ())
    found = rest(home, sweep_id)
    assert found.near == 2
    assert found.core_hours == pytest.approx(2 * 100 / 3600, rel=0.02)


def test_a_paused_sweep_is_seen_as_if_it_were_let_go_on_and_runs_on_hold_are_named(
    home: Home, store: Store, finished: Finish
) -> None:
    finished(100.0, epochs=1, cores=4)
    sweep_id = swept(store, [1, 1, 1], cores=4)
    store.sweeps.hold(sweep_id, by="ada")
    assert (rest(home, sweep_id).ends_in_s, rest(home, sweep_id).held) == (pytest.approx(300.0, abs=1), 0)
    store.queue.hold(store.read.queue.waiting()[0].id, by="grace")
    found = rest(home, sweep_id)
    assert (found.runs, found.held, found.ends_in_s) == (3, 1, pytest.approx(200.0, abs=1))
    assert found.core_hours == pytest.approx(3 * 4 * 100 / 3600, rel=0.01)


def test_runs_of_an_exclusive_sweep_follow_each_other_and_say_what_they_wait_for(
    home: Home, store: Store, add: Finish, finished: Finish
) -> None:
    finished(100.0, epochs=1)
    sweep_id = swept(store, [1, 1, 1], exclusive=True)
    found = rest(home, sweep_id)
    assert (found.ends_in_s, found.core_hours) == (pytest.approx(303.0, abs=1), pytest.approx(300 / 3600, rel=0.01))
    first = store.read.queue.waiting()[0].id
    other = add()
    store.queue.move(other, "front", by="ada")
    store.claims.claim(other, WORKER, (), (0,))
    with Reader.open(home) as reader:
        assert outlook(reader, home, here=HERE, gpus=FakeGpus(2), host="lab")[first].reason.startswith(
            f"waits for an idle machine: run {other} holds 1 until about"
        )


LIKE = Estimate(40.0, 30.0, 50.0, 3)


def test_like_runs_share_all_settings_that_cost_time(home: Home) -> None:
    config = {"trainers": 2, "epochs": 3, "seed": 0, "learning_rate": 0.1}
    past = [
        PastRun(config | {"seed": 7, "learning_rate": 0.5}, 2, 0, 30.0),
        PastRun(config, 2, 0, 50.0),
        PastRun(config | {"epochs": 9}, 2, 0, 90.0),
        PastRun(config, 2, 0, 500.0, disturbed=True),
        PastRun(config, 1, 0, 80.0, disturbed=True),
        PastRun(config, 2, 1, 5.0),
    ]
    assert by_kind(past)[kind_of(dict(reversed(config.items())), 2, 0)] == [*past[:2], past[3]]


def test_disturbed_runs_count_only_where_there_are_no_others_and_never_for_an_idle_machine(
    home: Home, store: Store, finished: Finish
) -> None:
    def disturb(run_id: int) -> None:
        store.worker.write(run_id, [], run_points=[Point("perf/disturbance", 9, 31.4, 9.0, None)])

    disturb(finished(300.0, epochs=1))
    for epochs in ([1], [1, 2], [5]):  # an equal run, a run with more values, a run estimated from its work
        found = asked(home, epochs)
        assert (found.idle_s, found.is_disturbed) == (None, True), epochs
        assert found.ends_in_s == pytest.approx(300.0 * max(epochs), rel=0.01), "a disturbed time is better than none"
    finished(100.0, epochs=1)
    found = asked(home, [1])
    assert found.idle_s == found.ends_in_s == pytest.approx(100.0, abs=1) and not found.is_disturbed


@pytest.mark.parametrize(
    ("held_s", "share", "on_s", "takes", "soonest", "expected"),
    [
        (10, 0.0, 0, None, None, None),  # nothing tells
        (2, 0.25, 1, None, None, None),  # nor do the first seconds
        (12, 0.001, 10, None, None, None),  # nor too little work
        (12, 0.25, 10, None, 15.0, 30.0),  # its own pace
        (12, 0.25, 10, LIKE, 15.0, 30.0),  # which counts more than its like
        (12, 0.01, 10, LIKE, 9.0, 28.0),  # but not at the very beginning
        (12, 0.0, 0, LIKE, 9.0, 28.0),
        (45, 0.0, 0, LIKE, 0.0, 5.0),  # past the median: the longest
        (60, 0.0, 0, LIKE, 0.0, 6.0),  # past that too
        (12, 1.0, 10, LIKE, 0.0, 0.0),
    ],
)
def test_the_rest_of_a_run(
    held_s: float, share: float, on_s: float, takes: Estimate | None, soonest: float | None, expected: float | None
) -> None:
    found = left(held_s, share, on_s, takes)
    assert found == (
        soonest if soonest is None else pytest.approx(soonest),
        expected if expected is None else pytest.approx(expected),
    )
