"""Runs of an exclusive sweep: alone on the machine from start to end, one after the other, modes in turns."""

from dataclasses import replace

import pytest

from engine.config_values import values_in_words
from engine.home import Home
from engine.queue.forecast import outlook
from engine.queue.slots import Slots, place
from engine.runner.placement import IdleCheck
from engine.runner.runner import Runner, Sampler
from engine.store import Demand, Launch, Reader, Run, Store, SweepLaunch
from engine.sweep.plan import plan
from engine.system.machine import Gpu, Machine
from engine.system.processes import me
from tests.fake_gpus import FakeGpus
from tests.runner.test_runner import PaperLauncher

MACHINE = Machine(8, (Gpu(0, "A", 1), Gpu(1, "B", 1)), "cpu", 8.0)


def sweep(store: Store, count: int = 2) -> None:
    runs = [Launch("hogwild", {"splits": number}, demand=Demand(1, 0, 1, 1)) for number in range(count)]
    store.sweeps.add(SweepLaunch(Launch("pipeline", {}, "ada"), {"splits": list(range(count))}, exclusive=True), runs)


def single(store: Store) -> int:
    return store.runs.add(Launch("hogwild", {}, "ada", demand=Demand(1, 0, 1, 1)))


def runs(home: Home) -> dict[int, Run]:
    with Reader.open(home) as reader:
        return {row.id: reader.runs.one(row.id) for row in reader.runs.find()}


def test_an_exclusive_run_fits_an_idle_machine_alone_and_nothing_fits_beside_it(home: Home, store: Store) -> None:
    sweep(store, 1)
    alone, other = runs(home)[1], replace(runs(home)[1], id=2, exclusive=False)
    assert place(alone, [], MACHINE, {}) == Slots((), (0,))
    assert place(alone, [other], MACHINE, {}) is None
    assert place(other, [alone], MACHINE, {}) is None
    assert place(other, [replace(other, id=3)], MACHINE, {}) is not None
    with_gpu = replace(alone, demand=Demand(1, 2, 1, 1))
    assert place(with_gpu, [], MACHINE, FakeGpus(2).states()) == Slots((0, 1), (0,))


def test_nobody_passes_a_run_that_waits_for_an_idle_machine(home: Home, store: Store) -> None:
    first = single(store)
    sweep(store, 1)
    single(store)
    runner = Runner(home, store, PaperLauncher(), MACHINE, gpus=FakeGpus(2))
    for _ in range(3):
        runner.step()
        runner.placement._passed_at = 0.0
    with Reader.open(home) as reader:
        assert [row.id for row in reader.runs.find() if row.status != "queued"] == [first]


def test_runs_of_a_paused_sweep_are_passed_over_and_their_reason_says_so(home: Home, store: Store) -> None:
    sweep(store, 1)
    free = single(store)
    store.sweeps.hold(1, by="Ada")
    head = store.read.queue.next()
    assert head is not None and head.id == free
    assert not store.claims.claim(1, me(), [])
    with Reader.open(home) as reader:
        assert [run.held_by for run in reader.queue.waiting()] == ["the pause of sweep 1", None]
        assert outlook(reader, home)[1].reason == "held by the pause of sweep 1"


def test_the_runner_starts_exclusive_runs_one_by_one_on_an_idle_machine(home: Home, store: Store) -> None:
    before = single(store)
    sweep(store)
    after = single(store)
    launcher = PaperLauncher()
    runner = Runner(home, store, launcher, MACHINE, gpus=FakeGpus(2))
    runner.placement.idle = IdleCheck((), read=lambda cores: None)
    started: list[int] = []
    for _ in range(4):
        runner.step()
        runner.step()
        new = [run_id for run_id in launcher.submitted if run_id not in started]
        started += new
        assert len(new) == 1, "nothing beside an exclusive run, and no exclusive run beside another"
        store.worker.begin(new[0], launcher.submitted[new[0]], {})
        store.worker.mark_running(new[0], 0.1)
        launcher.reserved = 0
        runner.spare_at = 0.0
        runner.step()
        assert launcher.reserved == (0 if new[0] in (2, 3) else 1), "no spare loads beside a run that is timed"
        store.claims.end(new[0], "finished", "Done.")
    assert started == [before, 2, 3, after]


def test_modes_that_are_compared_take_turns_within_each_seed() -> None:
    settings = {"batch_size": 32, "stages": 2}
    planned = plan(
        SweepLaunch(Launch("pipeline", settings), {"mode": ["gpipe", "1f1b"], "splits": [1, 2]}, 2, exclusive=True)
    )
    assert [(cell.config.seed, cell.config.splits, cell.config.mode) for cell in planned.cells] == [  # type: ignore[attr-defined]
        *((0, 1, "gpipe"), (0, 1, "1f1b"), (0, 2, "gpipe"), (0, 2, "1f1b")),
        *((1, 1, "gpipe"), (1, 1, "1f1b"), (1, 2, "gpipe"), (1, 2, "1f1b")),
    ]
    assert values_in_words(planned.cells[0].values) == "mode gpipe, splits 1, seed 0"


def test_the_runner_samples_the_machine_every_few_seconds(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runner.runner.SAMPLE_S", 600.0)
    sampler = Sampler()
    assert not sampler.look(store)
    monkeypatch.setattr("engine.runner.runner.SAMPLE_S", 0.0)
    runner = Runner(home, store, PaperLauncher(), MACHINE, gpus=FakeGpus(2), sampler=sampler)
    runner.step()
    with Reader.open(home) as reader:
        found = {(sample.source, sample.name): sample.value for sample in reader.machine.samples()}
    assert found["host", "memory_mb"] > 0
    assert 0 <= found["host", "cpu_percent"] <= 100
