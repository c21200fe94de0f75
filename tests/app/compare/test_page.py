"""The Compare page: what it shows, what its address holds, and what it says of what is not there."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from math import isnan
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.charts import number_charts
from app.compare import selection, session_state
from app.compare.groups import band_named, groups_of, usual_grouping
from app.compare.number_tabs import differences_table, numeric_names
from app.compare.selection import LONGEST_NAME, _shortened, telling
from app.compare.selection import chosen as chosen_runs
from app.compare.selection import names_of as names
from app.links.compare import (
    MOST_IDS,
    TABS,
    VERSION,
    CompareView,
    address,
    ids_text,
    names_text,
    query_of,
    read_ids,
    read_names,
    read_view,
)
from app.run.sections import settings_table
from app.runs.rows import differing, run_rows
from app.ui.current_user import WHY
from engine.analysis.comparability import programs_in_words
from engine.analysis.differences import Row, may_explain
from engine.analysis.result import few_images, reached_most
from engine.analysis.run_values import field_in_words, field_names
from engine.analysis.statistics.intervals import LIMIT
from engine.filter.tree import metric_written
from engine.home import Home
from engine.metrics import LAST_EPISODES
from engine.recorder import Point
from engine.store import Demand, Launch, Reader, Store
from engine.store.records import RunRow
from engine.system.processes import me
from tests.app.reading import give_name, html, opened, popovers, said
from tests.labs import compare
from tests.labs.compare import ACCURACY, LOSS

AT = session_state._WIDGETS


def words(test: AppTest) -> str:
    assert not test.exception
    assert not test.error
    return said(test)


@pytest.fixture
def ids(home: Home) -> list[int]:
    return compare.fill(home)


def opened_at(**query: str) -> AppTest:
    return opened("compare", query)


def test_an_empty_lab_is_sent_to_launch_something(home: Home) -> None:
    assert "No runs to compare yet." in words(opened_at())


def test_runs_without_a_single_number_are_said(home: Home, store: Store) -> None:
    store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    for tab in ("bars", "parallel"):
        assert "No values to compare in these runs yet." in words(opened_at(runs="1", tab=tab))
    assert "No run has" not in words(opened_at(runs="1", tab="scatter"))


def test_an_axis_that_no_run_has_says_so(home: Home, ids: list[int], store: Store) -> None:
    run_id = compare.add(store, "parameter_server", steps=3, batch_update_size=1)  # counted at tests alone
    assert "No run has training loss by updates. Choose another x-axis or metric." in words(
        opened_at(runs=str(run_id), x="updates", metrics=LOSS)
    )


def test_runs_without_recorded_values_are_not_offered(home: Home, ids: list[int], store: Store) -> None:
    queued = store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    bare = compare.add(store, steps=0)
    assert not {queued, bare} & {*opened_at().dataframe[0].value["run"]}
    with store.db.change() as connection:
        connection.execute(f"DELETE FROM runs WHERE id NOT IN ({queued}, {bare})")
    assert "No run has recorded values yet." in words(opened_at())


def test_runs_are_offered_chosen_by_hand_and_by_filter_and_their_differences_shown(home: Home, ids: list[int]) -> None:
    test = opened_at()
    assert "No runs selected." in words(test)
    assert test.dataframe[0].value["run"].tolist() == ids[::-1]
    assert test.button(key="compare.newest.add").disabled
    assert not test.query_params
    test = opened_at(runs="6", filter='owner contains "grace"')
    assert [f'<a href="/run?run={run_id}"' in html(test) for run_id in ids] == [False, False, False, True, True, True]
    test.text_input(key=f"{AT}filter").set_value('owner == "nobody"').run()
    assert "No runs match the filter 'owner == \"nobody\"'." in words(test)
    assert [f'<a href="/run?run={run_id}"' in html(test) for run_id in ids] == [False] * 5 + [True]
    test = opened_at(runs="1,4", tab="differences")
    assert "<td>Trainers</td><td>2</td><td>4</td>" in html(test)
    assert "Batch size" not in html(test)
    assert "4 fields are equal in all 2 runs, and hidden." in words(test)
    assert words(test).count("A dash (–): the run has no such setting; none: it is empty.") == 1
    test.toggle(key=f"{AT}same").set_value(True).run()
    assert "Batch size" in html(test)
    assert '<td><span class="pl-nowrap">Packages: torch</span></td><td>2.15</td><td>2.15</td>' in html(test)
    assert test.query_params["same"] == "1"
    assert "No band for trainers –: one run. A band needs at least two" in words(
        opened_at(runs="1-6", group="trainers")
    )
    assert "No band: each group has one run." in words(opened_at(runs="1,4", group="trainers"))
    assert "No band" not in words(opened_at(runs="1-5", group="trainers"))
    assert "No band" not in words(opened_at(runs="1,4", group="trainers", band="none"))


def test_settings_without_effect_are_no_differences(home: Home, store: Store) -> None:
    ids = [
        compare.add(store, "sync_sgd", optimizer=optimizer, momentum=momentum, weight_decay=decay, seed=seed)
        for optimizer, momentum, decay, seed in (("sgd", 0.5, 0.1, 0), ("sgd", 0.5, 0.2, 1), ("adamw", 0.9, 0.1, 0))
    ]
    two, three = (opened_at(runs=ids_text(each), tab="differences") for each in (ids[:2], ids))
    assert "<td>Seed</td>" in html(two) and "Weight decay" not in html(two)
    assert "without effect in all 2 runs, and hidden." in words(two)
    assert "<td>Optimizer</td>" in html(three) and "<td>Momentum</td>" not in html(three)
    two.toggle(key=f"{AT}same").set_value(True).run()
    assert '<td><span title="0.2, without effect with optimizer sgd">no effect</span></td>' in html(two)
    with Reader.open(home) as reader:
        runs = reader.runs.some(ids)
        assert field_names(runs, that_differ=True) == ["seed", "optimizer"]
        assert differing(run_rows(runs)) == ["sgd", "sgd", "adamw"]
    assert may_explain({"a": runs[:1], "b": runs[1:2]}, ()) == ""


def test_models_have_titles(home: Home, store: Store) -> None:
    ids = [compare.add(store, "sync_sgd", model=model) for model in ("mnist_net", "vit")]
    assert '<td><span class="pl-nowrap">MNIST net</span></td><td>vit</td>' in html(
        opened_at(runs=ids_text(ids), tab="differences")
    )
    assert "mnist_net" not in html(opened_at(runs=ids_text(ids), group="model"))
    with Reader.open(home) as reader:
        run = reader.runs.one(ids[0])
    assert '<span title="mnist_net">MNIST net</span>' in settings_table(run), "a filter takes the name on hover"
    assert field_in_words("model", "mnist_net") == "MNIST net"


def test_a_list_among_the_differences_is_text(home: Home, ids: list[int], reader: Reader) -> None:
    rows = [
        Row("other_programs", ([["stress", 0.61], ["make", 1.5]], []), True),
        Row("gpus", (["A", "B"], ["A"]), True),
    ]
    shown = differences_table(rows, reader.runs.some(ids[:2]), "Environment")
    assert all(f">{run_id}: " in shown for run_id in ids[:2])
    assert '<span class="pl-nowrap">stress 0.61, make 1.5</span></td><td>none</td>' in shown
    assert '<span class="pl-nowrap">A, B</span></td><td>A</td>' in shown


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_opens_by_its_link_with_and_without_groups(home: Home, ids: list[int], tab: str) -> None:
    for group in ("none", "trainers", "trainers,owner"):
        test = opened_at(runs="1-6", tab=tab, group=group)
        assert "ignored" not in words(test)
        assert test.button_group(key=f"{AT}tab").value == tab
        assert test.query_params.get("group", "") == group


def test_the_address_follows_what_is_chosen_and_brings_the_same_view_back(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1,2,3,5")
    assert test.query_params == {"runs": "1-3,5", "v": "3"}
    test.multiselect(key=f"{AT}group").set_value(["trainers", "owner"]).run()
    test.selectbox(key=f"{AT}stat").set_value("median").run()
    test.selectbox(key=f"{AT}x").set_value("time").run()
    test.multiselect(key=f"{AT}metrics").set_value([LOSS]).run()
    test.toggle(key=f"{AT}log.curves.y").set_value(True).run()
    found = dict(test.query_params)
    assert found == {
        "runs": "1-3,5",
        "group": "trainers,owner",
        "stat": "median",
        "x": "time",
        "metrics": LOSS,
        "log": "y",
        "v": "3",
    }
    again = opened_at(**found)
    assert words(again) == words(test)
    assert dict(again.query_params) == found
    again.button_group(key=f"{AT}tab").set_value("bars").run()
    again.button_group(key=f"{AT}tab").set_value("curves").run()
    assert dict(again.query_params) == found


def test_the_newest_runs_of_a_filter_are_compared_and_followed(home: Home, ids: list[int], reader: Reader) -> None:
    for filter_text in ("", "id > 0"):
        found = chosen_runs(reader, CompareView(filter=filter_text, newest=2))
        assert [run.id for run in found.runs] == sorted(reader.runs.statuses())[-2:] and not found.sentences
    test = opened_at(filter="id > 0", newest="2")
    assert not test.exception and test.number_input(key=f"{AT}newest").value == 2
    test.number_input(key=f"{AT}newest").set_value(1).run()
    assert dict(test.query_params)["newest"] == "1"
    assert read_view({"newest": "two"})[1] == ["Link parameter newest must be a whole number, got 'two'; ignored."]


def test_more_runs_than_the_limit_are_cut_to_it_with_a_sentence(
    home: Home, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "MOST_RUNS", 3)
    for _ in range(5):
        compare.add(store, steps=5)
    test = opened_at(filter='experiment == "hogwild"', tab="bars")
    assert "At most 3 runs can be compared; got 5" in words(test)
    assert html(test).count('<a href="/run?run=') == 3
    assert "At most 3 runs can be compared; got 5" in words(opened_at(runs="1-5"))
    assert "At most 3 runs can be compared; got 5" in words(opened_at(runs="1-2", filter='experiment == "hogwild"'))


def test_runs_that_are_gone_names_that_are_lacking_and_values_that_are_none_are_named(
    home: Home, ids: list[int]
) -> None:
    assert "The ranks of Hogwild!, Reference count steps of different work" in words(opened_at(runs="1,6", x="step"))
    assert "steps of different work" not in words(opened_at(runs="1,6"))
    assert "steps of different work" not in words(opened_at(runs="1,2", x="step"))
    with Store.open(home) as store:
        bare = compare.add(store, steps=0)
    assert "No curves recorded in these runs yet." in words(opened_at(runs=str(bare)))
    shown = words(opened_at(runs=f"1,{bare}"))
    assert "No metric here is recorded in all runs" in shown
    assert f"No Training loss by updates: run {bare}." in shown
    with Store.open(home) as store:
        run_id = compare.add(store, nan_at=3)
    for group in ("", "trainers"):
        assert "1 non-finite value (NaN or infinite): shown as gaps, excluded from means." in words(
            opened_at(runs=f"1,{run_id}", group=group, metrics=LOSS)
        )
    assert "not finite" not in words(opened_at(runs="1,2"))
    test = opened_at(runs="1-3", metrics=f"no/such,{LOSS}", group="mode", x="perf/nothing", v="9")
    shown = words(test)
    for sentence in (
        "No metric 'no/such'",
        "No field 'mode'",
        "No axis 'perf/nothing'",
        "Unsupported link version '9'",
    ):
        assert sentence in shown
    assert test.query_params == {"runs": "1-3", "metrics": LOSS, "group": "none", "v": "3"}
    assert "ignored" in words(test.run())
    test.selectbox(key=f"{AT}x").set_value("time").run()
    assert "ignored" not in words(test)
    test = opened_at(runs="1,2,77-79,x")
    shown = words(test)
    assert "Runs 77-79 are not in this lab" in shown
    assert "got 'x'; ignored" in shown
    assert '<a href="/run?run=2"' in html(test)
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM runs WHERE id = 2")
    assert "Runs 2,77-79 are not in this lab" in words(test.run())


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ({"metrics": ACCURACY, "group": "none"}, 25),
        ({"metrics": ACCURACY, "group": "trainers"}, 10),
        ({"tab": "bars"}, 5),
    ],
)
def test_a_charts_table_opens_with_what_it_shows(home: Home, ids: list[int], query: dict[str, str], rows: int) -> None:
    test = opened_at(runs="1-5", **query)
    assert not test.dataframe
    test.session_state[f"compare.table.{ACCURACY if 'metrics' in query else 'bars'}"] = True
    assert len(test.run().dataframe[-1].value) == rows


def test_the_table_of_values_has_the_groups_means_and_bands_that_the_chart_shows(
    home: Home, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    bars = number_charts.bars
    monkeypatch.setattr(number_charts, "bars", lambda *given, **more: drawn.append(bars(*given, **more)) or drawn[-1])

    def tables(tab: str, **query: str) -> list[Any]:
        test = opened_at(runs="1-5", tab=tab, **query)
        test.session_state[f"compare.table.{tab}"] = True
        return [each.value for each in test.run().dataframe]

    for band in ("sd", "range", "none"):
        groups, runs = tables("bars", number=f"{ACCURACY}.best", group="trainers", band=band)
        assert groups["group"].tolist() == ["trainers 2", "trainers 4"] and groups["n"].tolist() == [3, 2]
        lines = [trace for trace in drawn[-1][0].data if trace.meta is None or "as" not in trace.meta]
        assert groups["mean"].tolist() == [trace.x[0] for trace in lines]
        for at, end in enumerate(("low", "high")):
            shown = [None if trace.customdata is None else trace.customdata[0][at] for trace in lines]
            assert [None if isnan(each) else each for each in groups[end]] == shown
        assert runs["group"].tolist() == ["trainers 2"] * 3 + ["trainers 4"] * 2
    for tab in ("scatter", "parallel"):
        assert tables(tab, group="trainers")[0]["group"].tolist() == runs["group"].tolist()
    (alone,) = tables("bars", group="none")
    assert "group" not in alone


def test_disturbed_runs_are_said_wherever_times_are_shown(home: Home, ids: list[int], store: Store) -> None:
    time, alone = "perf/execution_time_s.last", "Run 1 was disturbed: other programs or the host took more than 5 %"
    store.worker.write(1, [], run_points=[Point("perf/disturbance", 9, 31.4, 9.0, None)])
    times = {
        "bars": {"number": time, "group": "none"},
        "scatter": {"number": time, "against": "trainers"},
        "parallel": {"number": time},
        "curves": {"x": "time", "metrics": LOSS},
    }
    for tab, query in times.items():
        shown = words(opened_at(runs="1-5", tab=tab, **query))
        assert f"{alone} of its CPU time. Its times are not reliable." in shown, tab
    shown = words(opened_at(runs="1-5", tab="bars", number=time, group="trainers"))
    assert alone in shown and "Means and fits leave it out." in shown
    for tab in ("bars", "scatter"):
        shown = words(opened_at(runs="1-5", tab=tab, number=f"{ACCURACY}.last", against="trainers"))
        assert alone not in shown, tab
    assert alone not in words(opened_at(runs="1-5", x="step", metrics=LOSS))
    for run_id in ids[1:]:
        store.worker.write(run_id, [], run_points=[Point("perf/disturbance", 9, 31.4, 9.0, None)])
    test = opened_at(runs="1-5", tab="bars", number=time, group="trainers")
    assert "5 runs (1, 2, 3, 4, 5) were disturbed" in words(test) and "Their times are not reliable." in words(test)
    test.session_state["compare.table.bars"] = True
    assert test.run().dataframe[0].value["n"].tolist() == [3, 2], "all are shown, as no others are left"


def test_a_metric_named_like_an_axis_or_a_column_can_be_the_x_axis(home: Home, store: Store) -> None:
    run_id = compare.add(store, steps=3)
    names = ("time", "step", "passes", "updates", "bytes", "value", "rank", "loss")
    points = [Point(name, step, 100.0 + at + step, step / 4) for at, name in enumerate(names) for step in (0, 1)]
    store.worker.write(run_id, [], run_points=points)
    for at, name in enumerate(names):
        written = name if name == "loss" else f'metric["{name}"]'
        for given in dict.fromkeys((written, f'metric["{name}"]')):
            test = opened_at(runs=str(run_id), metrics="loss", x=given)
            assert "ignored" not in words(test)
            assert (test.query_params["x"], test.selectbox(key=f"{AT}x").value) == (written, written)
        test.session_state["compare.table.loss"] = True
        assert test.run().dataframe[0].value[written].tolist() == [100.0 + at, 101.0 + at]
    options = test.selectbox(key=f"{AT}x").options
    assert {"Time", "time (metric)", "Step", "step (metric)", "loss"} <= {*options}
    test = opened_at(runs=str(run_id), metrics="loss", x="time")
    test.session_state["compare.table.loss"] = True
    assert test.run().dataframe[0].value["time"].tolist() == [0.0, 0.25], "an older address keeps its meaning"
    assert opened_at(runs=str(run_id), metrics="loss", x="value").query_params["x"] == 'metric["value"]'


def test_the_button_asks_for_runs_until_some_are_chosen_and_no_option_selects_all_matches(
    home: Home, ids: list[int]
) -> None:
    test = opened_at()
    assert test.button(key="compare.newest.add").label == "Select runs to compare"
    test = opened_at(runs="1,2")
    assert not test.multiselect(key=f"{AT}group").proto.select_all


def test_a_chosen_option_is_not_given_again_so_that_the_browser_keeps_what_is_typed_for_the_next(
    home: Home, ids: list[int]
) -> None:
    test = opened_at(runs="1-5", group="trainers")
    test.multiselect(key=f"{AT}group").set_value(["trainers", "owner"]).run()
    found = test.multiselect(key=f"{AT}group")
    assert (found.value, found.proto.set_value) == (["trainers", "owner"], False)


def test_a_view_is_saved_listed_for_all_and_deleted_by_its_owner(home: Home, ids: list[int], reader: Reader) -> None:
    test = opened_at(runs="1-5", group="trainers")
    test.session_state["person"] = "Ada"
    test.text_input(key="compare.name").set_value("Speed <b> by trainers")
    test.button(key="compare.save").click().run()
    (view,) = reader.views.find()
    assert (view.name, view.owner, view.query) == ("Speed <b> by trainers", "Ada", "runs=1-5&group=trainers&v=3")
    assert "View: Speed <b> by trainers" in popovers(test.run())
    with Store.open(Home.find()) as store:
        again = store.views.save("Zoom", "compare", view.query, owner="Ada")
    assert "View: Zoom" in popovers(test.run()), "the view that was saved last"
    with Store.open(Home.find()) as store:
        store.views.delete(again, by="Ada")
    other = opened_at()
    assert '<a href="/compare?runs=1-5&amp;group=trainers&amp;v=3">Speed &lt;b&gt; by trainers</a>' in html(other)
    other.session_state[f"view.change.{view.id}"] = True
    assert not [button for button in other.run().button if button.label == "Delete"]
    other.session_state["person"] = "Ada"
    other.run().button(key=f"view.delete.{view.id}").click().run()
    assert "Speed" not in html(other)


def test_saving_asks_for_the_persons_name_first_and_then_saves(
    home: Home, ids: list[int], monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> None:
    test = opened_at(runs="1")
    test.text_input(key="compare.name").set_value("one")
    test.button(key="compare.save").click().run()
    assert WHY in said(test) and not reader.views.find()
    give_name(monkeypatch, "Ada")
    test.button(key="compare.save").click().run()
    assert [(view.name, view.owner, view.query) for view in reader.views.find()] == [("one", "Ada", "runs=1&v=3")]


def test_a_run_that_is_on_keeps_the_page_listening_and_long_names_are_told_apart_by_their_ends(
    home: Home, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    pulse: Callable[..., None] = lambda token, **options: asked.append(options["active"])  # noqa: E731
    monkeypatch.setattr("app.ui.components.pulse", pulse)
    with Store.open(home) as store:
        on = compare.add(store, ended=False)
    opened_at(runs="1,2")
    opened_at(runs=f"1,{on}")
    assert asked == [False, True]
    with Store.open(home) as store, Reader.open(home) as reader:
        for run_id in ids[:2]:
            store.annotations.rename(
                run_id, f"Does Hogwild! pay on the machine of our whole lab?: trainers 2, seed {run_id}", by="Ada"
            )
        found = names(reader.runs.some(ids[:2]))
    assert [name.endswith(f"trainers 2, seed {run_id}") for run_id, name in found.items()] == [True, True]
    assert {len(name) for name in found.values()} == {len("1: ") + LONGEST_NAME}


@pytest.mark.parametrize(
    ("texts", "short"),
    [
        (["trainers 1", "trainers 2"], ["trainers 1", "trainers 2"]),
        (
            [
                "A long name of a duel of our whole lab, judging: Hogwild!, seed 0",
                "A long name of a duel of our whole lab, judging: Reference, seed 0",
            ],
            [
                "…name of a duel of our whole lab, judging: Hogwild!, seed 0",
                "…name of a duel of our whole lab, judging: Reference, seed 0",
            ],
        ),
        ([f"{word} runs of the same long experiment on our machine" for word in ("Fast", "Slow")], None),
        ([f"{word}{'x' * 80}{word}" for word in ("Fast", "Slow")], None),
        (["one and the same name of two runs that are longer than what is shown"] * 2, None),
    ],
)
def test_a_name_is_cut_where_all_are_equal(texts: list[str], short: list[str] | None) -> None:
    found = _shortened(texts)
    assert len(set(found)) == len(set(texts)) and max(map(len, found)) <= LONGEST_NAME
    assert short is None or found == short


def test_labels_have_titles_and_the_choice_of_groups_the_names_of_fields_too(
    home: Home, store: Store, reader: Reader
) -> None:
    ids = [
        compare.add(store, steps=5, learning_rate=0.1),
        compare.add(store, steps=5, learning_rate=0.2),
        compare.add(store, "reference", steps=5, learning_rate=0.2),
    ]
    runs = reader.runs.some(ids)
    assert [*names(runs[:2]).values()] == [f"{ids[0]}: learning rate 0.1", f"{ids[1]}: learning rate 0.2"]
    assert [name.partition(",")[0] for name in names(runs).values()] == ["1: Hogwild!", "2: Hogwild!", "3: Reference"]
    assert [group.name for group in groups_of(runs, ["experiment", "learning_rate"])] == [
        "Hogwild!, learning rate 0.1",
        "Hogwild!, learning rate 0.2",
        "Reference, learning rate 0.2",
    ]
    shown = opened_at(
        runs=ids_text(ids), group="learning_rate", tab="scatter", number="experiment", against="learning_rate"
    )
    options = shown.multiselect(key=f"{AT}group").options
    assert {"Experiment", "Learning rate · learning_rate", "Runs on · target"} <= {*options}
    assert {"Experiment", "Learning rate", "Runs on"} <= {*shown.selectbox(key=f"{AT}number").options}
    shown.session_state["compare.table.scatter"] = True
    table = shown.run().dataframe[0]
    assert table.value["experiment"].tolist() == ["Hogwild!", "Hogwild!", "Reference"]
    assert "Learning rate" in table.proto.columns and shown.query_params["group"] == "learning_rate"


def test_a_name_has_no_more_settings_than_tell_the_runs_apart(home: Home, store: Store) -> None:
    ids = [compare.add(store, trainers=2, epochs=3), compare.add(store, trainers=4, epochs=5)]
    with Reader.open(home) as reader:
        assert [*names(reader.runs.some(ids)).values()] == [f"{ids[0]}: trainers 2", f"{ids[1]}: trainers 4"]
        runs = reader.runs.some([*ids, compare.add(store, trainers=2, epochs=3, learning_rate=0.3)])
        assert telling(runs) == ["trainers", "learning_rate"], "epochs follow from trainers"
        theirs = replace(runs[0], experiment="pets", name="cats", seeding=runs[0].seeding + 1)
        assert names([theirs, runs[1]])[ids[1]] == f"{ids[1]}: Hogwild!"


FULL = CompareView(
    runs=(1, 2, 5, 6, 7),
    filter="owner == 'ada' and x > 3",
    tab="parallel",
    metrics=("train/loss", "test/accuracy"),
    x="perf/staleness",
    log="xy",
    smooth=0.5,
    raw=("eval/loss",),
    group=("trainers", "mode"),
    stat="iqm",
    band="ci",
    number="test/accuracy.best",
    against="trainers",
    axes=("trainers", "learning_rate"),
    same=True,
)


def test_a_view_comes_back_from_its_short_address_and_what_is_hostile_in_it_is_text(home: object) -> None:
    assert read_view(query_of(FULL)) == (FULL, [])
    assert read_view(query_of(CompareView())) == (CompareView(), [])
    assert address(CompareView()) == "/compare"
    assert address(CompareView(runs=(3, 5))) == "/compare?runs=3,5&v=3"
    assert (
        address(CompareView(runs=(1, 2, 3), metrics=("train/loss",), group=("trainers",)))
        == "/compare?runs=1-3&metrics=train/loss&group=trainers&v=3"
    )
    assert read_view({"runs": "3,5"}) == (CompareView(runs=(3, 5)), [])
    view, said = read_view({"band": "boot"})
    assert (view.band, said) == ("ci", [])
    assert read_ids("5..7") == read_ids("5-7")
    assert len(read_ids("1-999999999999")[0]) == MOST_IDS
    assert ids_text([9, 1, 2, 3, 5, 6, 9]) == "1-3,5,6,9"
    assert ids_text([]) == ""
    test = opened(
        "compare",
        {
            "filter": "<script>alert(1)</script> [x](javascript:1)",
            "lens<b>": "![](http://x)",
            "group": "__class__",
            "x": "../../etc",
        },
    )
    assert not test.exception
    assert not test.error


def test_a_link_of_an_earlier_version_keeps_what_it_left_out(home: Home, ids: list[int]) -> None:
    first = CompareView(runs=(3,), x="step", group=())
    assert read_view({"runs": "3", "v": "1"}) == (first, [])
    assert read_view({"runs": "3", "v": "1", "x": "time"}) == (replace(first, x="time"), [])
    assert read_view({"runs": "3", "v": "2"}) == (CompareView(runs=(3,), group=()), [])
    test = opened_at(runs="1-5", v="2")
    assert (test.multiselect(key=f"{AT}group").value, test.query_params["group"]) == ([], "none")


REFERENCES = [{"experiment": "reference", "seed": seed} for seed in range(2)]
TWO, FOUR = ([{"trainers": count, "seed": seed} for seed in range(3)] for count in (2, 4))


@pytest.mark.parametrize(
    ("runs", "fields"),
    [
        ([*TWO, *FOUR], ("trainers",)),
        ([{**one, "epochs": 12 // one["trainers"]} for one in (*TWO, *FOUR)], ("trainers",)),  # equal total work
        (TWO, ("experiment",)),
        ([*TWO, *REFERENCES], ("experiment",)),
        ([*TWO, *FOUR, *REFERENCES], ("experiment", "trainers")),
        ([*TWO, FOUR[0]], ("trainers",)),  # a group of one
        ([*TWO[:2], FOUR[0], REFERENCES[0]], ("experiment", "trainers")),
        (TWO[:2], ()),
        ([*TWO, TWO[0]], ()),  # one seed twice
        ([*TWO[:2], {**TWO[2], "status": "failed"}], ()),
        ([*TWO[:2], {**TWO[2], "status": "running"}], ("experiment",)),
        ([*TWO, *FOUR[:2], {**FOUR[2], "status": "cancelled", "started_at": None}], ("trainers",)),  # it never began
        ([{**one, "learning_rate": 0.1 * one["seed"]} for one in (*TWO, *FOUR)], ()),
        ([*TWO, *({**one, "target": "big"} for one in TWO)], ("target",)),
    ],
)
def test_runs_that_repeat_each_other_open_grouped(
    home: Home, ids: list[int], reader: Reader, runs: list[dict[str, Any]], fields: tuple[str, ...]
) -> None:
    of = {run.experiment: run for run in reader.runs.some(ids)}
    plain = ("experiment", "status", "target", "started_at")
    rows = [
        replace(
            of[one.get("experiment", "hogwild")],
            id=number,
            config={
                **of[one.get("experiment", "hogwild")].config,
                **{name: value for name, value in one.items() if name not in plain},
            },
            **{name: value for name, value in one.items() if name in plain},
        )
        for number, one in enumerate(runs)
    ]
    assert usual_grouping(rows) == fields


def test_a_single_run_among_repetitions_is_a_group_of_one_and_sentences_say_so(home: Home, store: Store) -> None:
    ids = [compare.add(store, "hogwild", seed=seed, trainers=2, level=2.0) for seed in range(3)]
    ids.append(compare.add(store, "hogwild", seed=0, trainers=4))
    test = opened_at(runs=ids_text(ids))
    assert test.multiselect(key=f"{AT}group").value == ["trainers"]
    assert "trainers 2" in words(test) and "trainers 4" in words(test) and "One run each" not in words(test)
    assert "No band for trainers 4: one run. A band needs" in words(opened_at(runs=ids_text(ids), tab="bars"))


def test_single_runs_are_named_where_the_first_two_groups_have_one_run_each(reader: Reader, ids: list[int]) -> None:
    run = next(each for each in reader.runs.some(ids) if "test/accuracy" in each.last)
    of = {"a": [97.0], "b": [96.0], "c": [90.0, 91.0, 92.0]}
    groups = {
        name: [
            replace(run, id=number, config={**run.config, "seed": seed}, last={**run.last, "test/accuracy": value})
            for seed, (number, value) in enumerate(enumerate(values, 10 * place))
        ]
        for place, (name, values) in enumerate(of.items())
    }
    assert "The first two have one run each: other seeds may change the order." in reached_most(groups)


def test_a_long_value_among_the_differences_is_one_line_with_all_of_it_on_hover(home: Home, ids: list[int]) -> None:
    long = "a value of many words " * 4
    shown = differences_table([Row("note", (long, "short one"), differs=True)], [], "Config")
    assert f'<td><span title="{long}"><span class="pl-nowrap">a value of' in shown and "…</span></span></td>" in shown
    assert '<td><span class="pl-nowrap">short one</span></td>' in shown


def test_obvious_groups_are_the_default_until_others_are_selected(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1-5")
    group = f"{AT}group"
    assert (test.multiselect(key=group).value, dict(test.query_params)) == (["trainers"], {"runs": "1-5", "v": "3"})
    assert "Mean over the runs of each group" in words(test)
    test.text_input(key=f"{AT}runs").set_value("1-3").run()
    assert (test.multiselect(key=group).value, dict(test.query_params)) == (["experiment"], {"runs": "1-3", "v": "3"})
    test.multiselect(key=group).set_value([]).run()
    assert test.query_params["group"] == "none" and "Mean over the runs" not in words(test)
    test.text_input(key=f"{AT}runs").set_value("1-5").run()
    assert (test.multiselect(key=group).value, test.query_params["group"]) == ([], "none")
    assert words(opened_at(**dict(test.query_params))) == words(test)


def test_the_sentences_speak_of_the_selected_metric_and_of_what_else_may_explain_it(
    home: Home, store: Store, ids: list[int]
) -> None:
    for seed in range(2):
        compare.add(store, "sync_sgd", seed=seed, rounds=30, level=2.0, evaluate_every=2)
        compare.add(store, "reference", seed=seed + 5, epochs=30)
    shown = {
        query: words(opened_at(runs="7-10", **dict(query)))
        for query in (
            (),
            (("metrics", LOSS),),
            (("tab", "bars"),),
            (("tab", "bars"), ("number", f"{LOSS}.best")),
        )
    }
    usual, loss, bars, best = shown.values()
    assert all(re.search(r"Last test accuracy on average: 97\S+ % \(Reference\), ", each) for each in (usual, bars))
    assert "Last training loss on average: " in loss and "Best training loss on average: " in best
    assert all("Fastest" in each for each in (usual, bars)) and not any("Fastest" in each for each in (loss, best))
    other = "momentum 0.5 (Reference) and 0.9 (Synchronous parallel SGD)"
    alike = "The presets named quick of these experiments are not alike."
    assert all("threads per rank automatic (Reference) and 1 (Syn" in each for each in shown.values())
    assert all("Also different, which may explain the results: " in each for each in shown.values())
    assert all(other in each and alike in each for each in shown.values())
    test = opened_at(runs="7-10", tab="bars")
    test.selectbox(key=f"{AT}number").set_value(f"{LOSS}.mean").run()
    assert "Mean training loss on average: " in words(test) and "Last test accuracy on" not in words(test)


def test_two_systems_say_which_was_first_at_a_target_and_that_these_are_single_runs(home: Home, store: Store) -> None:
    ids = [compare.add(store, name, steps=100) for name in ("reference", "sync_sgd")]
    shown = words(opened_at(runs=ids_text(ids)))
    assert "The last test accuracy is the same for all: 97" in shown
    assert "All reached a best test accuracy of 97" in shown and " passes." in shown
    early = compare.add(store, "reference", steps=50)
    shown = words(opened_at(runs=ids_text([ids[1], early]), x="step"))
    assert re.search(
        r"First at a best test accuracy of 97\S* %: Reference, after 50 steps; last: Synchronous parallel", shown
    ), shown
    assert "These are single runs: other seeds may change the order." in shown
    assert "evaluate every 10 rounds (Synchronous parallel SGD) and 1 epoch (Reference)" in shown


def test_settings_with_many_values_are_ranges_or_a_few_values(reader: Reader, ids: list[int]) -> None:
    run = reader.runs.some(ids[:1])[0]
    groups = {
        f"run {number}": [replace(run, experiment="pets", config={"batch_size": 8 * 2**number, "lr": lr, "opt": opt})]
        for number, (lr, opt) in enumerate(((1e-5, "sgd"), (1e-4, "adam"), (1e-1, "lion")))
    }
    assert may_explain(groups, ()) == (
        "Different, which may explain the results: batch size 8 to 32; lr 1e-05 to 0.1; opt sgd, adam, lion."
    )


def test_a_setting_that_varies_alike_within_each_group_explains_no_difference_between_them(
    reader: Reader, ids: list[int]
) -> None:
    run = reader.runs.some(ids[:1])[0]
    groups = {
        f"lr {lr}": [replace(run, experiment="pets", config={"batch_size": size, "lr": lr}) for size in (64, 128)]
        for lr in (0.1, 0.3)
    }
    assert may_explain(groups, ["lr"]) == ""
    groups["lr 0.3"].pop()
    assert "batch size 64 (lr 0.1, lr 0.3) and 128 (lr 0.1)" in may_explain(groups, ["lr"])


def test_settings_that_names_of_runs_do_not_hold_may_explain_a_result(home: Home, store: Store) -> None:
    ids = []
    for size in (8, 64, 1024):
        ids.append(
            store.runs.add(Launch("pets", {"batch_size": size}, "Ada", name=f"b{size}", demand=Demand(2, 0, 2, 1)))
        )
        store.claims.claim(ids[-1], me(), [])
        store.worker.write(
            ids[-1], [], run_points=[Point("val loss", 1, 1 / size, 1.0), Point("val loss", 2, 2.0, 2.0)]
        )
        store.claims.end(ids[-1], "finished", "It ended.", execution_time_s=1.0)
    assert "batch size 8 to 1024" in words(opened_at(runs=ids_text(ids)))
    test = opened_at(runs=ids_text(ids), tab="bars", number='metric["val loss"].min')
    assert [name for name in test.selectbox(key=f"{AT}number").options if name.startswith("val loss")] == [
        f"val loss, {way}" for way in ("last", "best", "mean", "min", "max")
    ]
    assert "0.0009766" in words(test)


def test_the_band_says_where_it_is_the_value_range(home: Home, ids: list[int], reader: Reader) -> None:
    pair = groups_of(reader.runs.some(ids[:2]), ["experiment"])
    assert band_named("sd", pair, "mean") == "± standard deviation (min to max: n < 3)"
    assert band_named("ci", pair, "median") == "95 % confidence interval (min to max: n < 6)"
    assert band_named("range", pair, "mean") == "min to max"
    assert band_named("sd", groups_of(reader.runs.some(ids[:4]), []), "mean") == "± standard deviation"


def test_the_default_x_axis_is_one_on_which_the_runs_compare(home: Home, ids: list[int], store: Store) -> None:
    reinforce, dppo = compare.add(store, "batched_reinforce"), compare.add(store, "dppo")
    for runs, label in {
        "1,6": "Passes",
        str(reinforce): "Updates",
        f"{reinforce},{dppo}": "Time",
        f"1,{reinforce}": "Time",
    }.items():
        test = opened_at(runs=runs)
        assert (test.selectbox(key=f"{AT}x").value, test.selectbox(key=f"{AT}x").options[0]) == ("", label)
        assert f"by {label.lower()}" in html(test) + words(test) or not test.info
        assert "x" not in test.query_params
    test.selectbox(key=f"{AT}x").set_value("step").run()
    assert test.query_params["x"] == "step"


@pytest.mark.parametrize("version", ["0", "4", "next", ""])
def test_a_link_of_another_version_shows_what_is_understood_and_says_so(version: str) -> None:
    view, said = read_view({"runs": "3", "v": version, "lens": "4"})
    assert view == CompareView(runs=(3,))
    assert said[0].startswith(f"Unsupported link version '{version}': this console supports version {VERSION}.")
    assert said[1] == "Unknown link parameter 'lens' ignored."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tab", "curve"),
        ("stat", "mode"),
        ("band", ""),
        ("smooth", "nan"),
        ("smooth", "1"),
        ("smooth", "much"),
        ("log", "z"),
        ("same", "yes"),
    ],
)
def test_a_value_that_is_none_is_named_and_left_out(name: str, text: str) -> None:
    view, (sentence,) = read_view({name: text})
    assert view == CompareView()
    assert (
        sentence.startswith(f"Link parameter {name} must be ")
        and f"'{text}'" in sentence
        and sentence.endswith("; ignored.")
    )


@pytest.mark.parametrize(
    ("text", "ids", "wrong"),
    [
        ("1,2,5-7", (1, 2, 5, 6, 7), []),
        (" #3 1, 3 ", (1, 3), []),
        ("7-5,x,-1,1-,²,1.5", (), ["7-5", "x", "-1", "1-", "²", "1.5"]),
        ("", (), []),
    ],
)
def test_ids_are_numbers_and_ranges(text: str, ids: tuple[int, ...], wrong: list[str]) -> None:
    assert read_ids(text) == (ids, wrong)


def test_why_the_fastest_run_was_faster_is_said_first(home: Home, store: Store) -> None:
    ids = [compare.add(store, "hogwild", steps=3) for _ in range(2)]
    with store.db.change() as connection:
        for run_id, time_s, waited in zip(ids, (12.0, 30.0), (0.36, 12.3), strict=True):
            connection.execute("UPDATE runs SET execution_time_s = ? WHERE id = ?", [time_s, run_id])
            for phase, spent in (("wait", waited), ("compute", time_s - waited)):
                connection.execute(
                    "INSERT INTO phases (run_id, rank, name, seconds) VALUES (?, 0, ?, ?)", [run_id, phase, spent]
                )
    verdict = f"**Fastest: run {ids[0]} (12 s); slowest: run {ids[1]} (30 s).**"
    said = f"{verdict}  \nRanks of the fastest waited 3 % of the time"
    assert said in words(opened_at(runs=ids_text(ids)))
    assert verdict not in words(opened_at(runs=ids_text(ids), tab="differences"))


def test_which_reached_more_is_said_before_the_times(home: Home, ids: list[int], reader: Reader) -> None:
    first, second = reader.runs.some(ids[:2])

    def result(run: RunRow, value: float, **changes: Any) -> RunRow:
        return replace(run, last={**run.last, ACCURACY: value}, **changes)

    low, high = result(first, 97.22), result(second, 98.33, experiment="reference")
    assert reached_most({"Hogwild!": [low], "Reference": [high]}) == (
        "Last test accuracy: 98.33 % (Reference), 97.22 % (Hogwild!). One run each: other seeds may change the order."
    )
    assert reached_most({"a": [result(first, 97.5)], "b": [result(second, 97.778, experiment="reference")]}) == (
        "Last test accuracy: 97.78 % (b), 97.50 % (a). The difference is 1 of 360 test images. One run each: other "
        "seeds may change the order."
    )
    assert few_images("test/accuracy", [low, high], 0.1) == "less than 1 of 360 test images"
    assert few_images("test/accuracy", [low, high], 1.1) == few_images("test/loss", [low], 0.1) == ""
    assert few_images("test/accuracy", [replace(low, config={"dataset": "stdlib"})], 0.01) == "", "bytes are no images"
    three = {"run 1": [low], "run 2": [high], "run 3": [result(first, 98.0)]}
    assert reached_most(three) == (
        "Last test accuracy: 98.33 % (run 2) to 97.22 % (run 1). One run each: other seeds may change the order."
    )
    assert reached_most(three | {"run 4": [high]}) == (
        "Last test accuracy: 98.33 % (run 2 and run 4) to 97.22 % (run 1). One run each: other seeds may change the "
        "order."
    )
    close = {"run 1": [low], "run 2": [result(second, 97.5)], "run 3": [result(first, 97.5)]}
    assert "to 97.22 % (run 1). The difference is 1 of 360 test images. One run each:" in reached_most(close)
    assert reached_most({"run 1": [low, low], "run 2": [high], "run 4": [high]}) == (
        "Highest last test accuracy on average: run 2 and run 4, 98.33 %; lowest: run 1, 97.22 %. Whether the "
        "difference between the first and the last is clear needs 3 seeds of each."
    )
    assert reached_most({"a": [low, result(first, 97.24)], "b": [high]}) == (
        "Last test accuracy on average: 98.33 % (b), 97.23 % (a). "
        "Whether the difference is clear needs 3 seeds of each."
    )
    other_rate = result(first, 97.24, config=first.config | {"lr": 0.7, "seed": 5, "timeout_s": 9})
    assert reached_most({"a": [low, other_rate], "b": [high]}).endswith(
        "Whether the difference is clear needs 3 runs of each. The runs of a group also differ in lr."
    ), "they aren't repetitions with other seeds"
    assert reached_most({"a": [low, result(first, 98.5)], "b": [high]}).endswith(
        "97.86 % (a). The difference is 1.7 of 360 test images. Their runs overlap."
    )
    seeded = {
        name: [
            result(first, 90.0 + seed + more + off * (-1) ** seed, config=first.config | {"seed": seed})
            for seed in range(4)
        ]
        for name, more, off in (("a", 0.0, 0.0), ("b", 0.5, 0.1), ("c", 0.5, 0.6))
    }
    assert reached_most({name: seeded[name] for name in "ab"}).endswith("The difference is 1.8 of 360 test images."), (
        "each seed is better by 0.4"
    )
    assert reached_most({name: seeded[name] for name in "ac"}).endswith(" Seed by seed, the difference is not clear.")
    far = {name: seeded[name] for name in "ac"} | {"d": [result(first, 9.0)]}
    assert reached_most(far).endswith(
        "; lowest: d, 9.00 %. The difference of the first two is 1.8 of 360 test images. Seed by seed, the difference "
        "between the first two is not clear."
    )
    apart = [replace(run, config=run.config | {"seed": run.config["seed"] + 9}) for run in seeded["b"]]
    assert reached_most({"a": seeded["a"], "b": apart}).endswith("of 360 test images. Their runs overlap.")
    assert reached_most({"run 1": [low], "run 3": [low]}) == "The last test accuracy is the same for all: 97.22 %."
    other = result(first, 50.0, config=first.config | {"dataset": "other"})
    for not_alike in (other, replace(first, last={}), result(first, 1.0, experiment="batched_reinforce")):
        assert reached_most({"a": [low], "b": [not_alike]}) == ""
    shown = words(opened_at(runs="1,4"))
    assert 0 < shown.index("Last test accuracy: ") < shown.index("Fastest: ")


def test_a_note_for_several_charts_is_said_once_and_smoothing_stays_visible(home: Home, ids: list[int]) -> None:
    grouped = opened_at(runs="1-5", group="trainers", metrics=f"{LOSS},{ACCURACY}")
    assert words(grouped).count("Between two points a run follows a straight line") == 1
    assert "Smoothing: not for groups." in words(grouped)
    single = opened_at(runs="1-5", metrics=f"{LOSS},{ACCURACY}", log="y", group="none")
    assert words(single).count("Values at or below 0 can't be shown on a log axis.") == 1
    assert not single.slider(key=f"{AT}smooth").disabled and "not for groups" not in words(single)


@pytest.mark.parametrize("tab", ["curves", "bars"])
def test_intervals_of_means_say_for_which_values_they_hold(home: Home, ids: list[int], tab: str) -> None:
    for more, there in (({"band": "ci"}, True), ({"band": "ci", "stat": "median"}, False), ({"band": "sd"}, False)):
        assert words(opened_at(runs="1-5", tab=tab, group="trainers", **more)).count(LIMIT) == there


@pytest.mark.parametrize("tab", ["curves", "bars", "scatter"])
def test_a_count_that_is_0_everywhere_is_not_drawn_on_a_log_axis(home: Home, ids: list[int], tab: str) -> None:
    name = "perf/overwritten_updates"
    with Store.open(home) as store:
        for run_id in ids[:2]:
            store.worker.write(run_id, [], run_points=[Point(name, step, 0.0, step / 20, step / 50) for step in (1, 2)])
    query = {"metrics": name, "number": f"{name}.last", "tab": tab, "log": "x" if tab == "bars" else "y"}
    shown = words(opened_at(runs="1,2", **query))
    assert "No value is above 0: the" in shown
    assert "No value is above 0" not in words(
        opened_at(runs="1,2", **query | {"metrics": LOSS, "number": f"{LOSS}.last"})
    )


NAMES = ("loss", "top-1, top-5", 'say "x"', "val/f1-score", "time")


def test_metrics_of_other_programs_are_values_axes_and_charts_whatever_their_names(home: Home, store: Store) -> None:
    ids = [compare.add(store, steps=5, trainers=trainers) for trainers in (2, 4)]
    for run_id in ids:
        points = [
            Point(name, step, run_id + 10.0 * at + step, float(step))
            for at, name in enumerate(NAMES)
            for step in (0, 1)
        ]
        store.worker.write(run_id, [], run_points=points)
    runs = ids_text(ids)
    means = [metric_written(name, "mean") for name in NAMES]
    for at, name in enumerate(NAMES):
        written = metric_written(name, "last")
        test = opened_at(runs=runs, tab="bars", number=written)
        assert f"{name}, last" in test.selectbox(key=f"{AT}number").options
        assert read_view(test.query_params)[0].number == written
        test.session_state["compare.table.bars"] = True
        table = test.run().dataframe[0].value
        assert table[written].tolist() == [run_id + 10.0 * at + 1 for run_id in ids]
        assert f"{name}, last" in json.loads(test.dataframe[0].proto.columns)[written]["label"]
        test = opened_at(runs=runs, tab="scatter", number=written, against=means[at])
        assert "ignored" not in words(test) and "No " not in words(test)
        assert (test.query_params["number"], test.query_params["against"]) == (written, means[at])
        test = opened_at(runs=runs, metrics=LOSS, x='metric["time"]' if name == "time" else name)
        assert "ignored" not in words(test)
    test = opened_at(runs=runs, tab="parallel", number=means[0], axes=f"trainers,{names_text(means)}")
    assert test.multiselect(key=f"{AT}axes").value == ["trainers", *means]
    test = opened_at(runs=runs, metrics=names_text([*NAMES, LOSS]), x=NAMES[1])
    assert test.multiselect(key=f"{AT}metrics").value == [*NAMES, LOSS]
    assert opened_at(**test.query_params).query_params == test.query_params


def test_a_value_that_a_link_spells_otherwise_is_found(home: Home, store: Store) -> None:
    run_id = compare.add(store, steps=5)
    store.worker.write(run_id, [], run_points=[Point(name, 0, 7.0, 0.0) for name in ("loss", "val/f1-score")])
    for spelled, written in {
        "loss.last": 'metric["loss"].last',
        "val/f1-score.mean": 'metric["val/f1-score"].mean',  # an older address
        "test/accuracy.best": "test/accuracy.best",
    }.items():
        test = opened_at(runs=str(run_id), tab="bars", number=spelled)
        assert "ignored" not in words(test)
        assert test.query_params["number"] == written
    assert "No number 'loss.most'" in words(opened_at(runs=str(run_id), tab="bars", number="loss.most"))


@pytest.mark.parametrize(
    ("text", "known", "names"),
    [
        ("a,b", (), ["a", "b"]),
        ("a,b", ("a,b", "a"), ["a,b"]),
        ("a,b", ("a,b", "a", "b"), ["a", "b"]),
        (" a , b,,a", ("a,b",), ["a", "b"]),
        ('"a,b",c', (), ["a,b", "c"]),
        ('"a ""b"", c" , d', (), ['a "b", c', "d"]),
        ('top-"1",x', (), ['top-"1"', "x"]),
        ('"open,x', (), ['"open', "x"]),
        ("top-1, top-5,loss", ("top-1, top-5",), ["top-1, top-5", "loss"]),
        ("a,b,c,d", ("b,c",), ["a", "b,c", "d"]),
        ("", ("",), []),
        (",,", (), []),
    ],
)
def test_a_list_of_names_may_have_commas_within_a_name(text: str, known: tuple[str, ...], names: list[str]) -> None:
    assert read_names(text, known) == names
    assert read_names(names_text(names)) == names


def test_runs_of_several_experiments_are_named_with_theirs(home: Home, ids: list[int], reader: Reader) -> None:
    first, second = reader.runs.some(ids[:2])
    mixed = (replace(first, name="seed 0"), replace(second, name="seed 0", experiment="reference"))
    assert list(names(mixed).values()) == [f"{first.id}: Hogwild!, seed 0", f"{second.id}: Reference, seed 0"]
    asks = replace(first, name="Does a lock help Hogwild!?")
    assert names([asks, mixed[1]])[first.id] == f"{first.id}: Does a lock help Hogwild!?"
    cut = names([replace(asks, name=f"{'Which one? ' * 4} Hogwild! {'Or that? ' * 4}"), mixed[1]])[first.id]
    assert cut.startswith(f"{first.id}: Hogwild!, Which one?") and "…" in cut
    assert next(iter(names([replace(first, name="seed 0"), second]).values())) == f"{first.id}: seed 0"


def test_values_open_on_the_result_and_each_tab_has_its_own_logarithmic_axes(home: Home, ids: list[int]) -> None:
    test = opened_at(runs=ids_text(ids), tab="scatter", log="x")
    assert test.toggle(key="compare.at.log.scatter.x").value
    test.segmented_control(key="compare.at.tab").set_value("bars").run()
    assert not test.toggle(key="compare.at.log.bars.x").value
    assert test.selectbox(key="compare.at.number").value == "test/accuracy.last"


def test_the_browser_is_told_the_usual_axis_with_each_run_of_the_page(ids: list[int]) -> None:
    test = opened_at(runs=ids_text(ids)).run()
    box = test.selectbox(key=f"{AT}x")
    assert box.value == "" and box.proto.set_value, "its label follows the runs"
    box.set_value("time").run()
    assert not test.selectbox(key=f"{AT}x").proto.set_value


def test_runs_of_another_program_say_what_each_reached(store: Store, reader: Reader) -> None:
    found = []
    for value in (0.5, 0.25):
        found.append(store.runs.add(Launch("pets", {}, "Ada", demand=Demand(1, 0, 1, 1))))
        store.claims.claim(found[-1], me(), [])
        store.worker.write(found[-1], [], run_points=[Point("loss", 5, value, 1.0)])
        store.claims.end(found[-1], "finished", "It ended.", execution_time_s=1.0)
    one, other = reader.runs.some(found)
    assert reached_most({"a": [one], "b": [other]}) == (
        "Last loss: 0.25 (b), 0.5 (a). One run each: other seeds may change the order."
    )


def test_values_open_on_a_metric_that_all_runs_have(ids: list[int], reader: Reader) -> None:
    one, other = (replace(run, experiment="pets", config={}) for run in reader.runs.some(ids[:2]))
    runs = [replace(one, last={"val.acc": 0.5, "loss": 1.0}), replace(other, last={"loss": 2.0})]
    assert numeric_names(runs)[0] == metric_written("loss", "last")


def test_a_label_that_says_last_does_not_say_it_twice(ids: list[int], reader: Reader) -> None:
    one, other = reader.runs.some(ids[:2])
    name = LAST_EPISODES
    runs = [
        replace(run, experiment="batched_reinforce", last={name: value}) for run, value in ((one, 20.0), (other, 90.0))
    ]
    assert reached_most({"a": runs[:1], "b": runs[1:]}) == (
        "Mean reward of the last 100 episodes: 90 (b), 20 (a). One run each: other seeds may change the order."
    )


def test_other_programs_have_their_unit() -> None:
    assert programs_in_words([["python -m pytest", 0.7839]]) == "python -m pytest 0.78 cores"
