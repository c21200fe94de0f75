"""What the console does with a whole sweep: drawn, timed alone, its cost told; paused, tried again, extended."""

import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.sweep_figures import chart
from app.sweep_matrix import matrix
from app.sweep_numbers import EXECUTION, groups_of
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader, Store, Sweep
from engine.sweep import launch_sweep
from engine.sweep_draw import Draw
from tests.app import sweep_labs
from tests.app.test_pages import opened
from tests.app.test_sweeps import form, html, words


def labels(test: AppTest) -> list[str]:
    return [button.label for button in test.button]


def page(sweep_id: int) -> AppTest:
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    return test


def read(home: Home, sweep_id: int = 1) -> Sweep:
    with Reader.open(home) as reader:
        return reader.sweep(sweep_id)


def test_the_fold_draws_at_random_times_alone_and_stops_after_failures(home: Home) -> None:
    test = form()
    test.segmented_control(key="sweep.kind.hogwild").set_value("random draw").run()
    test.selectbox(key="sweep.first.hogwild").set_value("learning_rate").run()
    assert test.text_input(key="sweep.ranges.hogwild.learning_rate").value.startswith("log:")
    test.text_input(key="sweep.ranges.hogwild.learning_rate").set_value("log:0.1..0.001").run()
    assert "learning_rate: a range counts up" in words(test)
    assert test.button(key="launch").disabled
    test.text_input(key="sweep.ranges.hogwild.learning_rate").set_value("log:0.001..0.1").run()
    test.number_input(key="sweep.draws.hogwild").set_value(3).run()
    test.number_input(key="sweep.seeds.hogwild").set_value(2).run()
    test.toggle(key="sweep.exclusive.hogwild").set_value(True).run()
    test.number_input(key="sweep.stop.hogwild").set_value(4).run()
    assert "6 runs: 3 drawn of learning_rate from log:0.001..0.1, times 2 seeds." in words(test)
    test.button(key="launch").click().run()
    assert not test.exception
    found = read(home)
    assert (found.draw, found.exclusive, found.stop_after) == ({"count": 3, "seed": 0, "over": {"learning_rate": "log:0.001..0.1"}}, True, 4)
    assert found.total == 6


def held_for(home: Home, seconds: float) -> None:
    """Let all runs that have ended have held their slots for so long."""
    with Store.open(home) as store, store.change() as connection:
        connection.execute("UPDATE runs SET claimed_at = strftime('%Y-%m-%dT%H:%M:%fZ', ended_at, ?) WHERE ended_at IS NOT NULL", [f"-{seconds} seconds"])


def test_the_form_says_what_a_sweep_takes_and_how_much_of_that_is_known(home: Home) -> None:
    test = form("pipeline")
    assert "No like run has finished on this machine yet, so nothing tells how long these take." in words(test)
    assert "<span>not known when</span>" in html(test)
    _, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        sweep_labs.drive(home, run)
    held_for(home, 3600)
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 2").run()
    assert "Told from like runs of this machine." in words(test)
    assert re.search(r"<small>They hold</small><span>[24] core-hours</span>", html(test))
    assert re.search(r"<small>Launched now, it ends</small><span>at about .*\(in [12] h\)</span>", html(test))
    test.text_input(key="sweep.values.pipeline.splits").set_value("1, 2, 4").run()
    told = "2 of 3 cells have like runs; each of the others is taken to last 1 h, the median of the 2 runs that differ only in what varies."
    assert told in words(test)


def test_a_sweeps_page_says_what_is_left_of_it(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2, 4]})
    assert "3 runs are left; how long they take is not known yet." in words(page(sweep_id))
    for run in runs[:2]:
        sweep_labs.drive(home, run)
    held_for(home, 3600)
    st.cache_data.clear()
    told = words(page(sweep_id))
    assert re.search(r"1 run is left, about [12] core-hours\. It should end at about .* \(in 1 h\)\. No cell has like runs; each is taken to last 1 h", told)
    with Store.open(home) as store:
        store.hold_sweep(sweep_id, by="Ada")
    st.cache_data.clear()
    assert "Let go on now, it would end at about" in words(page(sweep_id))
    with Store.open(home) as store:
        store.request_cancel(runs[2].id, by="Ada")
    assert "left" not in words(page(sweep_id))


def test_a_sweep_is_paused_and_let_go_on(home: Home) -> None:
    sweep_id, _ = sweep_labs.pipeline(home, {"splits": [1, 2]})
    page(sweep_id).button(key=f"hold-sweep-{sweep_id}").click().run()
    assert read(home).paused
    test = page(sweep_id)
    assert "Its queued runs wait until someone lets it go on." in words(test)
    assert ("Pause" in labels(test), "Let it go on" in labels(test)) == (False, True)
    assert "paused, 2 queued" in html(opened("sweep"))
    assert f"It waits: sweep {sweep_id}, which it is part of, is paused." in words(opened("run", {"run": "1"}))
    test.button(key=f"release-sweep-{sweep_id}").click().run()
    assert not read(home).paused


def dialog(name: str) -> AppTest:
    """Open one of the dialogs of sweep 1 and keep it open: a click in it reruns the whole script here, not only the dialog as in a browser."""

    def script(name: str) -> None:
        from app import sweep_actions
        from app.asking import reading

        with reading() as reader:
            getattr(sweep_actions, name)(reader.sweep(1), reader.sweep_runs(1))

    return AppTest.from_function(script, args=(name,), default_timeout=120).run()


def test_what_ended_badly_is_tried_again_in_the_same_cell(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2, 4]})
    for run, status in zip(runs, ("failed", "finished", "cancelled"), strict=True):
        sweep_labs.drive(home, run, status)  # type: ignore[arg-type]
    test = page(sweep_id)
    test.button(key=f"retry-sweep-{sweep_id}").click().run()
    assert "1 of 3 cells failed or was lost." in words(test)
    dialog("ask_retry").button(key="retry-order").click().run()
    with Reader.open(home) as reader:
        again = reader.sweep_runs(sweep_id)
        shown = matrix(reader.sweep(sweep_id), again)
    assert [run.config["splits"] for run in again] == [1, 2, 4, 1]
    assert "queued, try 2" in shown
    assert "Tried before by run 1." in shown
    assert shown.count("pl-cell") == 3
    test = dialog("ask_retry")
    assert (test.button(key="retry-order").label, test.toggle(key="retry-cancelled").value) == ("Queue 1 run", True)


def test_a_sweep_whose_cells_all_finished_offers_no_retry(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1]})
    sweep_labs.drive(home, runs[0])
    assert not {"Retry", "Pause", "Cancel all"} & set(labels(page(sweep_id)))


def test_a_sweep_is_extended_with_values_and_seeds(home: Home) -> None:
    sweep_id, _ = sweep_labs.pipeline(home, {"splits": [1, 2]})
    page(sweep_id).button(key=f"extend-sweep-{sweep_id}").click().run()
    test = dialog("ask_extend")
    test.text_input(key="extend-splits").set_value("2").run()
    assert "splits has the value 2 twice." in words(test)
    test.text_input(key="extend-splits").set_value("4").run()
    test.number_input(key="extend-seeds").set_value(1).run()
    assert "Add 4 runs" in labels(test)
    test.button(key="extend-order").click().run()
    assert not test.exception
    assert read(home).grid == {"splits": (1, 2, 4), "seed": (0, 1)}
    assert read(home).total == 6


@pytest.mark.parametrize("over", [{"learning_rate": "log:0.001..0.1"}, {"learning_rate": "log:0.001..0.1", "mode": "gpipe, 1f1b"}])
def test_a_drawn_sweep_shows_a_row_for_each_combination_and_a_mark_for_each(home: Home, over: dict[str, str]) -> None:
    settings = experiment("pipeline").preset("quick").settings
    sweep_id = launch_sweep(home, "pipeline", settings, {}, 2, owner="Ada", preset="quick", draw=Draw(4, 0, over))
    with Reader.open(home) as reader:
        for run in reader.sweep_runs(sweep_id):
            sweep_labs.drive(home, run)
    shown = html(page(sweep_id))
    assert '<th scope="col">seed 0</th><th scope="col">seed 1</th>' in shown
    assert "4 at random, seed 0" in shown
    with Reader.open(home) as reader:
        sweep, runs = reader.sweep(sweep_id), reader.sweep_runs(sweep_id)
    figure, _ = chart(groups_of(sweep, runs, EXECUTION), EXECUTION, sweep, "Learning rate")
    (measured,) = [trace for trace in figure.data if trace.name == "measured"]
    assert list(measured.x) == list(sweep.grid["learning_rate"])
    assert measured.mode == ("lines+markers" if len(over) == 1 else "markers")
    assert figure.layout.xaxis.type == "log"


def test_a_sweep_that_stopped_itself_says_so_on_its_runs(home: Home) -> None:
    settings = experiment("pipeline").preset("quick").settings
    sweep_id = launch_sweep(home, "pipeline", settings, {"splits": [1, 2]}, owner="Ada", stop_after=1)
    with Reader.open(home) as reader:
        first, second = reader.sweep_runs(sweep_id)
    sweep_labs.drive(home, first, "failed")
    with Store.open(home) as store:
        assert store.next_queued() is None
    shown = html(page(sweep_id))
    assert "1 failure" in shown
    assert f"Run {second.id}: cancelled. Cancelled: 1 run of sweep {sweep_id} ended badly, and it stops after 1." in shown
