"""Sweeps for timing: the runner repeats combinations until their median times are known, on an idle machine."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.analysis.run_values import is_warm_up, measured
from engine.errors import ConfigError
from engine.home import Home
from engine.recorder import Point
from engine.runner.placement import LONGEST_S, IdleCheck
from engine.runner.runner import Runner
from engine.runner.schedulers import Repeats
from engine.store import Launch, Reader, RunRow, Store, Sweep, SweepLaunch
from engine.store.launches import Timing
from engine.store.sweeps.sweeps import SEED
from engine.sweep.extend import combinations, extend_sweep, missing
from engine.sweep.launch import launch_sweep
from engine.system.cpu_use import CoreUse
from engine.system.machine import Machine
from engine.system.processes import me
from tests.fake_gpus import FakeGpus
from tests.runner.test_runner import PaperLauncher

Times = Callable[[RunRow], float | None]
"""The execution time (s) of a run; None for one that fails."""


def launched(home: Home, *, seeds: int = 6, within: float = 0.05, most: int = 12) -> int:
    return launch_sweep(
        home,
        SweepLaunch(
            Launch("hogwild", {"dataset": "digits"}, "Ada"), {"trainers": [1, 2]}, seeds, timing=Timing(within, most)
        ),
    )


def state(home: Home, sweep_id: int) -> tuple[Sweep, list[RunRow]]:
    with Reader.open(home) as reader:
        return reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)


def finish(home: Home, store: Store, sweep_id: int, time_s: Times) -> list[RunRow]:
    """End all queued runs of a sweep; return them."""
    queued = [run for run in state(home, sweep_id)[1] if run.status == "queued"]
    for run in queued:
        store.claims.claim(run.id, me(), [])
        store.worker.begin(run.id, me(), {})
        store.worker.mark_running(run.id, 0.1)
        seconds = time_s(run)
        store.claims.end(run.id, "finished" if seconds else "failed", "It ended.", execution_time_s=seconds)
    return queued


def looked(home: Home, store: Store, sweep_id: int) -> list[tuple[int, int]]:
    """Return trainers and seed of the runs that a new runner queues."""
    Repeats(home, store).look()
    return [(run.config["trainers"], run.config[SEED]) for run in state(home, sweep_id)[1] if run.status == "queued"]


def steady(run: RunRow) -> float:
    return 10.0 + 0.01 * (run.config[SEED] % 7)


def noisy(run: RunRow) -> float:
    return steady(run) * (1.0 if run.config["trainers"] == 1 else 1.0 + 0.5 * (run.config[SEED] % 2))


def test_only_what_is_not_known_is_repeated_until_the_cap(home: Home, store: Store) -> None:
    sweep_id = launched(home, most=8)
    first = finish(home, store, sweep_id, noisy)
    sweep, runs = state(home, sweep_id)
    assert [is_warm_up(sweep, run) for run in first] == [True] + [False] * 12
    assert first[0].config == {**first[1].config, SEED: 2**31 - 1}
    assert len(measured(sweep, runs)) == 12
    for seed in (6, 7):
        assert looked(home, store, sweep_id) == [(2, seed)]
        assert looked(home, store, sweep_id) == [(2, seed)], "asked twice, repeated once"
        finish(home, store, sweep_id, noisy)
    assert looked(home, store, sweep_id) == []
    sweep, runs = state(home, sweep_id)
    assert sweep.seeds == tuple(range(8))
    known = {each.values[0]: (len(each.runs), each.is_known(0.05)) for each in combinations(sweep, runs)}
    assert known == {1: (6, True), 2: (8, False)}
    assert {run.owner for run in runs} == {"Ada"}


def test_another_value_gets_runs_of_its_own_and_the_others_none_that_they_did_not_need(
    home: Home, store: Store
) -> None:
    sweep_id = launched(home, most=8)
    finish(home, store, sweep_id, noisy)
    for _ in range(2):
        looked(home, store, sweep_id)
        finish(home, store, sweep_id, noisy)
    extend_sweep(home, sweep_id, {"trainers": [4]}, owner="Ada")
    added = finish(home, store, sweep_id, steady)
    assert [(run.config["trainers"], run.config[SEED]) for run in added] == [(4, seed) for seed in range(6)]
    assert looked(home, store, sweep_id) == []
    extend_sweep(home, sweep_id, {}, 1, owner="Ada")
    more = {(run.config["trainers"], run.config[SEED]) for run in finish(home, store, sweep_id, steady)}
    assert more == {(1, 6), (2, 8), (4, 6)}, "one more of each"
    sweep, runs = state(home, sweep_id)
    assert sweep.seeds == tuple(range(9)) and sum(is_warm_up(sweep, run) for run in runs) == 1


def test_times_that_are_known_need_no_repeat_and_disturbed_ones_do_not_count(home: Home, store: Store) -> None:
    sweep_id = launched(home)
    last = finish(home, store, sweep_id, steady)[-1]
    assert looked(home, store, sweep_id) == []
    sweep, runs = state(home, sweep_id)
    assert missing(sweep, runs) == []
    disturbed = [_disturbed(run) if run.id == last.id else run for run in runs]
    assert [cell.values for cell in missing(sweep, disturbed)] == [{"trainers": 2, SEED: 6}]


def test_a_disturbed_warm_up_is_not_measured_again(home: Home, store: Store) -> None:
    sweep_id = launched(home)
    warm_up, first, *_ = finish(home, store, sweep_id, steady)
    for run in (warm_up, first):
        store.worker.write(run.id, [], run_points=[Point("perf/disturbance", 1, 30.0, 1.0)])
    assert list(store.sweeps.remeasure(sweep_id, by="Ada")) == [first.id]


def _disturbed(run: RunRow) -> RunRow:
    return replace(run, last={**run.last, "perf/disturbance": 30.0})


@pytest.mark.parametrize("what", ["failed", "cancelled", "held", "imported"])
def test_a_sweep_that_failed_or_was_ended_by_a_person_is_not_repeated(home: Home, store: Store, what: str) -> None:
    sweep_id = launched(home, within=0.001)
    if what == "cancelled":
        store.runs.cancel(state(home, sweep_id)[1][-1].id, by="Ada")
    finish(home, store, sweep_id, lambda run: None if what == "failed" else steady(run))
    with store.db.change() as connection:
        if what in ("held", "imported"):
            connection.execute("UPDATE sweeps SET held = ?, fingerprint = ?", [what == "held", "x" * (what != "held")])
    assert looked(home, store, sweep_id) == []


def test_too_few_runs_or_no_distance_are_refused(home: Home) -> None:
    for asked in ({"most": 5}, {"seeds": 13}, {"within": 0.0}, {"within": 1.0}):
        with pytest.raises(ConfigError):
            launched(home, **asked)  # type: ignore[arg-type]


class Cores:
    """Cores of which `used` are busy, by a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now, self.used, self.used_s = 0.0, 0.0, 0.0

    def read(self, cores: Sequence[int]) -> CoreUse | None:
        return CoreUse(self.used_s, 0.0)

    def move(self, seconds: float) -> None:
        self.now += seconds
        self.used_s += self.used * seconds

    def check(self) -> IdleCheck:
        return IdleCheck(range(4), self.read, lambda: self.now)


def test_a_run_waits_for_an_idle_window_and_starts_at_last_on_a_busy_machine() -> None:
    cores = Cores()
    check = cores.check()
    cores.used = 0.2  # of 4 cores: the console and a browser
    assert not check.may_start(1)
    cores.move(0.5)
    assert not check.may_start(1)
    cores.move(0.5)
    assert check.may_start(1) and check.busy is None
    cores.used = 2.0
    waited = 0.0
    assert not check.may_start(2)
    while waited < LONGEST_S - 1:
        cores.move(1.0)
        waited += 1
        assert not check.may_start(2)
        assert check.busy == pytest.approx(0.5)
    cores.move(1.0)
    assert check.may_start(2)
    cores.move(50.0)  # the run was on
    assert not check.may_start(3)
    cores.used = 0.0
    cores.move(1.0)
    assert check.may_start(3)


def test_counters_that_are_hidden_keep_no_run_waiting() -> None:
    assert IdleCheck(range(4), lambda cores: None, lambda: 0.0).may_start(1)


def test_the_runner_starts_a_timed_run_when_the_machine_is_idle_and_notes_what_it_waits_for(
    home: Home, store: Store
) -> None:
    launched(home)
    cores = Cores()
    cores.used = 3.0
    launcher = PaperLauncher()
    runner = Runner(home, store, launcher, Machine(4, (), "cpu", 8.0), gpus=FakeGpus(0))
    runner.placement.idle = cores.check()
    for _ in range(4):
        runner.step()
        cores.move(1.0)
    assert not launcher.submitted
    with Reader.open(home) as reader:
        waits = [event.detail for event in reader.details.events(1) if event.kind == "waits"]
    assert waits == ["other programs use 75 % of the cores; starts when they stop, or in 15 s at the latest"]
    cores.used = 0.0
    for _ in range(2):
        cores.move(1.0)
        runner.step()
    assert list(launcher.submitted) == [1]
