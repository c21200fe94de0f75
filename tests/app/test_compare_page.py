"""The Compare page: what it shows, what its address holds, and what it says of what is not there."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from app import compare_state
from app.compare_runs import LONGEST_NAME, names
from app.compare_view import TABS
from engine.home import Home
from engine.store import Demand, Reader, Store
from tests.app import compare_labs
from tests.app.compare_labs import ACCURACY, LOSS
from tests.app.test_pages import opened, said
from tests.app.test_sweeps import html

AT = compare_state._WIDGETS


def words(test: AppTest) -> str:
    assert not test.exception
    assert not test.error
    return said(test).replace("\\", "")


@pytest.fixture
def ids(home: Home) -> list[int]:
    return compare_labs.fill(home)


def opened_at(**query: str) -> AppTest:
    return opened("compare", query)


def test_an_empty_lab_is_sent_to_launch_something(home: Home) -> None:
    assert "No run has been launched yet, so there is nothing to compare." in words(opened_at())


def test_without_runs_the_newest_are_offered(home: Home, ids: list[int]) -> None:
    test = opened_at()
    assert "No run is chosen." in words(test)
    assert test.dataframe[0].value["run"].tolist() == ids[::-1]
    assert test.button(key="compare.newest.add").disabled
    assert not test.query_params


@pytest.mark.parametrize("group", ["", "trainers", "trainers,owner"])
@pytest.mark.parametrize("tab", TABS)
def test_every_tab_opens_by_its_link_with_and_without_groups(home: Home, ids: list[int], tab: str, group: str) -> None:
    test = opened_at(runs="1-6", tab=tab, group=group)
    assert "was left out" not in words(test)
    assert test.button_group(key=f"{AT}tab").value == tab
    assert test.query_params.get("group", "") == group


def test_the_address_follows_what_is_chosen_and_brings_the_same_view_back(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1,2,3,5")
    assert test.query_params == {"runs": "1-3,5", "v": "1"}
    test.multiselect(key=f"{AT}group").set_value(["trainers"]).run()
    test.selectbox(key=f"{AT}stat").set_value("median").run()
    test.selectbox(key=f"{AT}x").set_value("time").run()
    test.multiselect(key=f"{AT}metrics").set_value([LOSS]).run()
    test.toggle(key=f"{AT}log.y").set_value(True).run()
    found = dict(test.query_params)
    assert found == {"runs": "1-3,5", "group": "trainers", "stat": "median", "x": "time", "metrics": LOSS, "log": "y", "v": "1"}
    again = opened_at(**found)
    assert words(again) == words(test)
    assert dict(again.query_params) == found
    again.button_group(key=f"{AT}tab").set_value("bars").run()
    again.button_group(key=f"{AT}tab").set_value("curves").run()
    assert dict(again.query_params) == found


def test_runs_are_chosen_by_hand_and_by_filter_together(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="6", filter='owner contains "grace"')
    assert [f'<a href="/run?run={run_id}"' in html(test) for run_id in ids] == [False, False, False, True, True, True]
    test.text_input(key=f"{AT}filter").set_value('owner == "nobody"').run()
    assert "No run matches the filter 'owner == \"nobody\"'." in words(test)
    assert [f'<a href="/run?run={run_id}"' in html(test) for run_id in ids] == [False] * 5 + [True]


def test_runs_that_are_gone_and_ids_that_are_none_are_named_and_the_rest_is_shown(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1,2,77-79,x")
    shown = words(test)
    assert "Runs 77-79 are not in this lab (any more)" in shown
    assert "'x' was left out" in shown
    assert '<a href="/run?run=2"' in html(test)
    with Store.open(home) as store, store.change() as connection:
        connection.execute("DELETE FROM runs WHERE id = 2")
    assert "Runs 2,77-79 are not in this lab" in words(test.run())


def test_more_than_30_runs_are_cut_to_30_with_a_sentence(home: Home) -> None:
    with Store.open(home) as store:
        for _ in range(33):
            compare_labs.add(store, steps=5)
    test = opened_at(filter='experiment == "hogwild"', tab="bars")
    assert "33 runs were asked for, and at most 30 can be told apart" in words(test)
    assert html(test).count('<a href="/run?run=') == 30
    assert "33 runs were asked for" in words(opened_at(runs="1-33"))
    assert "33 runs were asked for" in words(opened_at(runs="1-3", filter='experiment == "hogwild"'))


def test_one_seed_has_no_band_and_the_page_says_why(home: Home, ids: list[int]) -> None:
    assert "No band is drawn for trainers none: one run each. A band needs two" in words(opened_at(runs="1-6", group="trainers"))
    assert "No band is drawn, since each group has one run." in words(opened_at(runs="1,4", group="trainers"))
    assert "No band" not in words(opened_at(runs="1-5", group="trainers"))
    assert "No band" not in words(opened_at(runs="1,4", group="trainers", band="none"))


def test_mixed_experiments_and_runs_with_nothing_in_common_are_said(home: Home, ids: list[int]) -> None:
    assert "runs of hogwild, reference, whose ranks count steps of different work" in words(opened_at(runs="1,6"))
    assert "steps of different work" not in words(opened_at(runs="1,6", x="passes"))
    assert "steps of different work" not in words(opened_at(runs="1,2"))
    with Store.open(home) as store:
        bare = compare_labs.add(store, steps=0)
    assert "None of these runs has recorded a curve yet." in words(opened_at(runs=str(bare)))
    shown = words(opened_at(runs=f"1,{bare}"))
    assert "No metric here was recorded by all of these runs" in shown
    assert f"Without Training loss against step: run {bare}." in shown


def test_values_that_are_not_finite_are_counted(home: Home, ids: list[int]) -> None:
    with Store.open(home) as store:
        run_id = compare_labs.add(store, nan_at=3)
    for group in ("", "trainers"):
        assert "1 value is not finite (NaN or infinite): gaps, counted in no mean." in words(opened_at(runs=f"1,{run_id}", group=group, metrics=LOSS))
    assert "not finite" not in words(opened_at(runs="1,2"))


def test_names_that_these_runs_lack_are_left_out_once_said(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1-3", metrics=f"no/such,{LOSS}", group="mode", x="perf/nothing", v="9")
    shown = words(test)
    for sentence in ("the metric 'no/such'", "the field 'mode'", "the axis 'perf/nothing'", "This link is of version '9'"):
        assert sentence in shown
    assert test.query_params == {"runs": "1-3", "metrics": LOSS, "v": "1"}
    assert "left out" in words(test.run())
    test.selectbox(key=f"{AT}x").set_value("time").run()
    assert "left out" not in words(test)


def test_runs_without_a_single_number_are_said(home: Home) -> None:
    with Store.open(home) as store:
        store.add_run("hogwild", {}, owner="Ada", demand=Demand(1, 0, 1, 1))
    for tab in ("bars", "parallel"):
        assert "These runs have no number to compare yet." in words(opened_at(runs="1", tab=tab))
    assert "No run shown" not in words(opened_at(runs="1", tab="scatter"))


def test_an_axis_that_no_run_has_says_so(home: Home, ids: list[int]) -> None:
    with Store.open(home) as store:
        run_id = compare_labs.add(store, "parameter_server", steps=3)
    assert "No run shown has training loss against updates. Choose another axis or metric." in words(opened_at(runs=str(run_id), x="updates", metrics=LOSS))


@pytest.mark.parametrize(("query", "rows"), [({"metrics": ACCURACY}, 25), ({"metrics": ACCURACY, "group": "trainers"}, 10), ({"tab": "bars"}, 5)])
def test_a_charts_table_opens_with_what_it_shows(home: Home, ids: list[int], query: dict[str, str], rows: int) -> None:
    test = opened_at(runs="1-5", **query)
    assert not test.dataframe
    test.session_state[f"compare.table.{ACCURACY if 'metrics' in query else 'bars'}"] = True
    assert len(test.run().dataframe[0].value) == rows


def test_differences_hide_what_is_equal_and_say_how_many_are(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1,4", tab="differences")
    assert "<td>trainers</td><td>2</td><td>4</td>" in html(test)
    assert "<td>batch_size</td>" not in html(test)
    assert "4 fields are equal in all 2 runs, and hidden." in words(test)
    test.toggle(key=f"{AT}same").set_value(True).run()
    assert "<td>batch_size</td>" in html(test) and "<td>packages.torch</td><td>2.15</td><td>2.15</td>" in html(test)
    assert test.query_params["same"] == "1"


def test_a_view_is_saved_listed_for_all_and_deleted_by_its_owner(home: Home, ids: list[int]) -> None:
    test = opened_at(runs="1-5", group="trainers")
    test.session_state["person"] = "Ada"
    test.text_input(key="compare.name").set_value("Speed <b> by trainers")
    test.button(key="compare.save").click().run()
    with Reader.open(home) as reader:
        (view,) = reader.views()
    assert (view.name, view.owner, view.query) == ("Speed <b> by trainers", "Ada", "runs=1-5&group=trainers&v=1")
    other = opened_at()
    assert '<a href="/compare?runs=1-5&amp;group=trainers&amp;v=1">Speed &lt;b&gt; by trainers</a>' in html(other)
    other.session_state[f"view.change.{view.id}"] = True
    assert not [button for button in other.run().button if button.label == "Delete"]
    other.session_state["person"] = "Ada"
    other.run().button(key=f"view.delete.{view.id}").click().run()
    assert "Speed" not in html(other)


def test_saving_asks_for_the_persons_name_first_and_then_saves(home: Home, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    test = opened_at(runs="1")
    asked = []
    monkeypatch.setattr("app.dialogs.open_soon", lambda ask, *words: asked.append(words))
    test.text_input(key="compare.name").set_value("one")
    test.button(key="compare.save").click().run()
    with Reader.open(home) as reader:
        assert (len(asked), reader.views()) == (1, [])
    test.session_state["person"] = "Ada"
    test.run()
    with Reader.open(home) as reader:
        assert [(view.name, view.owner, view.query) for view in reader.views()] == [("one", "Ada", "runs=1&v=1")]


def test_a_run_that_is_on_keeps_the_page_listening_and_ended_ones_do_not(home: Home, ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    pulse: Callable[..., None] = lambda token, **options: asked.append(options["active"])  # noqa: E731
    monkeypatch.setattr("app.live.pulse", pulse)
    with Store.open(home) as store:
        on = compare_labs.add(store, ended=False)
    opened_at(runs="1,2")
    opened_at(runs=f"1,{on}")
    assert asked == [False, True]


def test_runs_of_one_sweep_are_told_apart_by_the_ends_of_their_long_names(home: Home, ids: list[int]) -> None:
    with Store.open(home) as store, Reader.open(home) as reader:
        for run_id in ids[:2]:
            store.rename(run_id, f"Does Hogwild! pay on the machine of our whole lab?: trainers 2, seed {run_id}", by="Ada")
        found = names(reader.some(ids[:2]))
    assert [name.endswith(f"trainers 2, seed {run_id}") for run_id, name in found.items()] == [True, True]
    assert {len(name) for name in found.values()} == {len("1: ") + LONGEST_NAME}
