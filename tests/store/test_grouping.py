"""Groups: runs that differ in the seed alone, whichever page they are on; and values at a step, from the points themselves."""

import math
from collections.abc import Callable

import pytest

from engine.errors import EngineError
from engine.filter import Field, Names, read_filter
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, RankBatch, Reader, Store
from engine.upkeep.collecting import Policy, collect
from tests.store.conftest import WORKER
from tests.store.test_retention import age

LOSS = Field("metric", "train/loss", "number", "last")


@pytest.fixture
def ran(store: Store) -> Callable[..., int]:
    """Bring a run with one loss to its end; return its id."""

    def run(trainers: int, seed: int, loss: float, status: str = "finished", experiment: str = "hogwild") -> int:
        run_id = store.add_run(experiment, {"trainers": trainers, "seed": seed}, owner="ada", demand=Demand(1, 0, 1, 1))
        store.claim(run_id, WORKER, ())
        store.begin(run_id, WORKER, {})
        store.write(run_id, [], run_points=[Point("train/loss", 1, loss, 0.0)])
        store.end(run_id, status, "It ended.")  # type: ignore[arg-type]
        return run_id

    return run


def test_a_group_is_all_runs_of_one_config_but_for_the_seed(reader: Reader, ran: Callable[..., int]) -> None:
    one, two, other = ran(2, 0, 1.0), ran(2, 1, 3.0), ran(4, 0, 9.0)
    bad, elsewhere = ran(2, 2, 50.0, "failed"), ran(2, 0, 5.0, experiment="sync_sgd")
    found = reader.groups()
    assert [(group.experiment, group.config, group.run_ids, group.finished) for group in found] == [
        ("sync_sgd", {"trainers": 2}, (elsewhere,), (elsewhere,)),
        ("hogwild", {"trainers": 2}, (one, two, bad), (one, two)),
        ("hogwild", {"trainers": 4}, (other,), (other,)),
    ]
    assert reader.count_groups() == 3
    assert reader.values(found[1].finished, LOSS) == {one: 1.0, two: 3.0}
    several = [LOSS, Field("metric", "train/loss", "number", "count"), Field("run", "ranks", "number"), Field("config", "trainers", "number")]
    assert reader.values_of([one, bad], several) == {field: reader.values([one, bad], field) for field in several}
    assert list(reader.values_of([one], several)[several[3]].values()) == [2]
    assert [group.run_ids for group in reader.groups(matching=read_filter("trainers == 2 and seed > 0"))] == [(two, bad)]
    assert reader.count_groups(matching=read_filter("trainers == 2 and seed > 0")) == 1


def test_groups_are_sorted_by_the_mean_of_their_finished_runs(reader: Reader, ran: Callable[..., int]) -> None:
    ran(2, 0, 1.0), ran(2, 1, 3.0), ran(2, 2, 50.0, "failed"), ran(4, 0, 2.5), ran(8, 0, 7.0, "failed")
    assert [group.config["trainers"] for group in reader.groups(order=reader.order("-train/loss.last"))] == [4, 2, 8]
    assert [group.config["trainers"] for group in reader.groups(order=reader.order("train/loss.last"))] == [2, 4, 8]
    assert [group.config["trainers"] for group in reader.groups(order=reader.order("train/loss.last"), limit=1, offset=1)] == [4]
    assert [group.config["trainers"] for group in reader.groups(order=reader.order("-trainers"))] == [8, 4, 2]


def test_a_value_at_a_step_is_the_last_finite_one_up_to_it(home: Home, store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id, short = running(), running()
    curve = [Point("train/loss", step, math.nan if step == 2_000 else float(step), step / 10) for step in range(0, 5_000, 10)]
    store.write(run_id, [RankBatch(0, curve), RankBatch(1, curve[:300])])
    store.write(short, [RankBatch(0, curve[:10])])
    both = [run_id, short]
    assert reader.values_at(both, "train/loss", 55) == {run_id: 50.0, short: 50.0}
    assert reader.values_at(both, "train/loss", 2_005) == {run_id: 1_990.0}
    assert reader.values_at(both, "train/loss", 4_000) == {run_id: 4_000.0}, "a rank that did not get so far has no say"
    assert reader.values_at(both, "train/loss", 4_991) == {}
    assert reader.values_at(both, "train/loss", -1) == {}
    assert reader.values_at([short], "test/accuracy", 1) == {}
    store.end(run_id, "finished", "It ended.")
    age(store, run_id, 90)
    before = {step: reader.values_at(both, "train/loss", step) for step in (0, 4_990)}
    collect(home, Policy(30, None, 100), by="ada")
    assert {step: reader.values_at(both, "train/loss", step) for step in before} == before


def test_names_are_those_of_this_version_and_of_the_store(store: Store, reader: Reader, ran: Callable[..., int]) -> None:
    assert reader.metric_names() == []
    ran(2, 0, 1.0)
    store.add_run("gone", {"colour": "red"}, owner="ada", demand=Demand(1, 0, 1, 1))
    names = reader.names()
    assert reader.metric_names() == ["train/loss"]
    assert names.settings["colour"] == "any"
    assert "gone" in names.experiments
    assert set(Names.usual().metrics) <= set(names.metrics)
    with pytest.raises(EngineError, match="No run has that"):
        reader.order("shape")
