"""The Runs page: filtered, sorted, grouped and compared over the whole store, marked in the table, all of it in the
address.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.actions import annotations
from app.home.recent import best_html, news_html
from app.run.summary_html import tiles
from app.runs import columns, frame, grid, page_table
from app.runs import rows as row_makers
from app.runs.columns import Column, measured, read_column, read_columns, usual
from app.runs.rows import TableRow
from app.ui import current_user
from app.ui.widgets import PAGES
from engine.access.rules import Program
from engine.analysis.result import ranked
from engine.cli.runs import summary, summary_text
from engine.errors import EngineError
from engine.filter import RUN_FIELDS, Names, read_order
from engine.home import Home
from engine.metrics import LAST_EPISODES, Result
from engine.notices.notice import notice_of
from engine.recorder import Point
from engine.registry import EXPERIMENTS, experiment, experiment_title
from engine.store import Demand, Launch, RankBatch, Reader, RunRow, Store, SweepLaunch
from engine.store.notices.outbox import Message
from engine.store.records import Status
from engine.sweep.launch import launch_sweep
from engine.system.processes import me
from tests.app.reading import give_name, html, opened, popovers, said
from tests.app.runs.drawn_table import rows_of, table_of, tick
from tests.labs import basic, small, sweeps
from tests.labs import duel as duels
from tests.stand_in import worker
from tests.waiting import PATIENCE_S

ACCURACIES = {2: (97.0, 98.0, 99.0), 4: (90.0, 94.0)}


@pytest.fixture
def foreign(store: Store) -> list[int]:
    """Two runs of another program, and one of ours; return the ids of the first two."""
    made = []
    for name, config in (("pets", {"lr": 0.1, "warmup steps": 5}), ("pets", {"lr": 0.2, "warmup steps": 9})):
        made.append(store.runs.add(Launch(name, config, "Ada", demand=Demand(2, 0, 2, 1))))
        store.claims.claim(made[-1], me(), [])
        points = [Point(metric, 5, 0.5, 1.0) for metric in ("grad norm", "val loss", "zeta")]
        store.worker.write(made[-1], [], run_points=points)
        store.claims.end(made[-1], "finished", "It ended.", execution_time_s=1.0)
    finished(store, 2, 0, 50.0)
    return made


def test_parameters_of_another_program_are_columns_and_orders_to_choose(foreign: list[int]) -> None:
    test = page(of="pets")
    columns, orders = test.multiselect(key="columns").options, test.selectbox(key="sort").options
    assert columns[:2] == ["lr", "warmup steps"], "those of the runs in view are first, the exact name before others"
    assert {"lr ↑ · lr", 'warmup steps ↓ · -config["warmup steps"]'} <= set(orders)
    assert not {"lr", "warmup steps"} & set(page(of="hogwild").multiselect(key="columns").options)


def test_a_typed_name_with_spaces_is_a_column_and_an_order(foreign: list[int]) -> None:
    for name in ("warmup steps", 'config["warmup steps"]', "val loss.min"):
        test = page(columns=[name], sort=f"-{name}", of="pets")
        assert name in last.cells[0] and "The f" not in said(test), name
    assert "Column no such was ignored. The field's 'no such'" in said(page(columns=["no such"]))


@pytest.mark.parametrize(("key", "chosen"), [("of", "hogwild"), ("by", "Ada"), ("columns", "momentum")])
def test_a_chosen_option_is_not_given_again_so_that_the_browser_keeps_what_is_typed_for_the_next(
    foreign: list[int], key: str, chosen: str
) -> None:
    test = page()
    test.multiselect(key=key).set_value([*test.multiselect(key=key).value, chosen]).run()
    found = test.multiselect(key=key)
    assert (chosen in found.value, found.proto.set_value) == (True, False)


def test_a_value_of_a_popover_is_given_once_so_that_a_late_answer_undoes_nothing_chosen_since(home: Home) -> None:
    test = page(archived="true")
    assert test.toggle(key="archived").value and test.toggle(key="archived").proto.set_value
    test.toggle(key="group").set_value(True).run()
    keys = ("group", "fold", "differences", "archived", "starred")
    assert [key for key in keys if test.toggle(key=key).proto.set_value] == []
    assert not test.selectbox(key="sort").proto.set_value and not test.text_input(key="baseline").proto.set_value
    assert test.query_params == {"archived": "true", "group": "true"}


def test_default_columns_are_those_that_the_runs_in_view_have(foreign: list[int]) -> None:
    test = page(of="pets")
    found = ['metric["val loss"].last', "lr", 'config["warmup steps"]']
    assert [name for name in last.cells[0] if name in {*test.multiselect(key="columns").value}] == ["duration", *found]
    assert "columns" not in test.query_params
    test.multiselect(key="of").set_value(["hogwild"]).run()
    assert chosen_columns(test) == [*("duration", "test/accuracy.last", "test/accuracy.best", "trainers", "seed")], (
        "the default follows the filter"
    )
    assert "columns" not in test.query_params


def test_beside_runs_of_ours_those_of_another_program_have_columns_a_result_and_a_trend(foreign: list[int]) -> None:
    test = page()
    rows = {row["key"]: row for row in rows_of(test)}
    assert rows[f"run-{foreign[0]}"]["Result"] == {"text": "0.5 loss", "hover": "val loss 0.5 (last)"}
    assert "Trend" in rows[f"run-{foreign[0]}"]
    assert {'metric["val loss"].last', "lr"} < {*test.multiselect(key="columns").value}


def test_a_sweep_of_which_a_filter_leaves_a_part_shows_the_values_of_that_part(home: Home) -> None:
    sweeps.pipeline(home, {"splits": [1, 2]}, 3)
    (row,) = rows_of(page(filter="seed > 0"))
    assert row["Seed"] == "1, 2" and row["name"].endswith(" (4 of 6 runs)")


def test_an_action_on_selected_runs_shows_nothing_within_its_callback(
    home: Home, seeds: list[int], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamlit warns of elements that a callback of a fragment shows."""
    waiting: list[Any] = []
    monkeypatch.setattr(current_user, "begin_with", waiting.append)
    monkeypatch.setattr(annotations.st, "toast", lambda text: pytest.fail(text))
    annotations.order_soon(lambda store, who: store.annotations.star(seeds, by=who), "starred")
    assert len(waiting) == 1 and not store.read.runs.entry(seeds[0]).starred_by


@pytest.fixture
def seeds(home: Home) -> list[int]:
    """Five finished runs of two configs and one that failed; return their ids, oldest first."""
    with Store.open(home) as store:
        made = [
            finished(store, trainers, seed, value)
            for trainers, values in ACCURACIES.items()
            for seed, value in enumerate(values)
        ]
        return [*made, finished(store, 4, 2, 10.0, "failed")]


def finished(
    store: Store,
    trainers: int,
    seed: int,
    value: float,
    status: Status = "finished",
    experiment: str = "hogwild",
    metric: str = "test/accuracy",
) -> int:
    run_id = store.runs.add(
        Launch(
            experiment,
            {"trainers": trainers, "seed": seed},
            "Ada" if seed else "Bea",
            "quick",
            demand=Demand(2, 0, 2, 1),
        )
    )
    store.claims.claim(run_id, me(), [])
    store.worker.begin(run_id, me(), {})
    store.worker.mark_running(run_id, 0.5)
    store.worker.write(
        run_id,
        [],
        run_points=[Point(metric, step, value - (10 - step), float(step)) for step in (5, 10, 8)],
    )
    store.claims.end(run_id, status, "It ended.", execution_time_s=10.0 * trainers)
    return run_id


@dataclass
class Drawn:
    """The last table that a page drew: its rows, their cells, and what the browser gets."""

    rows: Sequence[TableRow] = ()
    cells: Sequence[Mapping[str, Any]] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> list[int]:
        return [run_id for row in self.rows for run_id in row.run_ids]

    @property
    def frame(self) -> pd.DataFrame:
        plain = [{name: getattr(each, "mean", each) for name, each in row.items()} for row in self.cells]
        return pd.DataFrame(plain, dtype=object)


last = Drawn()


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Note each table that is drawn."""
    real = grid.grid_of

    def noted(rows: Any, cells: Any, *given: Any, **named: Any) -> dict[str, Any]:
        last.rows, last.cells, last.data = rows, cells, real(rows, cells, *given, **named)
        return dict(last.data)

    monkeypatch.setattr(grid, "grid_of", noted)
    return last


def chosen_columns(test: AppTest) -> list[str]:
    """Return the columns chosen, by a widget that is another one after a link or a filter."""
    (found,) = (each.value for each in test.multiselect if each.label == "Columns")
    return [*found]


def page(**query: Any) -> AppTest:
    last.__init__()  # type: ignore[misc]
    test = opened("runs", query)
    assert not test.exception
    assert not test.error
    return test


def test_a_baseline_in_the_address_that_is_no_runs_number_is_said_and_left_out(seeds: list[int]) -> None:
    for written in ("inf", "-inf", "nan", "1e999", "1.5", "-1", "twelve"):
        asked = f"Baseline must be a run number, such as 12; got '{written}'. Enter one under Display"
        assert asked in said(page(baseline=written))


def framed(**query: Any) -> pd.DataFrame:
    """Return the table of the page with this query as a data frame."""
    page(**query)
    return last.frame


def rows(test: AppTest) -> list[int]:
    """Return the ids of the rows of the table that was drawn last, which is this page's."""
    return last.ids


def test_filters_sorts_and_columns_in_the_address_choose_what_is_shown(home: Home, seeds: list[int]) -> None:
    test = page(filter='trainers >= 4 and status == "finished"')
    assert rows(test) == [seeds[4], seeds[3]]
    assert test.text_input(key="filter").value == 'trainers >= 4 and status == "finished"'
    assert "2 of 6 runs." in said(test)
    assert rows(page(filter="test/accuracy.best > 0.98")) == [seeds[2]]
    assert "0.98 is interpreted as 98 %" in said(page(filter="test/accuracy.best > 0.98"))
    assert rows(page(filter="trainers == 2", by="Bea", of="hogwild")) == [seeds[0]]
    assert rows(page(sort="-test/accuracy.best"))[:3] == [seeds[2], seeds[1], seeds[0]]
    assert rows(page(sort="test/accuracy.best"))[0] == seeds[5]
    assert "Did you mean trainers" in said(page(sort="trainer"))
    columns = ["test/accuracy.mean", "trainers", "test/accuracy@8", "duration", "cores"]
    frame = framed(columns=columns, filter=f"id == {seeds[1]}")
    assert [name for name in frame.columns if name in columns] == columns
    assert list(frame.iloc[0][columns]) == [pytest.approx(98 - 7 / 3), 2, pytest.approx(96.0), 20.0, 2]
    assert "Column trainer was ignored" in said(page(columns=["trainers", "trainer"]))
    test = page(baseline=str(seeds[0]))
    assert test.text_input(key="baseline").value == str(seeds[0])
    assert "Baseline must be" not in said(test)
    test = page(filter="trainers > 100")
    assert "Remove a condition" in said(test)
    button = next(button for button in test.button if button.label == "Clear filters")
    assert rows(button.click().run()) == seeds[::-1]


def test_a_wrong_filter_is_a_sentence_under_its_field_and_no_table(home: Home, seeds: list[int]) -> None:
    for text, words in (
        ("trainer > 3", "Did you mean trainers"),
        ("owner is 3", "Use == for equality"),
        ("x" * 900 + "(" * 90, "never closed"),
    ):
        test = page(filter=text)
        assert words in said(test)
        assert not last.rows
    assert rows(test.text_input(key="filter").set_value("").run()) == seeds[::-1]


def test_what_every_run_has_can_be_a_column_beside_numbers(home: Home, seeds: list[int], store: Store) -> None:
    store.annotations.set_note(seeds[0], "look at this", by="Ada")
    store.annotations.tag(seeds[:2], "thesis", by="Ada")
    store.annotations.star(seeds[:1], by="Ada")
    every = list(RUN_FIELDS)
    frame = framed(columns=["trainers", *every], filter=f"id == {seeds[0]}")
    assert [name for name in frame.columns if name in every] == every, "each once, in the order chosen"
    row = frame.iloc[0]
    words = {
        "id": seeds[0],
        "experiment": "hogwild",
        "owner": "Bea",
        "status": "finished",
        "note": "look at this",
        "tags": "thesis",
        "duration": 20.0,
    }
    assert {name: row[name] for name in words} == words
    assert (bool(row["starred"]), bool(row["archived"]), row["created"] <= row["ended"]) == (True, False, True)
    grouped = framed(
        group="true", columns=["owner", "status", "starred", "ended", "test/accuracy.best"], filter="trainers == 2"
    )
    assert (grouped["owner"][0], grouped["status"][0], grouped["starred"][0]) == ("Bea, Ada", "finished", None)
    by_owner = framed(columns=["owner"], sort="owner")
    assert list(by_owner["owner"]) == sorted(by_owner["owner"])


def test_one_row_for_all_seeds_has_mean_and_sd_and_archived_runs_are_hidden(
    home: Home, seeds: list[int], store: Store
) -> None:
    frame = framed(group="true", columns=["test/accuracy.best", "trainers"])
    by_trainers = {row["trainers"]: row for _, row in frame.iterrows()}
    for trainers, values in ACCURACIES.items():
        row = by_trainers[trainers]
        assert row["test/accuracy.best"] == pytest.approx(statistics.fmean(values))
        assert row["test/accuracy.best sd"] == pytest.approx(statistics.stdev(values))
        assert row["n"] == len(values)
    assert [by_trainers[trainers]["differs"] for trainers in (2, 4)] == ["trainers 2", "trainers 4"]
    assert by_trainers[4]["runs"] == f"{seeds[3]}-{seeds[5]}"
    narrowed = framed(group="true", columns=["test/accuracy.best"], filter="trainers == 4 and seed == 0")
    assert (narrowed["n"][0], narrowed["test/accuracy.best"][0], pd.isna(narrowed["test/accuracy.best sd"][0])) == (
        1,
        90.0,
        True,
    )
    store.annotations.archive(seeds[:2], by="Ada")
    assert rows(page()) == seeds[:1:-1]
    assert rows(page(archived="true")) == seeds[::-1]
    assert rows(page(filter="archived")) == [seeds[1], seeds[0]]
    assert "2 matching runs are archived" in said(page(filter="seed < 2 and trainers == 2"))
    assert f"{seeds[0]}: " not in "".join(element.label for element in opened("runs").get("page_link"))


def test_the_baseline_stands_on_top_with_differences_to_it(home: Home, seeds: list[int], store: Store) -> None:
    store.annotations.pin(seeds[1], by="Ada")
    other = finished(store, 2, 0, 50.0, experiment="sync_sgd")
    frame = framed(columns=["test/accuracy.best"], filter="test/accuracy.best > 40 and id != 2").set_index("run")
    assert list(frame.index)[:2] == [seeds[1], other]
    assert frame["marks"].iloc[0] == "baseline"
    difference = frame["test/accuracy.best difference"]
    assert difference[seeds[0]] == -1.0
    assert pd.isna(difference[seeds[1]])
    assert pd.isna(difference[other]), "sync_sgd has no baseline"
    chosen = framed(columns=["test/accuracy.best"], baseline=str(seeds[0])).set_index("run")
    assert chosen["test/accuracy.best difference"][other] == 50.0 - 97.0
    assert "test/accuracy.best difference" not in framed(columns=["test/accuracy.best"], differences="false")
    assert "Baseline run 99 doesn't exist" in said(page(baseline="99"))
    drawn = page(columns=["test/accuracy.best"], baseline=str(seeds[1]), fold="false")
    (row,) = [row for row in rows_of(drawn) if row["key"] == f"run-{seeds[0]}"]
    texts = [cell["text"] for cell in row["cells"] if isinstance(cell, dict) and "text" in cell]
    assert "\u22121.00 points" in texts, "percentages differ by points"


def test_groups_are_compared_with_the_whole_group_of_the_baseline(home: Home, seeds: list[int], store: Store) -> None:
    store.annotations.pin(seeds[0], by="Ada")
    frame = framed(group="true", columns=["test/accuracy.best"], filter="trainers == 4 or seed == 0")
    assert list(frame["n"]) == [3, 2]
    assert frame["test/accuracy.best difference"][1] == pytest.approx(92.0 - 98.0)
    data = last.data
    place = next(at for at, head in enumerate(data["columns"]) if head["label"] == "Δ")
    cell = data["rows"][1]["cells"][place]
    assert (cell["text"], cell["tone"]) == ("\u22126.00 points · \u22122.9 SE", "")
    assert cell["hover"].endswith(", too few runs to judge")
    test = ticked(page(group="true"), 1)
    test.session_state["person"] = "Ada"
    press(test, "Pin as baseline")
    assert framed(group="true", columns=["trainers"])["trainers"].iloc[0] == 4, "a group is pinned by one of its runs"
    assert "Unpin" in {button.label for button in ticked(page(group="true"), 0).button}


def ticked(test: AppTest, *places: int) -> AppTest:
    """Tick rows, as a click on their boxes does."""
    test.session_state[grid.KEY] = {"ticked": [last.rows[place].key for place in places]}
    return test.run()


def test_ones_own_saved_view_is_named_while_it_is_shown(home: Home, seeds: list[int], store: Store) -> None:
    def menus(**query: str) -> list[str]:
        return popovers(signed(page(**query)))

    def signed(test: AppTest) -> AppTest:
        test.session_state["person"] = "Ada"
        return test.run()

    shown = {"of": "hogwild", "show": "finished"}
    store.views.save("The same", "results", "of=hogwild&show=finished", owner="Bea")
    store.views.save("Best *Hogwild!*", "runs", "show=finished&of=hogwild", owner="Ada")
    assert "Saved views" in popovers(page(**shown)), "nobody's own"
    assert "View: Best *Hogwild!*" in menus(**shown)
    assert "Saved views" in menus(**shown, search="Ada")
    assert html(page(**shown)).count("shown now, ") == 2


def test_running_runs_come_first_and_sweeps_and_duels_are_one_row(home: Home, seeds: list[int], store: Store) -> None:
    basic.filled(home)  # one run of each status
    sweep, members = sweeps.pipeline(home, {"splits": [1, 2]}, title="bubble")
    sweeps.drive(home, members[0])
    found = rows_of(page())
    keys = [row["key"] for row in found]
    states = [[part["status"] for part in row["Status"]["states"]] for row in found]
    ranks = [2 if {"starting", "running", "stopping"} & set(each) else 1 if "queued" in each else 0 for each in states]
    assert ranks == sorted(ranks, reverse=True) and set(ranks) == {0, 1, 2}
    row = found[keys.index(f"sweep-{sweep}")]
    assert row["href"] == f"/sweep?sweep={sweep}"
    assert row["name"] == f"Sweep {sweep}: bubble (2 runs)"
    assert [part["text"] for part in row["Status"]["states"]] == ["1 queued", "1 finished"]
    assert row["Settings that differ"] == "splits 1, 2" and row["open"] is False
    test = page()
    test.session_state[grid.KEY] = {"open": [f"sweep-{sweep}"]}
    unfolded = rows_of(test.run())
    below = keys.index(f"sweep-{sweep}") + 1
    assert [(each["key"], each["child"]) for each in unfolded[below : below + 2]] == [
        (f"run-{run.id}", True) for run in reversed(members)
    ]
    assert [(each["name"], each["Settings that differ"]) for each in unfolded[below : below + 2]] == [
        (f"{run.id}: splits {run.config['splits']}, seed {run.config['seed']}", f"splits {run.config['splits']}")
        for run in reversed(members)
    ]
    assert unfolded[below]["title"] == f"{members[1].id}: bubble: splits 2, seed 0 (Pipeline parallelism, quick)"
    ticked_fold = tick(page(), f"sweep-{sweep}")
    assert "2 runs selected" in said(ticked_fold)
    assert compare_link(ticked_fold)["runs"] == [f"{members[0].id},{members[1].id}"]
    flat = {row["key"] for row in rows_of(page(sort="-created"))}
    assert {f"run-{run.id}" for run in members} < flat and f"sweep-{sweep}" not in flat


def test_the_row_of_several_runs_has_the_tags_that_all_of_them_have(home: Home, store: Store) -> None:
    sweep, members = sweeps.pipeline(home, {"splits": [1, 2]})
    for run_id, tag in ((members[0].id, "paper"), (members[1].id, "paper"), (members[1].id, "one of them")):
        store.annotations.tag([run_id], tag, by="Ada")
    (row,) = [each for each in rows_of(page()) if each["key"] == f"sweep-{sweep}"]
    assert row["marks"] == ["paper"]
    assert {row["key"]: row["marks"] for row in rows_of(page(group="true"))} == {
        f"group-{members[0].id}": ["paper"],
        f"group-{members[1].id}": ["one of them", "paper"],
    }


def test_a_run_below_its_fold_leaves_out_the_name_of_the_fold(home: Home) -> None:
    long = "Does the bubble shrink: an experiment on our machine with many words " * 4
    sweep, _ = sweeps.pipeline(home, {"splits": [1, 2]}, title=long[:200])
    duel = duels.whole(home, amount=8).stored.id
    test = page()
    test.session_state[grid.KEY] = {"open": [f"sweep-{sweep}", f"duel-{duel}"]}
    names = [row["name"].partition(": ")[2] for row in rows_of(test.run()) if row["child"]]
    titles = [row["title"] for row in rows_of(test) if row["child"]]
    assert "splits 2, seed 0" in names and any("…: splits 2, seed 0 (" in title for title in titles)
    assert "Hogwild!, learning rate 0.1, seed 0" in names
    assert "tuning: Hogwild!, learning rate 0.1, seed 100000" in names
    assert any(f": Duel {duel}, judging: Hogwild!, learning rate 0.1, seed 0 (" in title for title in titles)


def test_a_fold_shows_the_best_result_of_its_finished_runs(home: Home) -> None:
    quick = experiment("hogwild").preset("quick").settings
    sweep = launch_sweep(home, SweepLaunch(Launch("hogwild", quick, "Ada"), {"trainers": [1, 2, 4]}))
    tasks = launch_sweep(home, SweepLaunch(Launch("hogwild", quick, "Ada"), {"dataset": ["digits", "synthetic"]}))
    with Reader.open(home) as reader:
        members, of_tasks = reader.sweeps.runs(sweep), reader.sweeps.runs(tasks)
    for run in (*members[:2], *of_tasks):
        small.finish(home, run, work=5_000, time_s=2.0)
    found = duels.whole(home, amount=8)
    duel = found.stored.id
    results = {row["key"]: row["Result"] for row in rows_of(page())}
    with Reader.open(home) as reader:
        rates = {run.id: each for run in reader.runs.some([run.id for run in members]) if (each := ranked(run))}
        judged = [each.run.id for each in found.of("judging") if each.run]
        accuracies = {run.id: each for run in reader.runs.some(judged) if (each := ranked(run))}
    assert len(rates) == 2
    for key, own, count in (
        (f"sweep-{sweep}", rates, "2 of 3"),
        (f"duel-{duel}", accuracies, "16 of 16 runs"),
    ):
        shown = results[key]
        best = max(each.value for each in own.values())
        run_id = int(shown["hover"].removeprefix("Run ").partition(":")[0])
        assert own[run_id].value == best
        assert shown["text"] == f"best {own[run_id].short}"
        assert shown["hover"].startswith(f"Run {run_id}: {own[run_id].words}; {count}")
    assert results[f"sweep-{tasks}"] is None, "results of two tasks do not compare"
    (narrowed,) = [row for row in rows_of(page(filter="trainers == 1")) if row["key"] == f"sweep-{sweep}"]
    assert narrowed["Result"]["hover"].startswith(f"Run {members[0].id}: ")


def test_a_group_of_statuses_chooses_runs_and_a_result_has_its_course(
    home: Home, seeds: list[int], reader: Reader
) -> None:
    assert rows(page(show="failed or lost")) == [seeds[5]]
    assert "No matching runs. Status: cancelled. Remove a condition" in said(page(show="cancelled"))
    named = "Search: none; Filter expression: trainers > 7; Experiment: Hogwild!; Starred."
    asked = {"search": "none", "filter": "trainers > 7", "of": "hogwild", "starred": "true"}
    assert f"No matching runs. {named}" in said(page(**asked)).replace("\\", "")
    assert rows(page(show=["failed or lost", "cancelled"])) == [seeds[5]]
    assert len(rows(page(show=["failed or lost", "finished"]))) == 6
    test = page(show="failed or lost")
    for pressed, chosen in ((["failed or lost", "all"], ["all"]), (["all", "finished"], ["finished"]), ([], ["all"])):
        assert test.segmented_control(key="show").set_value(pressed).run().session_state["show"] == chosen
    assert len(rows(test)) == len(rows(page()))
    with Store.open(home) as store:
        store.annotations.star([seeds[1]], by="Ada")
    assert rows(page(starred="true")) == [seeds[1]]
    assert "Filters (1)" in popovers(page(starred="true"))
    first = rows_of(page(sort="created"))[0]
    assert (first["key"], first["Result"]) == (
        f"run-{seeds[0]}",
        {"text": "95.00 %", "hover": "test accuracy 95.00 % (last)"},
    )
    assert first["Trend"] == [92.0, 97.0, 95.0]


def test_the_heading_result_of_a_name_without_a_slash_shows_how_it_sorts() -> None:
    heading = grid._result_heading({Result("val_accuracy", of="last")})
    assert (
        heading["sort"]
        == read_order('-metric["val_accuracy"].last', Names({}, frozenset({"val_accuracy"}), frozenset())).field.written
    )


def test_the_heading_result_sorts_where_all_results_are_of_one_metric(home: Home, seeds: list[int]) -> None:
    def sort_of(**query: str) -> list[str | None]:
        return [column["sort"] for column in table_of(page(**query))["columns"] if column["label"] == "Result"]

    assert sort_of() == ["test/accuracy.last"]
    assert rows(page(sort="-test/accuracy.last"))[0] == seeds[2]
    with Store.open(home) as store:
        finished(store, 2, 0, 0.5, experiment="parameter_server", metric="test/loss")
        finished(store, 2, 0, 90.0, experiment="dppo", metric="test/episodic_return")
    assert sort_of() == [None]
    assert sort_of(of="hogwild") == ["test/accuracy.last"]
    (row,) = rows_of(page(of="dppo"))
    assert row["Result"]["text"] == "88 reward", "a number without a unit is named also where all are of one metric"


def test_several_selected_runs_are_cancelled_after_a_question(
    home: Home, seeds: list[int], reader: Reader, store: Store
) -> None:
    waiting = [basic.add(store, "Ada") for _ in range(2)]
    test = tick(page(), *(f"run-{run_id}" for run_id in [*waiting, seeds[0]]))
    assert "Cancel 2 runs" in [button.label for button in press(test, "Cancel").button]
    assert {reader.runs.one(run_id).status for run_id in waiting} == {"queued"}
    dialog = AppTest.from_function(_ask, args=([*waiting, seeds[0]],), default_timeout=PATIENCE_S).run()
    assert "Keep them" in [button.label for button in dialog.button]
    dialog.session_state["person"] = "Ada"
    press(dialog, "Cancel 2 runs")
    assert {reader.runs.one(run_id).status for run_id in waiting} == {"cancelled"}
    assert reader.runs.one(seeds[0]).status == "finished", "it had ended meanwhile"


def _ask(run_ids: list[int]) -> None:
    from app.actions.queue_actions import ask_cancel_all

    ask_cancel_all(run_ids)


def test_the_downloaded_table_has_one_row_per_run_with_plain_ids(
    home: Home, seeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, members = sweeps.pipeline(home, {"splits": [1, 2]})
    given: list[Any] = []
    monkeypatch.setattr("app.runs.page_table.download", lambda *_, tables, **__: given.append(tables))
    page()
    table = given[-1]["The table as shown"]()
    named = list(table.columns)
    ids = [row[named.index("run")] for row in table.rows]
    assert ids == [*(run.id for run in reversed(members)), *seeds[::-1]]
    assert {row[named.index("sweep")] for row in table.rows} == {sweep, None}


def press(test: AppTest, label: str) -> AppTest:
    return next(button for button in test.button if button.label == label).click().run()


def test_one_ticked_row_can_be_opened_and_pinned(home: Home, seeds: list[int], reader: Reader) -> None:
    test = ticked(page(), 1)
    test.session_state["person"] = "Ada"
    assert [link.label for link in test.get("page_link") if link.label.startswith("Open")] == [f"Open run {seeds[4]}"]
    press(test, "Pin as baseline")
    assert reader.runs.pinned()["hogwild"].id == seeds[4]


def test_several_ticked_rows_are_marked_at_once(home: Home, seeds: list[int], reader: Reader) -> None:
    test = ticked(page(), 0, 2)
    test.session_state["person"] = "Ada"
    assert "2 runs selected" in said(test)
    press(test, "Star")
    test = ticked(test, 0, 2)
    test.text_input(key="mark.tag").set_value("thesis")
    press(test, "Add tag")
    assert [run.id for run in reader.runs.find(matching=reader.fields.filter('starred and "thesis" in tags'))] == [
        seeds[5],
        seeds[3],
    ]
    press(ticked(test, 0, 2), "Archive")
    assert rows(test) == [seeds[4], *seeds[2::-1]]
    assert "selected" not in said(test)


def test_all_that_match_are_marked_beyond_the_page_and_changed_back(
    home: Home, seeds: list[int], reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tagged() -> set[int]:
        return set(reader.runs.ids_of(reader.fields.filter('"thesis" in tags')))

    monkeypatch.setattr(page_table, "PAGE", 2)
    test = ticked(page(filter='status == "finished"', fold="false"), 0, 1)
    test.session_state["person"] = "Ada"
    assert "2 runs selected" in said(test)
    press(test, "Select all 5 that match")
    assert "5 runs selected" in said(test)
    assert compare_link(test)["runs"] == [f"{seeds[0]}-{seeds[4]}"]
    monkeypatch.setattr("app.links.compare.MOST_RUNS", 4)
    assert "Compare: of at most 4 runs" in said(test.run()), "and no link"
    assert "Compare" not in [link.label for link in test.get("page_link")]
    test.text_input(key="mark.tag").set_value("thesis")
    press(test, "Add tag")
    assert tagged() == set(seeds[:5]), "not the one that failed"
    press(test, "Undo: 5 runs tagged thesis")
    assert not tagged() and not [each for each in test.button if each.label.startswith("Undo")]
    press(test, "Archive")
    assert len(reader.runs.ids_of(reader.fields.filter("archived"))) == 5
    press(test, "Undo: 5 runs archived")
    assert not reader.runs.ids_of(reader.fields.filter("archived"))
    assert "Select all" not in " ".join(each.label for each in ticked(test, 0).button)
    monkeypatch.setattr(page_table, "MOST_AT_ONCE", 3)
    assert "3 runs selected" in said(press(ticked(test, 0, 1), "Select the newest 3 that match"))


def test_a_guide_opens_from_the_second_page_of_the_table(
    home: Home, seeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_table, "PAGE", 2)
    test = opened("runs", {"fold": "false", "table-page": "2"})
    assert rows(test) == seeds[3:1:-1]
    test.switch_page(str(PAGES["docs"])).query_params["page"] = "timeline"
    assert [title.value for title in test.run().title] == ["Timeline and hang doctor"], "a link or Back"


def compare_link(test: AppTest) -> dict[str, list[str]]:
    return parse_qs(next(link for link in test.get("page_link") if link.label == "Compare").proto.query_string)


def test_ticked_groups_are_compared_as_these_groups(home: Home, seeds: list[int], store: Store) -> None:
    both = compare_link(ticked(page(group="true"), 0, 1))
    assert both == {"runs": [f"{seeds[0]}-{seeds[4]}"], "group": ["trainers"], "v": ["3"]}, (
        "the run that failed is not in its row's mean"
    )
    one = compare_link(ticked(page(group="true"), 1))
    assert one == {"runs": [f"{seeds[0]}-{seeds[2]}"], "group": ["experiment"], "v": ["3"]}
    assert "group" not in compare_link(ticked(page(), 0, 2))
    other = finished(store, 2, 0, 50.0, experiment="sync_sgd")
    found = compare_link(ticked(page(group="true"), 0, 1, 2))
    assert found == {"runs": [f"{seeds[0]}-{seeds[4]},{other}"], "group": ["experiment,trainers"], "v": ["3"]}


def test_the_run_page_marks_its_run_and_a_column_is_a_setting_a_number_or_a_metric(
    home: Home, seeds: list[int], reader: Reader
) -> None:
    names = Names.usual()
    assert read_column("test/accuracy.best", names).label == "Test accuracy, best (%)"
    assert read_column("test/accuracy @ 500", names) == Column(
        "test/accuracy@500", read_column("test/accuracy", names).field, 500
    )
    assert read_column("duration", names).label == "Execution (s)"
    assert (
        read_column("tag", names).written,
        read_column("owner", names).label,
        read_column("owner", names).is_words,
    ) == ("tags", "Owner", True)
    for wrong in ("owner@5", "trainers@5", "test/accuracy@-1", "a b"):
        with pytest.raises(EngineError):
            read_column(wrong, names)
    columns, sentences = read_columns(["test/accuracy.last", "test/accuracy.last", "nonsense"], reader)
    assert ([column.written for column in columns], len(sentences)) == (["test/accuracy.last"], 1)
    assert measured(reader, seeds[:1], columns) == {"test/accuracy.last": {seeds[0]: 95.0}}
    test = opened("run", {"run": str(seeds[0])})
    test.session_state["person"] = "Ada"
    for label in ("Star", "Pin as baseline", "Archive"):
        test = press(test, label)
        assert not test.exception
    run = reader.runs.one(seeds[0])
    assert run.starred_by and run.pinned_by and run.archived_by
    assert "star" in "".join(framed(filter="starred", archived="true")["marks"])
    assert {"Unstar", "Unpin", "Unarchive"} <= {button.label for button in test.button}
    test = opened("run", {"run": str(seeds[0]), "section": "Notes"})
    test.session_state["person"] = "Ada"
    test.text_input(key=f"name-{seeds[0]}").set_value("first light")
    press(test, "Save")
    assert reader.runs.one(seeds[0]).name == "first light"


@pytest.mark.parametrize(
    ("values", "deviation"), [([], None), ([1.0], None), ([1.0, 1.0], 0.0), ([1e9, 1e9 + 1, 1e9 + 2], 1.0)]
)
def test_a_deviation_is_the_samples(values: list[float], deviation: float | None) -> None:
    assert frame.deviation(values) == deviation


def test_runs_not_of_ours_can_be_chosen_and_the_rows_shown_leave_as_a_report(
    home: Home, seeds: list[int], monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    reports: list[bytes] = []
    monkeypatch.setattr("app.runs.page_table.download", lambda *_, report, **__: reports.append(report()))
    test = page(filter="trainers == 2", of="hogwild", by="Ada", sort="-seed")
    text = unescape(reports[-1].decode())
    shown = rows(test)
    assert shown and len(shown) < len(seeds)
    assert "Sorted by" in text and "seed, descending" in text and "trainers == 2" in text
    lines = [line for line in text.splitlines() if "# run " in line]
    assert sorted(int(line.split("# run ")[1].split("<")[0]) for line in lines) == sorted(shown)
    other = finished(store, 2, 0, 50.0, experiment="imported")
    test = page(of="imported")
    assert rows(test) == [other]
    assert test.multiselect(key="of").options == [
        *("Hogwild!", "imported"),
        *(experiment_title(each) for each in EXPERIMENTS if each != "hogwild"),
    ], "those with runs first"
    test.multiselect(key="of").set_value(["Hogwild!"]).run()
    assert test.query_params["of"] == "hogwild" and test.multiselect(key="of").value == ["hogwild"]
    assert row_makers.spans([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    assert row_makers.spans(range(0, 100, 2)).endswith("20, 22, … (50 in total)")


REWARD = "charts/episodic_return"
MOMENT = "2020-01-01T00:00:00+00:00"


def add(home: Home, name: str, points: dict[str, list[float]]) -> RunRow:
    """Add a finished run of two ranks that both recorded these values."""
    config = experiment(name).configure("quick").model_dump(mode="json")
    with Store.open(home) as store, Reader.open(home) as reader:
        run_id = store.runs.add(Launch(name, config, "ada", "quick", demand=Demand(2, 0, 1, 1)))
        store.claims.claim(run_id, worker(), ())
        store.worker.begin(run_id, worker(), {})
        store.worker.mark_running(run_id, 0.5)
        batches = [
            [
                Point(metric, step, value, float(step))
                for metric, values in points.items()
                for step, value in enumerate(values, 1)
            ]
        ] * 2
        store.worker.write(run_id, [RankBatch(rank, batch) for rank, batch in enumerate(batches)])
        store.claims.end(run_id, "finished", "It finished.", execution_time_s=200.0)
        return reader.runs.entry(run_id)


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html))


@pytest.mark.parametrize(
    ("name", "points", "said", "number"),
    [
        ("batched_reinforce", {REWARD: [20.0, 100.0, 500.0, 480.0]}, "episode reward 275 (mean over the run)", 275.0),
        (
            "batched_reinforce",
            {REWARD: [20.0, 100.0, 500.0, 480.0], LAST_EPISODES: [60.0, 400.0, 392.0]},
            "mean reward of the last 100 episodes 392 (last)",
            392.0,
        ),
        (
            "dppo",
            {REWARD: [20.0, 500.0], "test/episodic_return": [480.0, 500.0, 470.0]},
            "evaluation reward 470 (last)",
            470.0,
        ),
        ("hogwild", {"test/accuracy": [90.0, 97.25, 95.0]}, "test accuracy 95.00 % (last)", 95.0),
    ],
)
def test_a_result_is_the_same_number_everywhere_and_says_which_it_is(
    home: Home, name: str, points: dict[str, list[float]], said: str, number: float, reader: Reader
) -> None:
    run = add(home, name, points)
    found = ranked(run)
    assert found is not None
    assert (found.value, found.words) == (number, said)
    label, _, statistic = said.partition(f" {number:g}")
    statistic = statistic.rpartition("(")[2].rstrip(")")
    top = plain(tiles(reader.details.summaries(run.id), run))
    assert top.strip().startswith(f"Result: {label} {number:g}") and statistic in top
    best = plain(best_html(reader))
    assert f"{number:g}" in best and f"{label}, {statistic}" in best
    assert said in plain(news_html(reader, MOMENT))
    assert f"Result: {said}." in summary_text(summary(reader, run.id))
    message = Message(1, "k", "run", run.id, None, None, MOMENT, 1, MOMENT, None, None, "", 1, "ada", "team", "")
    assert dict(notice_of(reader, message).facts)["Result"] == said


def test_the_mean_of_episodes_is_told_and_an_unknown_experiment_by_its_most_telling_value(
    home: Home, reader: Reader
) -> None:
    run = add(home, "batched_reinforce", {REWARD: [20.0, 100.0, 500.0]})
    assert "episode reward 206.7 mean over the run; best 500" in plain(tiles(reader.details.summaries(run.id), run))
    assert [name for name in usual({"batched_reinforce": {REWARD: 9, LAST_EPISODES: 9}}, {}) if "/" in name] == [
        f"{LAST_EPISODES}.last",
        f"{LAST_EPISODES}.best",
    ]
    assert [name for name in usual({"hogwild": {REWARD: 9, "test/accuracy": 9}}, {}) if "/" in name] == [
        "test/accuracy.last",
        "test/accuracy.best",
        f"{REWARD}.mean",
        f"{REWARD}.best",
    ]
    run = add(home, "dppo", {"test/episodic_return": [200.0, 500.0], LAST_EPISODES: [226.8]})
    shown = plain(tiles(reader.details.summaries(run.id), run))
    assert "Result: evaluation reward 500 last test, of greedy actions; best 500" in shown
    assert "226.8 last; best 226.8; of training, whose actions are drawn at random" in shown
    run = add(home, "hogwild", {"test/accuracy": [90.0]})
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE runs SET experiment = 'gone'")
    assert (found := ranked(reader.runs.entry(run.id))) and found.words == "test accuracy 90.00 % (last)"
    assert "Result: test accuracy 90.00 % last; best 90.00" in plain(
        tiles(reader.details.summaries(run.id), reader.runs.entry(run.id))
    )


def test_a_result_says_whether_it_meets_what_its_preset_states(home: Home, reader: Reader) -> None:
    def top(run: RunRow) -> str:
        return plain(tiles(reader.details.summaries(run.id), run))

    run = add(home, "hogwild", {"test/accuracy": [90.0, 95.5]})
    assert "meets the 95 % that preset quick states as its minimum" in top(run)
    assert "states" in top(replace(run, config={**run.config, "seed": 7})), "the seed is no change"
    assert "states" not in top(replace(run, config={**run.config, "learning_rate": 0.01}))
    assert "states" not in top(replace(run, status="cancelled"))
    assert "states" not in top(replace(run, preset=None))
    run = add(home, "hogwild", {"test/accuracy": [94.9]})
    assert "below the 95 % that preset quick states as its minimum" in top(run)


def test_settings_are_shown_by_their_titles_and_saved_by_their_names(home: Home) -> None:
    sweep, _ = sweeps.pipeline(home, {"batch_size": [16, 32], "mode": ["gpipe", "1f1b"]})
    written = ["batch_size", "timeout_s"]
    (fold,) = rows_of(page(columns=written))
    assert fold["key"] == f"sweep-{sweep}"
    assert fold["Settings that differ"] == "batch size 16, 32, mode gpipe, 1f1b"
    found = rows_of(page(columns=written, fold="false"))
    assert [row["Settings that differ"] for row in found[::-1]] == [
        f"{mode}, batch size {size}" for size in (16, 32) for mode in ("gpipe", "1f1b")
    ]
    assert found[-1]["Batch size"] == "16" and "Timeout (s)" in found[-1]
    assert list(last.cells[0])[-3:-1] == written, "a download names its columns as the filter does"


def test_columns_and_orders_are_chosen_by_labels_and_kept_in_the_address_as_written(
    home: Home, seeds: list[int]
) -> None:
    assert columns.named("test/accuracy.best") == "Test accuracy, best (%) · test/accuracy.best"
    assert [columns.named(name) for name in ("trainers", "learning_rate", "nonsense >")] == [
        *("Trainers", "Learning rate · learning_rate", "nonsense >")
    ]
    written = ["trainers", "test/accuracy@8"]
    test = page(columns=written, sort="-trainers")
    chosen = test.multiselect(key="columns")
    assert chosen.value == written and "Test accuracy, best (%) · test/accuracy.best" in chosen.options
    assert "Trainers ↓ · -trainers" in test.selectbox(key="sort").options
    chosen.set_value([*written, "test/accuracy.best"]).run()
    assert test.query_params["columns"] == [*written, "test/accuracy.best"]
    assert test.query_params["sort"] == "-trainers"
    test.selectbox(key="sort").set_value("trainers").run()
    assert test.query_params["sort"] == "trainers"
    test.selectbox(key="sort").set_value(None).run()
    assert "sort" not in test.query_params
    test.multiselect(key="columns").set_value([]).run()
    assert test.query_params["columns"] == "", "no columns is a choice too"
    test.query_params["columns"] = ["owner"]
    test.run()
    assert chosen_columns(test) == ["owner"], "a link on the open page"


def test_runs_that_the_budget_of_their_duel_ended_are_told_apart_from_cancelled_ones(home: Home, store: Store) -> None:
    duels.launched(home, kind="seconds", amount=5.0)
    spent, other = [run.id for run in store.read.queue.waiting()][:2]
    store.runs.cancel(spent, by=Program("the budget of duel 1"))
    store.runs.cancel(other, by="Ada")
    (row,) = table_of(page())["rows"]
    assert [part["text"] for part in row["cells"][2]["states"]] == ["4 queued", "1 cancelled", "1 budget reached"]
    single = [each["cells"][2] for each in table_of(page(fold="false", show="cancelled"))["rows"]]
    assert [(each["states"][0]["text"], each["states"][0]["status"], each["note"]) for each in single] == [
        ("cancelled", "cancelled", "Cancelled by Ada."),
        ("budget reached", "finished", "Ended by the budget of duel 1."),
    ]
    test = opened("run", {"run": str(spent)})
    assert "budget reached" in [badge.value for badge in test.get("badge")] or "budget reached" in said(test)
    assert store.read.runs.one(spent).status == "cancelled"


def test_selected_runs_are_deleted_once_their_number_is_typed(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_name(monkeypatch, "Ada")
    ids = basic.fill(home)
    store.annotations.tag([ids["failed"]], "thesis", by="Ada")
    keys = [f"run-{ids[status]}" for status in ("finished", "failed", "lost", "running")]
    test = tick(page(fold="false"), *keys)
    test.button(key="runs.delete").click().run()
    told = said(test)
    assert "2 runs will be deleted" in told and "1 selected run will be kept" in told and "can't be undone" in told
    assert test.button(key="runs.delete-all").disabled

    def dialog(run_ids: list[int]) -> None:
        from app.actions.queue_actions import ask_delete_all

        ask_delete_all(run_ids)

    asked = AppTest.from_function(dialog, default_timeout=PATIENCE_S, args=([ids["finished"], ids["lost"]],))
    asked.session_state["person"] = "Ada"
    asked.run().text_input(key="runs.delete.typed").set_value("3").run()
    assert asked.button(key="runs.delete-all").disabled
    asked.text_input(key="runs.delete.typed").set_value("2").run()
    asked.button(key="runs.delete-all").click().run()
    left = set(store.read.runs.statuses())
    assert left == {*ids.values()} - {ids["finished"], ids["lost"]}
    assert "None of the selected runs can be deleted" in said(asked.run())


def test_a_result_among_others_is_named_by_what_its_metric_is() -> None:
    labels = ("Mean reward of the last 100 episodes", "Test accuracy", "loss", "val/acc")
    assert [grid.noun_of(label) for label in labels] == ["reward", "accuracy", "loss", "val/acc"]
