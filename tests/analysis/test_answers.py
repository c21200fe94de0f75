"""Each ready-made sweep answers its own question from what its runs recorded, or says why it can't."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from engine.analysis.scaling.answers import answer, question
from engine.config_values import read_values
from engine.experiment import ReadySweep
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.registry import experiment, experiments
from engine.store import Launch, RankBatch, RankRow, Reader, Store, SweepLaunch
from engine.store.records import RunRow
from engine.store.timestamps import now
from engine.sweep.launch import launch_sweep
from tests.stand_in import worker

READY = {(one.name, ready.question): ready for one in experiments() for ready in one.ready_sweeps}
SPLITS, SCALING, CONTEST, STALE = (
    ("pipeline", "Find the sweet spot of splits"),
    ("hogwild", "Show scaling"),
    ("batched_reinforce", "Batching against per call"),
    ("async_sgd", "Does staleness hurt?"),
)
RARELY = ("sync_sgd", "How rarely may trainers average?")
Recorded = Mapping[str, Any]
"""Time, seconds of each rank by phase, cores, last points, and gradients by staleness."""


def launched(home: Home, key: tuple[str, str]) -> int:
    """Queue a ready-made sweep as the form does, but with two seeds."""
    (name, _), ready = key, READY[key]
    known = experiment(name)
    grid = {field: read_values(known.config, field, text) for field, text in ready.over.items()}
    settings = {**known.preset(ready.preset).settings, **ready.changes}
    return launch_sweep(
        home, SweepLaunch(Launch(name, settings, "Ada", ready.preset), grid, 2, equal_work=ready.equal_work)
    )


def end(home: Home, run: RunRow, found: Recorded) -> None:
    """Take a run to its end with what it recorded; each other seed takes 1 % longer."""
    config = experiment(run.experiment).config.check(run.config)
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        store.worker.begin(run.id, worker(), {"host": "lab", "cores": found.get("cores", 16)})
        rows = [RankRow(rank, role, None, "cpu", "running", 9, now(), None) for rank, role in enumerate(config.roles)]
        store.worker.add_ranks(run.id, rows)
        store.worker.mark_running(run.id, 0.5)
        batches = [
            RankBatch(
                row.rank,
                [Point("train/loss", step, 2.0 - step / 40, 0.1 * step) for step in range(40)],
                found.get("phases", {}),
                histograms={("staleness", age): count for age, count in found.get("ages", {}).items()},
            )
            for row in rows
            if row.role not in config.server_roles
        ]
        points = [Point(name, 40, value, 9.0) for name, value in found.get("points", {}).items()]
        done = experiment(run.experiment).work(config).amount  # type: ignore[misc]
        store.worker.write(run.id, batches, run_points=points, progress=(done, done, "samples"))
        time_s = found["time_s"] * (1 + 0.01 * (run.config["seed"] % 2))
        store.claims.end(run.id, "finished", "Completed successfully", execution_time_s=time_s)


def answered(home: Home, key: tuple[str, str], recorded: Callable[[Mapping[str, Any]], Recorded | None]) -> str:
    """Return the answer of a sweep of which a run ends with what `recorded` says of its config, or stays queued."""
    sweep_id = launched(home, key)
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
    for run in runs:
        if (found := recorded(run.config)) is not None:
            end(home, run, found)
    with Reader.open(home) as reader:
        return answer(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id), reader)


def splits(**times: float | None) -> Callable[[Mapping[str, Any]], Recorded | None]:
    """Return what pipelines record that take so long by splits: of one half the time waiting, and computing longer the
    more splits there are.
    """

    def recorded(config: Mapping[str, Any]) -> Recorded | None:
        count, time_s = config["splits"], times[f"of_{config['splits']}"]
        if time_s is None:
            return None
        waited = time_s / (1 + count)
        bubble = {"perf/bubble_share": 100 / (1 + count)}
        return {"time_s": time_s, "phases": {"wait": waited, "compute": time_s - waited}, "points": bubble}

    return recorded


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (
            {"of_1": 20.0, "of_2": 12.0, "of_4": 10.0, "of_8": 14.0},
            "Sweet spot: 4 splits, 10.1 s; 2 splits are slower (12.1 s) because stages were idle for 33 % of the time "
            "instead of 20 % (bubbles); 8 splits are slower (14.1 s) because each rank computed 12.4 s instead of 8 s.",
        ),
        (
            {"of_1": 20.0, "of_2": 10.2, "of_4": 10.0, "of_8": 14.0},
            "Sweet spot: 4 splits, 10.1 s, without a clear difference from 2 splits (10.3 s); 1 split is slower "
            "(20.1 s) because stages were idle for 50 % of the time instead of 20 % (bubbles); 8 splits are slower",
        ),
        ({"of_1": 20.0, "of_2": 15.0, "of_4": 12.0, "of_8": 9.0}, "; more than 8 splits were not tried."),
        (dict.fromkeys(("of_1", "of_2", "of_4", "of_8"), 10.0), "No sweet spot: no clear difference between 1 split "),
        (
            {"of_1": 20.0, "of_2": 12.0, "of_4": None, "of_8": None},
            "idle for 50 % of the time instead of 33 % (bubbles). Without a complete run yet: 4 splits, 8 splits.",
        ),
        (
            {"of_1": 20.0, "of_2": None, "of_4": None, "of_8": None},
            "No answer yet: at least 1 more run has to end.",
        ),
    ],
)
def test_the_sweet_spot_is_named_with_why_its_neighbours_are_slower(
    home: Home, times: dict[str, float | None], said: str
) -> None:
    assert said in answered(home, SPLITS, splits(**times))


def test_there_is_no_answer_yet_while_a_run_has_not_ended_whatever_the_others_came_to(home: Home) -> None:
    sweep_id = launched(home, SPLITS)
    with Store.open(home) as store:
        *others, last = store.read.sweeps.runs(sweep_id)
        for ended, begin in (
            (others, "No answer yet: 0 of 4 combinations have a complete run."),
            ([last], "No answer to"),
        ):
            for run in ended:
                store.runs.cancel(run.id, by="Ada")
            sweep, runs = store.read.sweeps.one(sweep_id), store.read.sweeps.runs(sweep_id)
            assert answer(sweep, runs, store.read).startswith(begin)


def test_two_neighbours_that_are_slower_for_the_same_reason_share_it(home: Home) -> None:
    times = {1: 20.0, 2: 12.0, 4: 10.0, 8: 14.0}
    said = answered(home, SPLITS, lambda config: {"time_s": times[config["splits"]], "phases": {}, "points": {}})
    reason = "for a reason that is not known, since the phases of the ranks were not recorded."
    assert f"; 2 splits (12.1 s) and 8 splits (14.1 s) are slower {reason}" in said


@pytest.mark.parametrize(
    ("speed_up", "cores", "said"),
    [
        (
            {1: 1.0, 2: 1.9, 4: 3.0},
            16,
            "4 trainers do 3 times the work per second of 1 trainer; ranks of 4 trainers waited and communicated "
            "10 % of the time.",
        ),
        (
            {1: 1.0, 2: 1.9, 4: 1.2},
            16,
            "Fastest at 2 trainers (1.9 times the work per second of 1 trainer); 4 do 1.2 times: slower with 4 "
            "trainers because all ranks together computed ",
        ),
        (
            {1: 1.0, 2: 1.9, 4: 1.2},
            2,
            ": slower with 4 trainers because they are oversubscribed (4 threads on 2 cores).",
        ),
        ({1: 1.0, 2: 1.0, 4: 1.0}, 16, "No clear difference in work per second from 1 to 4 trainers: "),
    ],
)
def test_scaling_is_told_with_what_the_most_trainers_lost_time_with(
    home: Home, speed_up: dict[int, float], cores: int, said: str
) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded:
        time_s = 40 / speed_up[config["trainers"]]
        return {"time_s": time_s, "cores": cores, "phases": {"compute": 0.9 * time_s, "lock": 0.1 * time_s}}

    assert said in answered(home, SCALING, recorded)


def test_no_cause_is_certain_where_other_programs_disturbed_an_oversubscribed_run(home: Home) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded:
        points = {"perf/disturbance": 86.0 if config["trainers"] == 4 else 0.0}
        return {"time_s": 20.0 * config["trainers"], "cores": 2, "points": points}

    sweep_id = launched(home, SCALING)
    with Reader.open(home) as reader:
        for run in reader.sweeps.runs(sweep_id):
            end(home, run, recorded(run.config))
    with Reader.open(home) as reader:
        said = answer(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id), reader, with_disturbed=True)
    assert said.startswith("With disturbed runs: No clear speed-up: ")
    assert (
        "maybe because they are oversubscribed (4 threads on 2 cores), maybe because other programs disturbed" in said
    )
    assert "Other programs took 86 % of the CPU time of 2 of 6 runs: repeat them on an idle machine." in said


def test_the_faster_mode_is_named_for_each_number_of_observers_with_its_interval_and_reason(home: Home) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded:
        time_s = 30.0 if config["mode"] == "per_call" and config["observers"] == 4 else 10.0
        return {"time_s": time_s, "phases": {"compute": 4.0, "wait": time_s - 4.0}}

    assert answered(home, CONTEST, recorded) == (
        "With 1 observer, no clear difference; with 4 observers, batched is 3 times as fast as per_call because ranks "
        "waited 87 % of the time instead of 60 %."
    )


@pytest.mark.parametrize(
    ("drop", "noise", "said"),
    [
        (
            0.5,
            0.05,
            "Does staleness hurt? Yes with plain (test accuracy -0.500 points per update of staleness, 95 % interval -",
        ),
        (0.0, 1.0, "Does staleness hurt? Not measurably with plain (test accuracy "),
    ],
)
def test_staleness_is_judged_by_its_association_with_the_result(
    home: Home, drop: float, noise: float, said: str
) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded:
        age = config["trainers"] - 1
        cost = drop * age if config["rule"] == "plain" else 0.0
        accuracy = 96.0 - cost + noise * (0.5 - config["seed"]) * (1 if age % 2 else -1)
        return {"time_s": 10.0, "ages": {age: 100}, "points": {"test/accuracy": accuracy}}

    found = answered(home, STALE, recorded)
    assert found.startswith(said) and " Not measurably with staleness_scaled (" in found
    assert len({len(number.partition(".")[2]) for number in re.findall(r"[+-]\d+\.\d+", found)}) == 1, found
    assert "staleness_scaled divides each step by 1 + staleness" in found
    assert found.endswith("One test image of 360 is 0.28 points.")
    assert ("Staleness grows with the trainers, so this is an association." in found) == (drop > 0)


def test_runs_that_did_not_learn_say_nothing_of_staleness(home: Home) -> None:
    found = answered(home, STALE, lambda config: {"time_s": 9.0, "ages": {0: 9}, "points": {"test/accuracy": 10.0}})
    assert found == 'No answer to "Does staleness hurt?": no complete run that learned has recorded staleness.'


def test_a_reason_that_both_rules_have_is_said_once(home: Home) -> None:
    ages = {"ages": {0: 9}, "points": {"test/accuracy": 95.0}}
    assert answered(home, STALE, lambda config: {"time_s": 9.0, **ages}) == (
        'No answer to "Does staleness hurt?": The mean staleness of runs of the same seed differs by at most 0.00 '
        "updates. Add runs with other numbers of trainers for each seed."
    )


@pytest.mark.parametrize(("key", "ready"), READY.items())
def test_every_ready_made_sweep_has_an_answer_and_none_before_its_runs(
    home: Home, key: tuple[str, str], ready: ReadySweep
) -> None:
    assert (
        answered(home, key, lambda config: None)
        == "No answer yet: at least 2 more runs of different values have to end."
    )
    one = answered(home, key, lambda config: {"time_s": 10.0} if config["seed"] == 0 else None)
    assert "One run each: their spread is unknown." in one or one.startswith("No answer yet"), one
    assert one.startswith(("So far: ", "No answer yet: ")) and "Add " not in one


def test_seeds_far_apart_do_not_hide_what_staleness_does_within_each(home: Home) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded:
        age, seed = config["trainers"] - 1, config["seed"]
        accuracy = 96.0 - 4 * seed - 0.3 * age + 0.05 * (-1) ** (age + seed)
        return {"time_s": 10.0, "ages": {age: 100}, "points": {"test/accuracy": accuracy}}

    found = answered(home, STALE, recorded)
    assert found.startswith("Does staleness hurt? Yes with plain (") and "6 runs, compared seed by seed)" in found
    assert "Not measurably" not in found


def test_single_runs_get_no_verdict_on_accuracy_but_their_numbers_and_what_is_missing(home: Home) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded | None:
        age = config["trainers"] - 1
        if config["seed"] == 0 if config["rule"] == "plain" else config["trainers"] == 1:
            return {
                "time_s": 10.0,
                "ages": {age: 100},
                "points": {"test/accuracy": 96.0 - 0.5 * age + 0.1 * (age == 1)},
            }
        return None

    assert answered(home, STALE, recorded) == (
        "So far: Does staleness hurt? No verdict with plain: test accuracy 96.00 % at 0.00, 95.60 % at 1.00 and "
        "94.50 % at 3.00 updates of mean staleness. No verdict with staleness_scaled: test accuracy 96.00 % at 0.00 "
        "updates of mean staleness. A verdict needs 2 seeds of each value: 7 more runs. staleness_scaled divides each "
        "step by 1 + staleness: a change of its accuracy may come from the smaller steps. One test image of 360 is "
        "0.28 points. Without a complete run yet: trainers 2, staleness_scaled; trainers 4, staleness_scaled."
    )


def test_a_trade_off_needs_equal_work_and_leaves_no_run_out_for_its_time(home: Home) -> None:
    def recorded(config: Mapping[str, Any]) -> Recorded:
        exchanged = 20.0 if config["sync"] == "gradients" else 20.0 / config["average_every"]
        loss = 0.1 if config["average_every"] < 200 or config["sync"] == "gradients" else 0.2
        points = {"perf/exchanged": exchanged, "test/loss": loss, "test/accuracy": 95.0, "perf/disturbance": 50.0}
        return {"time_s": 10.0, "points": points}

    said = answered(home, RARELY, recorded)
    assert said.startswith("How rarely may trainers average? Less data exchanged: ")
    assert "data exchanged 0.4 MB instead of 20 MB of gradients (0.02 times), test accuracy +0.000 points" in said
    assert "A verdict on a tolerance of 2 points needs 3 seeds of each value." in said


def test_other_sweeps_have_no_question(home: Home) -> None:
    settings = experiment("hogwild").preset("quick").settings
    sweep_id = launch_sweep(home, SweepLaunch(Launch("hogwild", settings, "Ada"), {"batch_size": [8, 16]}))
    with Reader.open(home) as reader:
        assert question(reader.sweeps.one(sweep_id)) is None
        assert answer(reader.sweeps.one(sweep_id), [], reader) == ""


def test_each_ready_made_sweep_is_explained() -> None:
    explained = (ROOT / "docs" / "sweeps.md").read_text()
    assert all(f"| {question} |" in explained for _, question in READY)
