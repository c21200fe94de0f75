"""The page of a sweep and the list of all: every run in a matrix by status, links, the cancel of all; and the words that tests of sweeps share."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.sweep_matrix import SIGNS, matrix
from engine.home import Home
from engine.store import Reader, Store
from engine.store.records import Status
from tests.app import sweep_labs
from tests.app.browsing import Client
from tests.app.test_pages import opened, said

STATUSES: tuple[Status, ...] = ("starting", "running", "stopping", "finished", "failed", "cancelled", "lost")


def html(test: AppTest) -> str:
    return " ".join(str(element.proto.body) for element in test.get("html"))


def words(test: AppTest) -> str:
    return said(test).replace("\\", "")


def form(experiment_name: str = "hogwild", **query: Any) -> AppTest:
    """Open the launch form with its fold open, by someone whose name is known."""
    test = opened("launch", {"experiment": experiment_name, "preset": "quick", **query})
    test.session_state["person"] = "Ada"
    return test.toggle(key=f"sweep.on.{experiment_name}").set_value(True).run()


def test_the_page_shows_every_run_in_every_status_by_word_and_link(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2, 4, 8]}, 2, title="![x](http://evil.example/x.png)<img src=x>")
    for run, status in zip(runs, STATUSES, strict=False):
        sweep_labs.drive(home, run, status)
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
    assert len(set(SIGNS.values())) == len(SIGNS), "a status is told apart without colour"


def test_a_sweep_that_nothing_is_left_of_offers_no_cancel(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    assert "Cancel all" in [button.label for button in opened("sweep", {"sweep": str(sweep_id)}).button]
    for run in runs:
        sweep_labs.drive(home, run)
    assert "Cancel all" not in [button.label for button in opened("sweep", {"sweep": str(sweep_id)}).button]


def test_a_cancel_of_all_asks_first(home: Home) -> None:
    sweep_id, _ = sweep_labs.pipeline(home, {"splits": [1, 2]})
    test = opened("sweep", {"sweep": str(sweep_id)})
    test.button(key=f"cancel-sweep-{sweep_id}").click().run()
    assert "2 of its 2 runs have not ended." in words(test)
    with Reader.open(home) as reader:
        assert reader.sweep(sweep_id).statuses == {"queued": 2}


@pytest.mark.parametrize(("wanted", "word"), [("99", "No sweep has the id 99"), ("abc", "ends in its number"), ("-1", "ends in its number"), ("", "No sweep")])
def test_a_link_to_no_sweep_is_a_sentence(home: Home, wanted: str, word: str) -> None:
    test = opened("sweep", {"sweep": wanted})
    assert not test.exception
    assert word in words(test)


def test_sweeps_are_listed_and_linked_from_their_runs(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]}, title="bubble")
    link = f'href="/sweep?sweep={sweep_id}"'
    assert link in html(opened("sweep"))
    assert link in html(opened("run", {"run": str(runs[0].id)}))
    assert link in html(opened("runs"))
    table = opened("results").dataframe[0].value
    assert list(table["sweep"]) == [f"/sweep?sweep={sweep_id}"] * 2


def test_runs_without_a_sweep_have_no_column_for_it(home: Home, lab: dict[Status, int]) -> None:
    assert "sweep" not in opened("results").dataframe[0].value


def test_a_sweeps_token_is_served(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    before = Client().get(f"/api/token?sweep={sweep_id}").json()["token"]
    with Store.open(home) as store:
        store.add_run("hogwild", {}, owner="ada", demand=store_demand(home, runs[0].id))
    assert Client().get(f"/api/token?sweep={sweep_id}").json()["token"] == before
    sweep_labs.drive(home, runs[0])
    assert Client().get(f"/api/token?sweep={sweep_id}").json()["token"] > before
    assert Client().get("/api/token?sweep=x").status_code == 400


def store_demand(home: Home, run_id: int) -> Any:
    with Reader.open(home) as reader:
        return reader.run(run_id).demand


def test_a_sweep_of_an_experiment_that_is_gone_is_still_shown(home: Home) -> None:
    sweep_id, runs = sweep_labs.pipeline(home, {"splits": [1, 2]})
    sweep_labs.drive(home, runs[0])
    with Store.open(home) as store, store.change() as connection:
        connection.execute("UPDATE sweeps SET experiment = 'gone'")
        connection.execute("UPDATE runs SET experiment = 'gone'")
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert not test.exception
    assert "gone over splits" in words(test)


def test_a_matrix_that_would_be_too_wide_is_turned_round(home: Home) -> None:
    sweep_id, _ = sweep_labs.pipeline(home, {"splits": range(1, 21)}, 2)
    with Reader.open(home) as reader:
        shown = matrix(reader.sweep(sweep_id), reader.sweep_runs(sweep_id))
    assert shown.count("<tr>") == 21
    assert 'scope="col">seed 1<' in shown
