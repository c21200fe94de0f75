"""What a new experiment needs outside its folder: its line in the table, and nothing else."""

import re
import sys
from types import ModuleType
from typing import Any, ClassVar

import pytest

from app.charts.curve_points import clocks
from app.charts.sweep_data import EXECUTION, references
from app.run.summary_html import tiles
from app.scaling.staleness import _who_records_it
from engine import registry
from engine.analysis.comparability import crowded
from engine.analysis.scaling.findings import of_sweep
from engine.analysis.scaling.scaling_data import Study, at_once, axis_of, words_of
from engine.config import Config, setting
from engine.data.catalogue import DatasetName, bytes_exchanged, steps_of
from engine.duel.launch import config_of, facts, tuning_cells
from engine.duel.spec import Budget, Duel, read_strategy, ready
from engine.errors import ConfigError
from engine.experiment import (
    Baseline,
    Clock,
    Contender,
    Experiment,
    Flow,
    Pace,
    Preset,
    Ready,
    Reference,
    Scaling,
)
from engine.home import Home
from engine.recorder import Point
from engine.seeding import FIRST_SERVER, place_of
from engine.store import Launch, RankBatch, RankRow, Reader, Store, Surroundings, SweepLaunch
from engine.store.timestamps import now
from engine.sweep.launch import launch_sweep
from engine.system.machine import demand, machine
from tests.stand_in import worker


class ToyConfig(Config):
    """A hub and some workers."""

    server_roles: ClassVar[tuple[str, ...]] = ("hub",)
    workers: int = setting(2, "Workers.", low=1, high=8)
    groups: int = setting(1, "Groups that work at a time.", low=1, high=8)
    laps: int = setting(1, "Passes over the data.", low=1, high=100)
    batch_size: int = setting(32, "Samples in a mini-batch.", low=1, high=100)
    learning_rate: float = setting(0.01, "Step size.", above=0, high=1)
    dataset: DatasetName = setting("digits", "What is learned.")

    @property
    def roles(self) -> tuple[str, ...]:
        return ("hub", *(f"worker{number}" for number in range(1, self.workers + 1)))


def halves(baseline: Baseline, counts: Any) -> list[Reference]:
    return [Reference("ideal", "dash", tuple(baseline.execution_time_s / count for count in counts))]


TOY = Experiment(
    name="toy",
    title="Toy",
    tagline="A hub and its workers",
    sentence="A hub and its workers.",
    pattern="batched server",
    flows=(Flow("hub", "workers", "work"),),
    source="None",
    config=ToyConfig,
    presets={"quick": Preset("Quick.", {})},
    headline=("perf/toys",),
    update_clock=Clock("train/loss", counts="points"),
    stale_gradients="a toy",
    axis="workers",
    counts={"workers": "worker"},
    scaling=Scaling("workers", 1, halves, "Halves.", called="The halves", at_once="groups"),
    duel=Contender(
        length="laps",
        pace=lambda config: Pace(1.0, steps_of(config.dataset, config.batch_size), bytes_exchanged(2.0)),
        strategies={"toy": Ready("Toy"), "large_toy": Ready("Large toy", {"groups": 2})},
        data="whatever the hub gives",
        momentum=lambda config: "none",
        tests="by the hub",
        gradients=lambda config: config.workers,
        given=lambda settings: {"workers": settings["workers"]},
    ),
)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Put a folder's `config` where the table finds it, and its line into the table."""
    folder = ModuleType("engine.experiments.toy.config")
    folder.EXPERIMENT = TOY  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, folder.__name__, folder)
    monkeypatch.setattr(registry, "EXPERIMENTS", (*registry.EXPERIMENTS, "toy"))
    return registry.experiment("toy")


def swept(home: Home) -> int:
    """Run a sweep of toys over workers, each in the time that its workers let it."""
    sweep_id = launch_sweep(home, SweepLaunch(Launch("toy", {"groups": 2}, "Ada"), {"workers": [1, 2, 4]}, 1))
    with Reader.open(home) as reader, Store.open(home) as store:
        for run in reader.sweeps.runs(sweep_id):
            config = ToyConfig.check(run.config)
            store.claims.claim(run.id, worker(), [])
            store.worker.begin(run.id, worker(), {"host": "lab", "cpu": "Xeon", "cores": 8, "gpus": []})
            store.worker.add_ranks(
                run.id,
                [RankRow(rank, role, None, "cpu", "running", 9, now(), None) for rank, role in enumerate(config.roles)],
            )
            store.worker.mark_running(run.id, 1.0)
            points = [Point("train/loss", step, 1.0 / step, step / 2, step / 4) for step in range(1, 5)]
            store.worker.write(
                run.id, [RankBatch(1, [*points, Point("perf/toys", 4, 7.0, 2.0, 1.0)])], progress=(8, 8, "laps")
            )
            store.claims.end(run.id, "finished", "It finished.", execution_time_s=12.0 / config.workers)
    return sweep_id


def test_its_runs_have_a_headline_a_clock_and_a_place_in_scaling(home: Home) -> None:
    sweep_id = swept(home)
    with Reader.open(home) as reader:
        runs, sweep = reader.sweeps.runs(sweep_id), reader.sweeps.one(sweep_id)
        assert re.search(r"toys.*<strong>7", tiles(reader.details.summaries(runs[0].id), runs[0]))
        assert "loss" not in tiles(reader.details.summaries(runs[0].id), runs[0])
        ((times, made),) = clocks(reader, runs[0], "updates")
        assert (times.tolist(), made.tolist()) == ([0.5, 1.0, 1.5, 2.0], [1.0, 2.0, 3.0, 4.0])
        found = of_sweep(sweep, runs, reader)
        assert isinstance(found, Study)
        assert (found.field, [timing.count for timing in found.timings]) == ("workers", [1, 2, 4])
        lines, said = references(sweep, runs, EXECUTION, reader)
        assert (lines[()][0].times_s, said) == ((12.0, 6.0, 3.0), "")
        assert "The halves need" in references(sweep, runs[1:], EXECUTION, reader)[1]
    assert (axis_of(["seed", "workers"]), words_of("workers")) == ("workers", ("workers", "worker"))
    assert at_once(runs, "workers") == 2
    assert _who_records_it().endswith(", by Hogwild!, and by a toy")


def test_its_hub_is_a_server_everywhere() -> None:
    config = TOY.configure(None, {"workers": 4, "threads_per_rank": 2})
    assert TOY.server_roles == ("hub",)
    assert demand(config, machine()).cores == min(9, machine().cores)
    assert ToyConfig.check({"workers": 2}).threads(cores=8) == 4
    assert place_of(0, config.roles, registry.server_roles()) == FIRST_SERVER
    ranks = tuple((role, "cpu") for role in config.roles)
    assert crowded(Surroundings("lab", "Xeon", 4, (), "", 1, ranks, 8, "laps")) == "5 threads on 4 cores"
    assert crowded(Surroundings("lab", "Xeon", 9, (), "", 2, ranks, 8, "laps")) == ""


def test_it_duels() -> None:
    assert list(ready())[-2:] == ["toy", "large_toy"]
    own = read_strategy("Two=large_toy: workers=4")
    duel = Duel((own, ready()["hogwild"]), Budget("passes", 3), {"dataset": "digits", "trainers": 2}, seeds=1).checked()
    assert (
        config_of(duel, own, 0.1, 0).model_dump() | {"laps": 3, "groups": 2, "workers": 4}
        == config_of(duel, own, 0.1, 0).model_dump()
    )
    told = facts(duel)[0]
    assert (told.length, told.momentum, told.samples, told.processes) == ("3 laps", "none", 4 * 32, 5)
    assert {cell.strategy for cell in tuning_cells(duel)} == {0, 1}
    with pytest.raises(ConfigError, match="laps can't be set per strategy: the budget sets the length"):
        read_strategy("toy: laps=3")
