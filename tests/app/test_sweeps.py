"""The page of a sweep and the list of all: every run in a matrix by status, links, the cancel of all; and the words
that tests of sweeps share.
"""

import re
from dataclasses import replace
from statistics import stdev
from typing import Any

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.actions import sweep_forecast
from app.actions.sweep_forecast import left
from app.charts.sweep_charts import chart
from app.charts.sweep_data import (
    EXECUTION,
    default_metric,
    groups_of,
    metric_asked,
    metric_choices,
    rank_groups_of,
    references,
)
from app.compare import session_state
from app.core import visitor
from app.export.rerun_commands import sweep_again
from app.links.compare import ids_text
from app.links.launch import sweep_query
from app.runs.rows import _fold_row
from app.sweep import chart as chart_module
from app.sweep.chart import COUNTED, _rows, matrix, what_is_drawn
from app.ui.run_state import STATUS_SIGNS
from engine.access.quotas import Limits, set_limits
from engine.analysis.statistics.groups import Group
from engine.config_values import read_values
from engine.home import Home
from engine.queue.sweep_estimate import Outlay
from engine.recorder import Point
from engine.registry import experiment
from engine.script.command import read_command
from engine.store import Launch, Reader, Store, Sweep, SweepLaunch
from engine.store.launches import Draw, Timing
from engine.store.records import Status
from engine.store.sweeps.sweeps import RunFold
from engine.sweep.launch import launch_sweep
from engine.system.processes import me
from tests.app.browsing import Client
from tests.app.reading import all_words, html, opened, said
from tests.app.runs.drawn_table import rows_of
from tests.labs import sweeps
from tests.waiting import PATIENCE_S

STATUSES: tuple[Status, ...] = ("starting", "running", "stopping", "finished", "failed", "cancelled", "lost")


def form(experiment_name: str = "hogwild", **query: Any) -> AppTest:
    """Open the launch form with its fold open, by someone whose name is known."""
    test = opened("launch", {"experiment": experiment_name, "preset": "quick", **query})
    test.session_state["person"] = "Ada"
    return test.toggle(key=f"sweep.on.{experiment_name}").set_value(True).run()


def test_the_page_shows_every_run_in_every_status_by_word_and_link(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(
        home, {"splits": [1, 2, 4, 8]}, 2, title="![x](http://evil.example/x.png)<img src=x>"
    )
    for run, status in zip(runs, STATUSES, strict=False):
        sweeps.drive(home, run, status)
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    assert not test.error
    shown = html(test)
    for run, status in zip(runs, (*STATUSES, "queued"), strict=True):
        assert f'href="/run?run={run.id}"' in shown
        assert f"Run {run.id}: {status}" in shown
    assert "running 38%" in shown
    assert "<img" not in shown
    assert "![x](http" not in " ".join(element.value for element in (*test.markdown, *test.title))
    assert len(set(STATUS_SIGNS.values())) == len(STATUS_SIGNS), "a status is told apart without colour"


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ("99", "Sweep 99 doesn't exist"),
        ("abc", "The id of a sweep is a number"),
        ("-1", "The id of a sweep is a number"),
        ("", "No sweep"),
    ],
)
def test_a_link_to_no_sweep_is_a_sentence(home: Home, wanted: str, word: str) -> None:
    test = opened("sweep", {"sweep": wanted})
    assert not test.exception
    assert word in said(test)


def test_sweeps_are_listed_linked_and_cancelled_after_a_question(home: Home, reader: Reader) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]}, title="bubble")
    link = f'href="/sweep?sweep={sweep_id}"'
    assert link in html(opened("sweep"))
    assert link in html(opened("run", {"run": str(runs[0].id)}))
    assert [(row["key"], row["href"]) for row in rows_of(opened("runs"))] == [
        (f"sweep-{sweep_id}", f"/sweep?sweep={sweep_id}")
    ]
    flat = rows_of(opened("runs", {"fold": "false"}))
    assert [row["Sweep"]["href"] for row in flat] == [f"/sweep?sweep={sweep_id}"] * 2
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]})
    test = opened("sweep", {"sweep": str(sweep_id)})
    test.button(key=f"cancel-sweep-{sweep_id}").click().run()
    assert "2 of 2 runs have not ended" in said(test)
    assert labels(test)[-2:] == ["Cancel all runs", "Keep it"]
    assert reader.sweeps.one(sweep_id).statuses == {"queued": 2}
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    sweeps.drive(home, runs[0], "running")
    test = opened("sweep", {"sweep": str(sweep_id)})
    test.button(key=f"cancel-sweep-{sweep_id}").click().run()
    assert labels(test)[-2:] == ["Cancel all runs", "Keep running"]
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    assert "Cancel all" in [button.label for button in opened("sweep", {"sweep": str(sweep_id)}).button]
    for run in runs:
        sweeps.drive(home, run)
    assert "Cancel all" not in [button.label for button in opened("sweep", {"sweep": str(sweep_id)}).button]


def test_a_sweeps_token_is_served(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    before = Client().get(f"/api/token?sweep={sweep_id}").json()["token"]
    with Store.open(home) as store:
        store.runs.add(Launch("hogwild", {}, "ada", demand=store_demand(home, runs[0].id)))
    assert Client().get(f"/api/token?sweep={sweep_id}").json()["token"] == before
    sweeps.drive(home, runs[0])
    assert Client().get(f"/api/token?sweep={sweep_id}").json()["token"] > before
    assert Client().get("/api/token?sweep=x").status_code == 400


def test_a_sweep_of_an_experiment_that_is_gone_is_still_shown(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    sweeps.drive(home, runs[0])
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE sweeps SET experiment = 'gone'")
        connection.execute("UPDATE runs SET experiment = 'gone'")
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    assert "gone over splits" in said(test)


def store_demand(home: Home, run_id: int) -> Any:
    with Reader.open(home) as reader:
        return reader.runs.one(run_id).demand


def test_a_matrix_that_would_be_too_wide_is_turned_round(home: Home) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": range(1, 21)}, 2)
    with Reader.open(home) as reader:
        shown = matrix(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id))
    assert shown.count("<tr>") == 21
    assert 'scope="col">seed 1<' in shown


def test_a_sweep_whose_cells_all_finished_offers_no_retry(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1]})
    sweeps.drive(home, runs[0])
    assert not {"Retry", "Pause", "Cancel all"} & set(labels(page(sweep_id)))


def test_runs_without_a_sweep_have_no_column_for_it(home: Home, lab: dict[Status, int]) -> None:
    assert "Sweep" not in rows_of(opened("runs", {"fold": "false"}))[0]


def test_the_form_is_for_one_run_until_the_fold_offers_more(home: Home) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    assert test.button(key="once.launch").label == "Launch"
    assert not [each for each in test.text_input if "Values" in each.label]
    test = form()
    assert (
        test.selectbox(key="sweep.first.hogwild").value,
        test.text_input(key="sweep.values.hogwild.trainers").value,
    ) == ("trainers", "1, 2, 4, 8")
    assert test.button(key="once.launch").label == "Launch sweep" and "4 runs: trainers" in said(test)
    test.selectbox(key="sweep.second.hogwild").set_value("lock").run()
    test.number_input(key="sweep.seeds.hogwild").set_value(3).run()
    assert (
        "24 runs: trainers 1, 2, 4, 8 × lock false, true × 3 seeds (overrides trainers and lock in the form)."
        in said(test)
    )
    assert "Largest run:" in said(test)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1, 99", "trainers must be at most 64 (allowed: 1 to 64), got '99'."),
        ("", "trainers needs at least one value to sweep"),
        ("1..64", "A sweep may have at most 500 runs, got 64 x 20 = 1,280."),
    ],
)
def test_a_problem_stands_in_the_fold_and_bars_the_launch(home: Home, text: str, sentence: str) -> None:
    test = form()
    test.number_input(key="sweep.seeds.hogwild").set_value(20).run()
    test.text_input(key="sweep.values.hogwild.trainers").set_value(text).run()
    assert not test.exception
    assert sentence in said(test)
    assert test.button(key="once.launch").disabled


def test_a_combination_that_breaks_a_rule_or_a_device_that_is_not_here_bars_the_launch(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = form("pipeline")
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 65").run()
    assert "With splits 65: splits must be at most batch_size (64), got 65" in said(test)
    assert test.button(key="once.launch").disabled
    monkeypatch.setattr("platform.system", lambda: "Linux")
    test = form("reference")
    test.selectbox(key="sweep.first.reference").set_value("device").run()
    test.text_input(key="sweep.values.reference.device").set_value("cpu, mps").run()
    assert "available only on Apple machines" in " ".join(error.value for error in test.error)
    assert test.button(key="once.launch").disabled


def test_without_a_name_a_sweep_asks_for_it_and_queues_nothing(home: Home, reader: Reader) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    test.toggle(key="sweep.on.hogwild").set_value(True).run()
    test.button(key="once.launch").click().run()
    assert not test.exception
    assert (reader.runs.count(), reader.sweeps.count()) == (0, 0)


def test_a_launch_queues_the_sweep_under_the_persons_name(home: Home, reader: Reader) -> None:
    test = form()
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 2").run()
    test.number_input(key="sweep.seeds.hogwild").set_value(2).run()
    test.text_input(key="launch.title").set_value("speed").run()
    test.button(key="once.launch").click().run()
    sweep, runs = reader.sweeps.one(1), reader.sweeps.runs(1)
    assert (sweep.owner, sweep.name, sweep.grid) == ("Ada", "speed", {"trainers": (1, 2), "seed": (0, 1)})
    assert [(run.config["trainers"], run.config["seed"], run.preset, run.config["dataset"]) for run in runs] == [
        *((1, 0, "quick", "digits"), (2, 0, "quick", "digits")),
        *((1, 1, "quick", "digits"), (2, 1, "quick", "digits")),
    ]


def test_the_form_shows_the_total_work_of_a_run_and_makes_it_equal_in_a_sweep(home: Home, reader: Reader) -> None:
    test = form()
    assert "Total: 60 passes, 86,220 samples, 2,700 updates" in said(test)
    test.number_input(key="form.hogwild.epochs").set_value(6).run()
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 2, 4").run()
    assert "Total: 12 passes, 17,244 samples, 540 updates" in said(test)
    assert "Unequal total work: 6 passes to 24 passes. Turn on Equal total work to compare the values." in said(test)
    test.toggle(key="sweep.equal.hogwild").set_value(True).run()
    assert "Total work of each run: 12 passes, with epochs 12, 6, 3." in said(test)
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 5").run()
    assert "Set epochs to 5 (10 passes) or 10 (20 passes)." in said(test)
    assert test.button(key="once.launch").disabled
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 4").run()
    test.button(key="once.launch").click().run()
    found = reader.sweeps.one(1)
    assert found.equal_work == {"epochs": 6, "trainers": 2}
    assert [run.config["epochs"] for run in reader.sweeps.runs(1)] == [12, 3]
    assert "12 passes in each run; epochs 12, 3" in html(page(1))
    members = list(reader.sweeps.runs(1))
    fold = RunFold("sweep", 1, tuple(run.id for run in members), {})
    assert "epochs" not in _fold_row(fold, members, found).config, "it differs between the runs of the row"


def test_a_changed_preset_is_no_longer_what_the_runs_began_as(home: Home, reader: Reader) -> None:
    test = form()
    test.number_input(key="form.hogwild.epochs").set_value(2).run()
    test.button(key="once.launch").click().run()
    assert {(run.preset, run.config["epochs"]) for run in reader.sweeps.runs(1)} == {(None, 2)}


def labels(test: AppTest) -> list[str]:
    return [button.label for button in test.button]


def page(sweep_id: int) -> AppTest:
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    return test


def read(home: Home, sweep_id: int = 1) -> Sweep:
    with Reader.open(home) as reader:
        return reader.sweeps.one(sweep_id)


def test_the_fold_draws_at_random_times_alone_and_stops_after_failures(home: Home) -> None:
    test = form()
    test.segmented_control(key="sweep.kind.hogwild").set_value("Random").run()
    test.selectbox(key="sweep.first.hogwild").set_value("learning_rate").run()
    assert test.text_input(key="sweep.ranges.hogwild.learning_rate").value.startswith("log:")
    test.text_input(key="sweep.ranges.hogwild.learning_rate").set_value("log:0.1..0.001").run()
    assert "learning_rate: a range must be ascending" in said(test)
    assert test.button(key="once.launch").disabled
    test.text_input(key="sweep.ranges.hogwild.learning_rate").set_value("log:0.001..0.1").run()
    test.number_input(key="sweep.draws.hogwild").set_value(3).run()
    test.number_input(key="sweep.seeds.hogwild").set_value(2).run()
    test.number_input(key="sweep.stop.hogwild").set_value(4).run()
    assert "6 runs: 3 samples of learning rate from log:0.001..0.1 × 2 seeds." in said(test)
    test.button(key="once.launch").click().run()
    assert not test.exception
    found = read(home)
    assert (found.draw, found.exclusive, found.stop_after) == (
        Draw(3, 0, {"learning_rate": "log:0.001..0.1"}),
        False,
        4,
    )
    assert found.total == 6


def test_a_sweep_for_timing_says_what_it_will_do_and_refuses_too_few_runs(home: Home) -> None:
    test = form()
    test.segmented_control(key="sweep.purpose.hogwild").set_value("Timing").run()
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 2").run()
    assert (
        "12 runs and 1 warm-up run: 6 of each of 2 combinations, and up to 12 until its median time is known to ± 5 %."
    ) in said(test)
    set_limits(home, Limits(max_queued_per_person=10))
    assert "0 of 10 queued runs; 13 more can't be queued." in said(test.run()), "with the warm-up run"
    set_limits(home, Limits())
    test.number_input(key="sweep.most.hogwild").set_value(4).run()
    assert "At most 4 runs per combination, but at least 6." in said(test)
    assert test.button(key="once.launch").disabled
    test.number_input(key="sweep.repeats.hogwild").set_value(3).run()
    assert "At most 4 runs per combination can't give an interval of the median: allow at least 6." in said(test)
    test.number_input(key="sweep.most.hogwild").set_value(8).run()
    test.number_input(key="sweep.within.hogwild").set_value(2.5).run()
    launch = test.button(key="once.launch")
    assert not launch.disabled and "6 runs and 1 warm-up run: 3 of each of 2 combinations" in said(test)
    launch.click().run()
    found = read(home)
    assert (found.exclusive, found.timing, found.total, found.seeds) == (True, Timing(0.025, 8), 7, (0, 1, 2))
    shown = html(page(1))
    assert "one run at a time, until medians are known to ± 2.5 %, at most 8 runs each" in shown
    assert "<small>Warm-up</small>" in shown and "<small>Medians known</small><span>0 of 2</span>" in shown


def held_for(home: Home, seconds: float) -> None:
    """Let all runs that have ended have held their slots for so long."""
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute(
            "UPDATE runs SET claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', ended_at, ?) WHERE ended_at IS NOT NULL",
            [f"-{seconds} seconds"],
        )


def test_the_form_says_what_a_sweep_takes_and_how_much_of_that_is_known(home: Home) -> None:
    test = form("pipeline")
    assert "No estimate yet: no similar run has finished on this machine." in said(test)
    assert "<span>unknown</span>" in html(test)
    _, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        sweeps.drive(home, run)
    held_for(home, 3600)
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 2").run()
    assert "Estimated from the total times of similar runs on this machine." in said(test)
    assert re.search(r"<small>Estimated usage</small><span>[24] core-hours</span>", html(test))
    assert re.search(r"<small>Estimated finish</small><span>at about .*\(in [12] h\)</span>", html(test))
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 2, 4").run()
    told = (
        "2 of 3 runs have similar ones; each of the others is assumed to take 1 h, the median of the 2 runs that "
        "differ only in the varied settings."
    )
    assert told in said(test)


def test_the_estimate_of_a_sweep_for_timing_counts_warm_up_idle_checks_and_repeats(home: Home) -> None:
    _, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        sweeps.drive(home, run)
    held_for(home, 59)
    test = form("pipeline")
    test.segmented_control(key="sweep.purpose.pipeline").set_value("Timing").run()
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 2").run()
    shown = html(test)
    assert "<small>To launch</small><span>12 runs and 1 warm-up run</span>" in shown
    assert re.search(r"<small>On an idle machine</small><span>at least 13 min", shown), (
        "13 times 59 s and a check of 1 s"
    )
    assert "<small>Estimated usage</small><span>at least 0." in shown
    assert re.search(r"<small>With all repeats</small><span>24 runs, about 25 min and 0\.\d+ core-hours</span>", shown)


def test_what_is_left_of_a_sweep_for_timing_is_the_least_until_it_has_all_repeats(home: Home, reader: Reader) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]}, 2)
    found = Outlay(4, 4, None, 0, 1.0, 0.0, 60.0, 60.0)
    told = {
        most: " ".join(left(found, replace(reader.sweeps.one(sweep_id), timing=Timing(0.05, most)))) for most in (2, 6)
    }
    assert told[6].startswith(
        "At least 4 runs left, at least 1 core-hours. Estimated finish in about 60 s, at the earliest."
    )
    assert told[2].startswith("4 runs left, about 1 core-hours. Estimated finish in about 60 s. ")


def test_a_sweeps_page_says_what_is_left_of_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_forecast, "FRESH_S", 1e-9)
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2, 4]})
    assert "3 runs left; no estimate yet." in said(page(sweep_id))
    for run in runs[:2]:
        sweeps.drive(home, run)
    held_for(home, 3600)
    told = said(page(sweep_id))
    assert re.search(
        (
            r"1 run left, about [12] core-hours\. Estimated finish at about .* \(in 1 h\)\. None of the runs has "
            r"similar ones; each is assumed to take 1 h"
        ),
        told,
    )
    with Store.open(home) as store:
        store.sweeps.hold(sweep_id, by="Ada")
    assert "Paused; if resumed now, estimated finish at about" in said(page(sweep_id))
    with Store.open(home) as store:
        store.runs.cancel(runs[2].id, by="Ada")
    assert "left" not in said(page(sweep_id))


def test_a_sweep_for_timing_without_medians_says_how_its_runs_ended(home: Home) -> None:
    shared = SweepLaunch(Launch("hogwild", {"dataset": "digits"}, "Ada"), {"trainers": [1, 2]}, 6, timing=Timing())
    cancelled, failed = launch_sweep(home, shared), launch_sweep(home, shared)
    with Store.open(home) as store:
        store.sweeps.cancel(cancelled, by="Ada")
        last = store.read.sweeps.runs(failed)[-1].id
        ended = "status = iif(id > ?, 'failed', 'finished'), started_at = created_at, ended_at = created_at"
        store.db.connection.execute(
            f"UPDATE runs SET {ended}, execution_time_s = iif(id > ?, NULL, 2) WHERE sweep_id = ?",
            [last - 4, last - 4, failed],
        )
    why = "The median time of 2 of 2 combinations isn't known:"
    assert f"{why} no run finished (12 were cancelled). Press Retry." in said(page(cancelled))
    assert f"{why} 8 of 12 runs finished (4 failed). Press Retry." in said(page(failed))


def test_a_sweep_is_paused_and_let_go_on(home: Home) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]})
    test = page(sweep_id)
    test.session_state["person"] = "Ada"
    test.button(key=f"hold-sweep-{sweep_id}").click().run()
    assert read(home).paused
    assert "Queued runs wait until someone resumes the sweep." in said(test)
    assert ("Pause" in labels(test), "Resume" in labels(test)) == (False, True)
    assert "paused, 2 queued" in html(opened("sweep"))
    assert f"Waiting: sweep {sweep_id} is paused." in said(opened("run", {"run": "1"}))
    test.button(key=f"release-sweep-{sweep_id}").click().run()
    assert not read(home).paused


def test_a_sweep_of_a_command_is_shown_and_extended_in_a_browser_that_may(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = read_command("python train.py --lr 0.1 --model.width 8")
    shared = Launch("train.py", {}, "Ada", name="rates", command=command)
    sweep_id = launch_sweep(home, SweepLaunch(shared, {"lr": [0.1, 0.2], "model.width": [8, 16]}, 2))
    with Store.open(home) as store:
        ended = "status = 'finished', started_at = created_at, ended_at = created_at, execution_time_s = 2"
        store.db.connection.execute(f"UPDATE runs SET {ended}")
    assert page(sweep_id).button(key=f"extend-sweep-{sweep_id}").disabled
    monkeypatch.setattr(visitor, "came_by_link", lambda *_: True)
    shown = page(sweep_id)
    assert not shown.exception and "lr 0.1" in html(shown)
    shown.button(key=f"extend-sweep-{sweep_id}").click().run()
    test = dialog("ask_extend")
    test.text_input(key="extend-lr").set_value("0.4").run()
    test.button(key="once.extend-order").click().run()
    with Reader.open(home) as reader:
        added = [run for run in reader.sweeps.runs(sweep_id) if run.status == "queued"]
        assert [run.config["lr"] for run in added] == [0.4] * 4
        assert {reader.runs.one(run.id).command for run in added} == {reader.sweeps.one(sweep_id).command}


def test_a_sweep_is_extended_with_values_and_seeds(home: Home) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]})
    page(sweep_id).button(key=f"extend-sweep-{sweep_id}").click().run()
    test = dialog("ask_extend")
    test.text_input(key="extend-splits").set_value("2").run()
    assert "splits has the value 2 twice." in said(test)
    test.text_input(key="extend-splits").set_value("4").run()
    test.number_input(key="extend-seeds").set_value(1).run()
    assert "Add 4 runs" in labels(test)
    test.button(key="once.extend-order").click().run()
    assert not test.exception
    assert read(home).grid == {"splits": (1, 2, 4), "seed": (0, 1)}
    assert read(home).total == 6


def dialog(name: str) -> AppTest:
    """Open one of the dialogs of sweep 1 and keep it open: a click in it reruns the whole script here, not only the
    dialog as in a browser.
    """

    def script(name: str) -> None:
        from app.sweep import header
        from app.ui.store_access import reading

        with reading() as reader:
            getattr(header, name)(reader.sweeps.one(1), reader.sweeps.runs(1))

    test = AppTest.from_function(script, args=(name,), default_timeout=PATIENCE_S)
    test.session_state["person"] = "Ada"
    return test.run()


def test_what_ended_badly_is_tried_again_in_the_same_cell(home: Home, reader: Reader) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2, 4]})
    for run, status in zip(runs, ("failed", "finished", "cancelled"), strict=True):
        sweeps.drive(home, run, status)  # type: ignore[arg-type]
    test = page(sweep_id)
    test.button(key=f"retry-sweep-{sweep_id}").click().run()
    assert "1 of 3 cells failed or was lost." in said(test)
    dialog("ask_retry").button(key="retry-order").click().run()
    again = reader.sweeps.runs(sweep_id)
    shown = matrix(reader.sweeps.one(sweep_id), again)
    assert [run.config["splits"] for run in again] == [1, 2, 4, 1]
    assert "queued, attempt 2" in shown
    assert "Earlier attempts: run 1." in shown
    assert shown.count("pl-cell") == 3
    test = dialog("ask_retry")
    assert (test.button(key="retry-order").label, test.toggle(key="retry-cancelled").value) == ("Queue 1 run", True)


def test_a_sweep_that_stopped_itself_says_so_on_its_runs(home: Home, reader: Reader) -> None:
    settings = experiment("pipeline").preset("quick").settings
    sweep_id = launch_sweep(home, SweepLaunch(Launch("pipeline", settings, "Ada"), {"splits": [1, 2]}, stop_after=1))
    first, second = reader.sweeps.runs(sweep_id)
    sweeps.drive(home, first, "failed")
    with Store.open(home) as store:
        assert store.read.queue.next() is None
    shown = html(page(sweep_id))
    assert "1 failure" in shown
    assert (
        f"Run {second.id}: cancelled. Cancelled: 1 run of sweep {sweep_id} failed or was lost; the limit is 1 "
        "(stop after)." in shown
    )


@pytest.mark.parametrize(
    "over", [{"learning_rate": "log:0.001..0.1"}, {"learning_rate": "log:0.001..0.1", "mode": "gpipe, 1f1b"}]
)
def test_a_drawn_sweep_shows_a_row_for_each_combination_and_a_mark_for_each(
    home: Home, over: dict[str, str], reader: Reader
) -> None:
    settings = experiment("pipeline").preset("quick").settings
    sweep_id = launch_sweep(
        home, SweepLaunch(Launch("pipeline", settings, "Ada", "quick"), {}, 2, draw=Draw(4, 0, over))
    )
    for run in reader.sweeps.runs(sweep_id):
        sweeps.drive(home, run)
    shown = html(page(sweep_id))
    assert '<th scope="col">seed 0</th><th scope="col">seed 1</th>' in shown
    assert "4 draws, seed 0" in shown
    sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    figure, _ = chart(groups_of(sweep, runs, EXECUTION), EXECUTION, sweep, "Learning rate")
    (measured,) = [trace for trace in figure.data if trace.name == "measured" and trace.mode != "lines"][-1:]
    assert list(measured.x) == list(sweep.grid["learning_rate"])
    assert measured.mode == ("lines+markers" if len(over) == 1 else "markers")
    assert figure.layout.xaxis.type == "log"


def drawn(home: Home, sweep_id: int, name: str = EXECUTION) -> tuple[go.Figure, list[int], str]:
    """Return the figure of a number with its colours, and the sentence about lines that it lacks."""
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        lines, lacking = references(sweep, runs, name, reader)
        groups = (
            rank_groups_of(sweep, runs, name, reader) if name.startswith("perf/peak") else groups_of(sweep, runs, name)
        )
        return *chart(groups, name, sweep, "Splits", lines), lacking


def named(figure: go.Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if trace.showlegend is None}


def test_a_line_is_the_mean_over_seeds_with_its_runs_and_their_spread(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [4, 2], "mode": ["gpipe", "1f1b"]}, 3)
    for run in reversed(runs):
        sweeps.drive(home, run)
    figure, colours, _ = drawn(home, sweep_id)
    assert len(colours) == len(figure.data)
    lines = named(figure)
    assert list(lines) == ["gpipe", "1f1b"]
    for mode, line in lines.items():
        assert list(line.x) == [2, 4], "along the axis, however the grid was written"
        assert list(line.y) == pytest.approx([sweeps.execution_time_s(splits, mode, 1) for splits in (2, 4)])
    band, single = figure.data[0], figure.data[1]
    assert max(band.y) == pytest.approx(sweeps.execution_time_s(2, "gpipe", 2))
    assert min(band.y) == pytest.approx(sweeps.execution_time_s(4, "gpipe", 0))
    assert sorted(single.customdata) == sorted(run.id for run in runs if run.config["mode"] == "gpipe")
    assert colours[: len(colours) // 2] == [0] * (len(colours) // 2)
    assert {line.marker.symbol for line in lines.values()} == {"circle"}, "the colours tell two lines apart"
    assert figure.layout.meta["units"] == {"y": "s"}


def test_a_sweep_over_seeds_alone_shows_each_run_and_their_mean(home: Home, reader: Reader) -> None:
    sweep_id, runs = sweeps.pipeline(home, {}, 3)
    for run in runs[:2]:
        sweeps.drive(home, run)
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    shown = html(test) + said(test)
    assert all(words in shown for words in ("Pipeline parallelism over seed", "seed 2", "Mean over 2 runs: "))
    assert "So far best" not in shown and "Highest" not in shown
    sweep, found = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    groups = groups_of(sweep, found, EXECUTION)
    figure, _ = chart(groups, EXECUTION, sweep, "Seed")
    (trace,) = figure.data
    assert (list(trace.x), trace.mode, trace.name) == ([0, 1], "markers", "measured")
    assert list(trace.y) == [run.execution_time_s for run in found[:2]]
    times = [run.execution_time_s or 0.0 for run in found[:2]]
    said_mean = chart_module._of_repeats(groups, "s", by_median=False)
    apart = f"from {times[0]:.4g} s to {times[1]:.4g} s, standard deviation {stdev(times):.2g} s"
    assert said_mean == f"Mean over 2 runs: {sum(times) / 2:.4g} s, {apart}."
    assert [row[0] for row in _rows(sweep, found, groups, EXECUTION, {}, by_rank=False).rows] == [0, 1]
    form = opened("launch", sweep_query(sweep, found[0])).session_state
    assert (form["sweep.on.pipeline"], form["sweep.first.pipeline"], form["sweep.seeds.pipeline"]) == (True, "none", 3)
    page(sweep_id).button(key=f"extend-sweep-{sweep_id}").click().run()
    test = dialog("ask_extend")
    test.number_input(key="extend-seeds").set_value(2).run()
    test.button(key="once.extend-order").click().run()
    assert not test.exception
    assert read(home).grid == {"seed": (0, 1, 2, 3, 4)} and read(home).total == 5
    assert [words for words in sweep_again(sweep, found, {}) if words.endswith("--seeds 3")]


def test_ideal_and_bound_start_from_the_measured_time_of_each_mode(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2, 4], "mode": ["gpipe", "1f1b"]}, 2)
    for run in runs:
        sweeps.drive(home, run)
    figure, _, lacking = drawn(home, sweep_id)
    lines = named(figure)
    assert lacking == ""
    for mode, at_4 in (("gpipe", 0.7), ("1f1b", 0.65)):
        start = sweeps.ONE_SPLIT_S[mode] + 0.05
        assert list(lines[f"{mode}, ideal"].y) == pytest.approx([start, start * 3 / 4, start * 5 / 8])
        assert list(lines[f"{mode}, bound for these stages"].y) == pytest.approx(
            [start, start * (2 * at_4 - 0.6), start * at_4]
        )
    assert len({lines[name].line.dash for name in ("gpipe", "gpipe, ideal", "gpipe, bound for these stages")}) == 3
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert "Ideal: the work with 1 split" in said(test)
    assert "<td>7.531</td>" in html(test), "the table tells the ideal time too"


def test_no_line_is_drawn_before_its_start_was_measured(home: Home) -> None:
    without, runs = sweeps.pipeline(home, {"splits": [2, 4]})
    for run in runs:
        sweeps.drive(home, run)
    figure, _, lacking = drawn(home, without)
    assert list(named(figure)) == ["measured"]
    assert (
        lacking
        == "Ideal and bound need the execution time measured with splits 1: add splits 1 to a sweep to see them."
    )
    assert lacking in said(opened("sweep", {"sweep": str(without)}))
    half, runs = sweeps.pipeline(home, {"splits": [1, 2], "mode": ["gpipe", "1f1b"]})
    for run in runs:
        sweeps.drive(home, run, "failed" if run.config["mode"] == "1f1b" else "finished")
    figure, _, lacking = drawn(home, half)
    assert [name for name in named(figure) if "ideal" in name] == ["gpipe, ideal"]
    assert lacking.endswith("available once a run with splits 1 has finished.")


def test_only_finished_runs_count_and_the_whole_axis_is_there_from_the_first_point(home: Home, reader: Reader) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2, 4, 16], "batches": [10, 20]})
    sweeps.drive(home, runs[2])
    figure, _, _ = drawn(home, sweep_id)
    first, last = figure.layout.xaxis.range
    assert (figure.layout.xaxis.type, first < 0.0, 1.2 < last < 1.4) == ("log", True, True)
    assert list(figure.layout.xaxis.ticktext) == ["1", "2", "4", "16"]
    assert list(named(figure)) == ["batches 10"], "a line of numbers says what they are of"
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2, 4, 8]}, 2)
    for run, status in zip(runs, STATUSES, strict=False):
        sweeps.drive(home, run, status)
    groups = groups_of(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id), EXECUTION)
    assert [list(group.values) for group in groups] == [[runs[STATUSES.index("finished")].id]]


def test_numbers_to_choose_are_those_the_runs_have_and_memory_is_a_line_a_stage(home: Home, reader: Reader) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    assert metric_choices(reader.sweeps.runs(sweep_id)) == [EXECUTION, "perf/startup_time_s"]
    for run in runs:
        sweeps.drive(home, run)
    names = metric_choices(reader.sweeps.runs(sweep_id))
    assert names[:2] == [EXECUTION, "test/accuracy"]
    assert (default_metric(names, "time"), default_metric(names, "neither")) == (EXECUTION, "test/accuracy")
    rate = "perf/samples_per_second"
    assert (default_metric([*names, rate], "rate"), default_metric([EXECUTION], "rate")) == (rate, EXECUTION)
    accuracy_first = ("test/accuracy", "test/accuracy")
    assert accuracy_first == (
        default_metric(names, "time", "test/accuracy"),
        default_metric(metric_choices([], "test/accuracy"), "time", "test/accuracy"),
    )
    assert default_metric([EXECUTION], "time", "test/accuracy") == EXECUTION
    assert {"perf/activations_held", "perf/peak_memory"} < set(names)
    accuracy = named(drawn(home, sweep_id, "test/accuracy")[0])["measured"]
    assert list(accuracy.y) == pytest.approx([95.75, 95.5]), "the last test of each run, not the mean of all"
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        sweeps.drive(home, run)
    lines = named(drawn(home, sweep_id, "perf/peak_memory")[0])
    assert {name: list(line.y) for name, line in lines.items()} == {"stage1": [190.0, 190.0], "stage2": [220.0, 220.0]}
    test = opened("sweep", {"sweep": str(sweep_id), "number": "Activations held (MB)"})
    assert not test.exception
    assert "<td>stage2</td>" in html(test)


def test_the_caption_of_a_chart_names_only_what_is_drawn() -> None:
    pair, single = Group((1,), {1: 2.0, 2: 3.0}), Group((2,), {3: 2.0})
    assert what_is_drawn([pair, single], by_median=False) == (
        "Lines connect means over seeds; small markers are single runs; the band spans minimum to maximum. Means are "
        "over 1 to 2 runs, so they also differ by their seeds."
    )
    assert "Means are over" not in what_is_drawn([pair, Group((2,), {3: 2.0, 4: 2.0})], by_median=False)
    assert what_is_drawn([pair], by_median=True) == "Filled markers are medians; small markers are single runs."
    many = Group((2,), dict(enumerate([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])))
    assert "Lines connect medians with their 95 % intervals; " in what_is_drawn([pair, many], by_median=True)


def test_words_and_empty_values_lie_along_an_axis_too(home: Home, reader: Reader) -> None:
    settings = experiment("reference").preset("quick").settings
    sweep_id = launch_sweep(
        home,
        SweepLaunch(
            Launch("reference", settings, "Ada"), {"threads_per_rank": [None, 1], "dataset": ["digits", "synthetic"]}
        ),
    )
    runs = reader.sweeps.runs(sweep_id)
    for run in runs:
        drive_plainly(home, run.id)
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    shown = html(test)
    assert "Reference over threads per rank and dataset" in said(test)
    assert ">threads per rank none</th>" in shown and "digits, seed 0" in shown
    assert '<th scope="col">Threads per rank</th><th scope="col">Dataset</th><th scope="col">Runs counted</th>' in shown
    assert "Values of threads per rank" in shown and "threads_per_rank" not in shown
    listed = html(opened("sweep"))
    assert "Reference over threads per rank and dataset" in listed
    figure, _, _ = drawn(home, sweep_id)
    assert (figure.layout.xaxis.type, list(named(figure)["digits"].x)) == ("category", ["none", "1"])


def drive_plainly(home: Home, run_id: int) -> None:
    with Store.open(home) as store:
        store.claims.claim(run_id, me(), [])
        store.worker.begin(run_id, me(), {})
        store.worker.mark_running(run_id, 0.1)
        store.claims.end(run_id, "finished", "Done.", execution_time_s=1.0 + run_id)


def test_any_member_clones_a_sweep_into_the_form_with_its_settings(home: Home) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": (1, 2), "mode": ("gpipe", "rpc")}, seeds=2)
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    page = opened("sweep", {"sweep": str(sweep_id)})
    assert not page.button(key=f"clone-sweep-{sweep_id}").disabled
    form = opened("launch", sweep_query(sweep, runs[0])).session_state
    assert (form["sweep.on.pipeline"], form["sweep.seeds.pipeline"], form["sweep.purpose.pipeline"]) == (
        *(True, len(sweep.seeds)),
        "Timing" if sweep.timing else "Learning",
    )
    first, second = sweep.fields
    assert (form["sweep.first.pipeline"], form["sweep.second.pipeline"]) == (first, second)
    for name in sweep.fields:
        assert (
            read_values(experiment("pipeline").config, name, form[f"sweep.values.pipeline.{name}"]) == sweep.grid[name]
        )
    drawn = replace(sweep, draw=Draw(5, 1, {"learning_rate": "log:0.001..0.1"}))
    form = opened("launch", sweep_query(drawn, runs[0])).session_state
    assert (form["sweep.kind.pipeline"], form["sweep.draws.pipeline"]) == ("Random", 5)
    assert form["sweep.ranges.pipeline.learning_rate"] == "log:0.001..0.1"


def test_each_run_is_a_point_of_the_chart_and_a_number_of_its_table(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]}, 2)
    for run in runs[:3]:
        sweeps.drive(home, run, "finished")
    with Reader.open(home) as reader:
        sweep, found = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    groups = groups_of(sweep, found, EXECUTION)
    assert sorted(len(group.values) for group in groups) == [1, 2]
    figure, _ = chart(groups, EXECUTION, sweep, "Splits")
    (single,) = [trace for trace in figure.data if (trace.meta or {}).get("as") == "single runs"]
    assert sorted(single.customdata) == [run.id for run in runs[:3]]
    (alone,) = [group for group in groups if len(group.values) == 1]
    figure, _ = chart([alone], EXECUTION, sweep, "Splits")
    assert figure.data[-1].meta["runs"] and figure.data[-1].customdata[0][0] == next(iter(alone.values))
    rows = _rows(sweep, found, groups, EXECUTION, {}, by_rank=False)
    counted = [tuple(row[1:4]) for row in rows.rows]
    assert rows.columns[1:4] == COUNTED and sorted(counted) == [(1, 2, ""), (2, 2, "")]


def test_the_form_names_settings_by_their_labels(home: Home) -> None:
    test = form()
    test.selectbox(key="sweep.first.hogwild").set_value("learning_rate").run()
    assert "(overrides learning rate in the form)" in said(test) and "learning_rate" not in said(test)


def test_repeats_of_a_command_without_a_seed_are_called_so_on_its_sweep_and_in_compare(home: Home) -> None:
    def queued(text: str) -> tuple[int, list[int]]:
        sweep_id = launch_sweep(
            home, SweepLaunch(Launch("t.py", {}, "Ada", command=read_command(text)), {"lr": [1, 2]}, 2)
        )
        with Store.open(home) as store:
            runs = store.read.sweeps.runs(sweep_id)
            for run in runs:
                store.claims.claim(run.id, me(), [])
                store.worker.write(run.id, [], run_points=[Point("loss", 1, run.id / 10, 1.0)])
                store.claims.end(run.id, "finished", "It ended.", execution_time_s=float(run.id))
        return sweep_id, [run.id for run in runs]

    sweep_id, ids = queued("python t.py --lr 1")
    with Reader.open(home) as reader:
        assert {run.name for run in reader.runs.some(ids)} >= {"lr 1, repeat 0", "lr 2, repeat 1"}
    shown = page(sweep_id)
    assert "<b>Repeats</b>" in html(shown) or "Repeats" in html(shown)
    assert "repeat 0" in html(shown) and "means over repeats" in said(shown)
    assert "seed" not in all_words(shown).lower()
    for query in ({"tab": "differences"}, {"columns": "repeat", "group": ""}, {"tab": "bars"}, {}):
        compared = opened("compare", {"runs": ids_text(ids)} | query)
        assert "seed" not in all_words(compared).lower().replace("seeding", ""), query
    options = compared.multiselect(key=f"{session_state._WIDGETS}group").options
    assert "repeat" in options and not any("seed" in each.lower() and "seeding" not in each.lower() for each in options)
    _, seeded = queued("python t.py --lr 1 --seed 3")
    assert "seed" in html(opened("compare", {"runs": ids_text(seeded), "tab": "differences"})).lower()


@pytest.mark.parametrize(("name", "asked"), [("fsdp", "perf/memory_state"), ("sync_sgd", "test/accuracy")])
def test_a_ready_made_sweep_opens_on_what_it_asks_for(home: Home, reader: Reader, name: str, asked: str) -> None:
    ready = experiment(name).ready_sweeps[0]
    over = {field: read_values(experiment(name).config, field, text) for field, text in ready.over.items()}
    config = experiment(name).configure(ready.preset).model_dump(mode="json")
    sweep_id = launch_sweep(home, SweepLaunch(Launch(name, config, "Ada"), over))
    assert metric_asked(reader.sweeps.one(sweep_id), []) == asked
