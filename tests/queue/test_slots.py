"""GPUs and cores go to one run at a time, and only where the GPU is really free."""

from dataclasses import replace
from typing import Any

import pytest

from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.queue.slots import Slots, foreign_gpus, free_cores, least_shared, place
from engine.store import Demand, Launch, Run, Store
from engine.system.machine import FREE_MB, Gpu, Machine, NvmlGpus, machine
from tests.fake_gpus import FakeGpus

HERE = Machine(4, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0, (2, 3, 6, 7))


@pytest.fixture
def blank(home: Home) -> Run:
    with Store.open(home) as store:
        return store.read.runs.one(store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1))))


def asking(blank: Run, want_cores: int = 1, want_gpus: int = 0, /, **more: Any) -> Run:
    return replace(blank, demand=Demand(want_cores, want_gpus, want_cores, 1), **more)


def test_cores_are_given_by_number_to_one_run_at_a_time(blank: Run) -> None:
    first = place(asking(blank, 3), [], HERE, {})
    assert first == Slots((), (2, 3, 6))
    on = [asking(blank, 3, cores=first.cores)]
    assert place(asking(blank, 1), on, HERE, {}) == Slots((), (7,))
    assert place(asking(blank, 2), on, HERE, {}) is None
    assert free_cores(on, HERE) == 1


def test_a_run_that_may_be_oversubscribed_gets_the_least_shared_cores(blank: Run) -> None:
    on = [asking(blank, 3, cores=(2, 3, 6))]
    shared = asking(blank, 2, terms=LaunchOptions(oversubscribe=True))
    assert place(shared, on, HERE, {}) == Slots((), (2, 7))
    on.append(replace(shared, cores=(2, 7)))
    assert place(asking(blank, 1), on, HERE, {}) is None
    assert place(shared, on, HERE, {}) == Slots((), (3, 6))


def test_a_run_that_shares_cores_keeps_as_many_from_others_as_it_asked_for(blank: Run) -> None:
    """It is bound to none of them, so after the other run's end it computes on those too."""
    shares = asking(blank, 2, terms=LaunchOptions(oversubscribe=True), cores=(2, 3))
    assert place(asking(blank, 3), [shares], HERE, {}) is None
    assert place(asking(blank, 2), [shares], HERE, {}) == Slots((), (6, 7))


def test_a_run_of_an_older_version_holds_cores_without_numbers(blank: Run) -> None:
    assert least_shared(2, [asking(blank, 2)], HERE) == (6, 7)
    assert least_shared(2, [], replace(HERE, core_ids=())) == (0, 1)


@pytest.mark.parametrize(
    ("used_mb", "pids", "is_free"), [(FREE_MB, (), True), (FREE_MB + 1, (), False), (10.0, (4711,), False)]
)
def test_a_gpu_that_another_program_uses_is_not_given_out(
    blank: Run, used_mb: float, pids: tuple[int, ...], is_free: bool
) -> None:
    gpus = FakeGpus(2)
    gpus.occupy(0, used_mb=used_mb, pids=pids)
    found = place(asking(blank, 1, 1), [], HERE, gpus.states())
    assert found == Slots((0,) if is_free else (1,), (2,))
    assert foreign_gpus([], HERE, gpus.states()) == ([] if is_free else [0])
    assert (place(asking(blank, 1, 2), [], HERE, gpus.states()) is not None) == is_free


def test_a_gpu_that_fell_off_is_not_given_out_and_one_that_came_back_is(blank: Run) -> None:
    gpus = FakeGpus(2)
    gpus.lose(1)
    assert place(asking(blank, 1, 2), [], HERE, gpus.states()) is None
    gpus.clear(1)
    assert place(asking(blank, 1, 2), [], HERE, gpus.states()) == Slots((0, 1), (2,))


def test_what_our_own_runs_do_on_their_gpus_is_not_foreign(blank: Run) -> None:
    gpus = FakeGpus(2)
    gpus.occupy(0, used_mb=40_000.0, pids=(1, 2))
    on = [asking(blank, 1, 1, gpus=(0,), cores=(2,))]
    assert foreign_gpus(on, HERE, gpus.states()) == []
    assert place(asking(blank, 1, 1), on, HERE, gpus.states()) == Slots((1,), (3,))


def test_nvml_answers_for_each_gpu_of_this_machine() -> None:
    states = NvmlGpus().states()
    assert sorted(states) == [gpu.index for gpu in machine().gpus]
    assert all(state.used_mb >= 0 for state in states.values())


def test_this_machine_knows_its_cores_by_number() -> None:
    assert len(machine().core_ids) == machine().cores
