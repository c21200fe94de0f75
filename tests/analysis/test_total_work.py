"""The total work of a run, as declared and as recorded, and the sentence on runs that did unequal work."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from engine.analysis.total_work import counted, declared, unequal_work, work_of
from engine.experiment.work import Work
from engine.registry import EXPERIMENTS, experiment, method
from engine.runtime.worker.ranks import LocalRanks
from engine.store import Surroundings
from engine.store.records import RunRow, Status
from tests.analysis.test_speedup import run as finished

DIGITS = 1_437


def run(run_id: int, name: str = "hogwild", status: Status = "finished", **changes: Any) -> RunRow:
    known = experiment(name)
    return finished(run_id, status, name, **known.config.check({"dataset": "digits", **changes}).model_dump())


def around(done: Mapping[int, int], unit: str = "samples") -> dict[int, Surroundings]:
    return {
        run_id: Surroundings("host", "cpu", 2, (), "", 1, (("trainer1", "cpu"),), work, unit)
        for run_id, work in done.items()
    }


def said(groups: Mapping[str, Sequence[RunRow]], done: Mapping[int, int] | None = None) -> str:
    return unequal_work(groups, around(done or {}))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("hogwild", {"trainers": 4, "epochs": 6}, "24 passes, 34,488 samples, 552 updates"),
        ("async_sgd", {"trainers": 4, "epochs": 6}, "6 passes, 8,622 samples, 144 updates"),
        ("sync_sgd", {"trainers": 4, "rounds": 6}, "6 passes, 8,622 samples, 36 updates"),
        ("parameter_server", {"trainers": 4, "epochs": 6}, "6 passes, 8,622 samples, 36 updates"),
        ("reference", {"epochs": 1}, "1 pass, 1,437 samples, 23 updates"),
        ("pipeline", {"dataset": "random", "batches": 3}, "96 samples, 3 updates, 12 micro-batches"),
    ],
)
def test_the_total_work_counts_passes_samples_and_updates(name: str, changes: dict[str, Any], words: str) -> None:
    config = experiment(name).config.check({"dataset": "digits", **changes})
    found = declared(name, config.model_dump())
    assert found and found.in_words() == words
    twice = config.model_copy(update={found.length: 2 * getattr(config, found.length)})
    assert experiment(name).work(twice).amount == 2 * found.amount  # type: ignore[misc]


def test_every_experiment_that_trains_declares_its_work_for_each_preset() -> None:
    for name in EXPERIMENTS:
        known = experiment(name)
        assert known.work, name
        for preset in known.presets:
            config = known.configure(preset)
            found = known.work(config)
            assert isinstance(getattr(config, found.length), int) and min(found.amount, found.updates) > 0


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("hogwild", {"trainers": 3, "epochs": 2}),
        ("sync_sgd", {"trainers": 3, "rounds": 2, "transport": "shared_memory"}),
        ("sync_sgd", {"trainers": 2, "rounds": 2, "average_every": 2, "transport": "shared_memory"}),
        ("reference", {"epochs": 2}),
    ],
)
def test_the_declared_work_is_what_a_run_records(name: str, changes: dict[str, Any]) -> None:
    known = experiment(name)
    config = known.config.check({"dataset": "digits", "batch_size": 100, **changes})
    ranks = LocalRanks(config.roles, seed=config.seed)
    method(name)(config, ranks)
    found = declared(name, config.model_dump())
    assert found
    assert sum(each.done for each in ranks.recorders.values()) == found.amount
    assert max(point.passes or 0.0 for each in ranks.recorders.values() for point in each.points) == pytest.approx(
        found.passes
    )


def test_a_comparison_of_unequal_work_names_the_numbers() -> None:
    groups = {f"{n} trainer{'s' * (n > 1)}": [run(n, trainers=n, epochs=6)] for n in (1, 2, 4)}
    assert said(groups) == (
        "Unequal total work: 1, 2 and 4 trainers: 6, 12 and 24 passes. Every metric may differ because of it."
    )
    named = {"run 1": [run(1, trainers=1, epochs=6)], "run 2": [run(2, "reference", epochs=3)]}
    assert said(named).startswith("Unequal total work: run 1: 6 passes; run 2: 3 passes.")
    many = {f"{n} trainers": [run(n, trainers=n, epochs=6)] for n in range(2, 10)}
    assert "from 12 passes (2 trainers) to 54 passes (9 trainers)." in said(many)
    random = {
        "a": [run(1, "pipeline", dataset="random", batches=2)],
        "b": [run(2, "pipeline", dataset="random", batches=4)],
    }
    assert "a: 64 samples; b: 128 samples." in said(random)


def test_equal_work_and_work_in_different_units_say_nothing() -> None:
    assert said({f"{n} trainers": [run(n, "async_sgd", trainers=n)] for n in (2, 4)}) == ""
    assert said({f"{n} trainers": [run(n, trainers=n, epochs=24 // n)] for n in (2, 4)}) == ""
    played = finished(3, experiment="dppo", **experiment("dppo").configure("quick").model_dump())
    assert said({"run 1": [run(1)], "run 3": [played]}) == ""
    assert said({}) == ""


def test_a_run_that_ended_early_counts_what_it_recorded_and_one_that_goes_on_what_it_will_do() -> None:
    whole = run(1, "async_sgd", epochs=10)
    for status, shown in (("cancelled", "5 passes"), ("running", "")):
        other = run(2, "async_sgd", status, epochs=10)  # type: ignore[arg-type]
        found = said({"run 1": [whole], "run 2": [other]}, {1: 10 * DIGITS, 2: 5 * DIGITS})
        assert found == (
            ""
            if not shown
            else f"Unequal total work: run 1: 10 passes; run 2: {shown}. Every metric may differ because of it."
        )
    ranged = {"run 1": [whole], "both": [run(2, "async_sgd", "cancelled"), run(3, "async_sgd")]}
    assert "both: 5 to 10 passes" in said(ranged, {2: 5 * DIGITS})
    assert counted(ranged)["both"] == [ranged["both"][1]]


def test_runs_of_an_experiment_without_declared_work_are_judged_by_what_they_recorded() -> None:
    strange = [finished(place, experiment="of_tomorrow") for place in (1, 2)]
    assert work_of(strange[0]) is None
    found = unequal_work({"run 1": strange[:1], "run 2": strange[1:]}, around({1: 10, 2: 20}, "frames"))
    assert "run 1: 10 frames; run 2: 20 frames." in found
    assert work_of(strange[0], around({1: 10}, "frames")[1]) == Work("", 10, "frames")
