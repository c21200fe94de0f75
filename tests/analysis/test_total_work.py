"""The total work of a run, as declared and as recorded, and the sentence on runs that did unequal work."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from engine.analysis.total_work import counted, declared, unequal_work, unreached, unreached_in, work_of
from engine.config import unit_of, without_interval
from engine.experiment import Work
from engine.registry import EXPERIMENTS, experiment, method
from engine.store import Launch, Surroundings, SweepLaunch
from engine.store.records import RunRow, Status
from engine.sweep.plan import cautions, plan
from tests.analysis.test_speedup import run as finished
from tests.doubles import LocalRanks

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
        ("sync_sgd", {"trainers": 3, "rounds": 2}),
        ("sync_sgd", {"trainers": 2, "rounds": 2, "average_every": 2}),
        ("reference", {"epochs": 2}),
        ("pipeline", {"batches": 2, "splits": 3, "image_size": 32}),
        ("pipeline", {"batches": 1, "splits": 7, "mode": "1f1b", "stages": 3, "image_size": 32}),
        ("batched_reinforce", {"observers": 3, "envs_per_observer": 2, "steps": 7, "episodes": 2}),
        ("batched_reinforce", {"observers": 2, "steps": 5, "episodes": 1, "mode": "per_call"}),
    ],
)
def test_the_declared_work_is_what_a_run_records(name: str, changes: dict[str, Any]) -> None:
    known = experiment(name)
    usual = {"dataset": "digits", "batch_size": 100, "transport": "shared_memory"}
    usual = {field: value for field, value in usual.items() if field in known.config.model_fields}
    config = known.config.check(usual | changes)
    ranks = LocalRanks(config.roles, seed=config.seed)
    method(name)(config, ranks)
    found = declared(name, config.model_dump())
    assert found
    assert sum(each.done for each in ranks.recorders.values()) == found.amount
    passes = [point.passes for each in ranks.recorders.values() for point in each.points if point.passes is not None]
    assert found.passes is None or max(passes) == pytest.approx(found.passes)
    total = changes[found.length]
    part = {"sync_sgd": "round", "pipeline": "batch", "batched_reinforce": "round"}.get(name, "epoch")
    assert all(
        each.summarized == [(part, number + 1, total) for number in range(total)] for each in ranks.recorders.values()
    ), "each rank's log has a line for each of them"


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


LENGTHS: dict[str, dict[str, Any]] = {
    "hogwild": {"trainers": 3, "epochs": 8},
    "sync_sgd": {"trainers": 3, "rounds": 8},
    "async_sgd": {"trainers": 3, "epochs": 8},
    "parameter_server": {"trainers": 3, "epochs": 8, "batch_update_size": 2},
    "reference": {"epochs": 8},
    "pipeline": {"batches": 8},
    "batched_reinforce": {"episodes": 8},
    "dppo": {},
}
INTERVALS = [
    (name, field)
    for name in LENGTHS
    for field in experiment(name).config.model_fields
    if "_every" in field and field != "average_every"  # the length of a round
]
"""Every interval of every experiment."""
LIMIT_S = 20.0


@pytest.mark.parametrize(("name", "field"), INTERVALS)
def test_an_interval_longer_than_the_run_is_warned_of_and_one_as_long_is_not(name: str, field: str) -> None:
    known = experiment(name)
    of_data = {"dataset": "digits"} if "dataset" in known.config.model_fields else {}
    settings = {**LENGTHS[name], **of_data, **{other: 0 for each, other in INTERVALS if each == name}}
    plain = known.config.check(settings)
    info = known.config.model_fields[field]
    assert without_interval(info), "declare it by engine.config.interval"
    steps = 8 * -(-DIGITS // getattr(plain, "batch_size", 1))
    length = {"s": LIMIT_S, "steps": steps}.get(unit_of(info), 8)
    for value, is_warned in ((0, False), (length, False), (length + 1, True)):
        said = unreached(known, known.config.check(settings | {field: value}), LIMIT_S)
        assert len(said) == is_warned, said
    assert said[0].startswith(f"{field} is {length + 1:g} {unit_of(info)}, but the ")
    assert said[0].endswith(f": {without_interval(info)}.")
    if unit_of(info) == "s":
        late = known.config.check(settings | {field: length + 1})
        assert not unreached(known, late)
        (note,) = unreached_in(late, LIMIT_S)
        assert note == f"{field} is 21 s, but the run is estimated at 20 s: {without_interval(info)}."
        assert not unreached_in(late, length + 1), "as long as the run"
        assert not unreached_in(late, LIMIT_S - 5, LIMIT_S), "the caution of the time limit says it"


def test_an_interval_without_effect_is_not_warned_of() -> None:
    for name, changes in (
        ("pipeline", {"dataset": "random", "batches": 8, "evaluate_every": 10}),
        ("parameter_server", {"model": "small_resnet", "iterations": 8, "evaluate_every": 10}),
        ("hogwild", {"variant": "tutorial", "start_method": "spawn", "dataset": "digits", "overwrites_every": 10**5}),
    ):
        assert unreached(experiment(name), experiment(name).config.check(changes)) == []


def test_every_preset_tests_as_often_as_it_says() -> None:
    for name in EXPERIMENTS:
        for preset in experiment(name).presets:
            assert unreached(experiment(name), experiment(name).configure(preset)) == [], preset


def test_a_sweep_names_the_values_whose_runs_are_too_short() -> None:
    base = {"dataset": "digits", "evaluate_every": 10}
    said = "evaluate_every is 10 rounds, but the run has"
    two = plan(SweepLaunch(Launch("sync_sgd", base), {"rounds": [4, 8, 12], "trainers": [2, 4]}, 2))
    both = "(rounds {0}, trainers 2) and (rounds {0}, trainers 4)"
    assert cautions("sync_sgd", two) == [
        f"With {both.format(short)}: {said} {short}: it is tested only at the end." for short in (4, 8)
    ]
    assert cautions("sync_sgd", plan(SweepLaunch(Launch("sync_sgd", base | {"rounds": 8}), {"trainers": [1, 2]}))) == [
        f"{said} 8: it is tested only at the end."
    ]
    many = cautions("sync_sgd", plan(SweepLaunch(Launch("sync_sgd", base), {"rounds": list(range(1, 10))})))
    assert (len(many), many[-1]) == (7, "3 more cautions of this kind.")
