"""The lines of the Compare page: which come first, what is shown alone, and the table beside the charts."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.charts.curve_charts import of_runs
from app.charts.curve_data import curves
from app.charts.curve_points import is_noiseless, usual_axis
from app.charts.plotly_figures import looks
from app.compare import lines
from app.compare.curve_tab import FIRST, first_curves
from app.compare.selection import short_names
from app.core.formatting import signed
from app.links import addresses
from app.links.compare import query_of, read_view
from app.ui import components
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store
from engine.system.processes import me
from tests.app.reading import opened, said
from tests.labs import compare
from tests.labs.compare import ACCURACY, LOSS

Shown = tuple[AppTest, dict[str, Any], dict[str, Any]]


@pytest.fixture
def ids(home: Home) -> list[int]:
    """Two groups whose last accuracies are 94 and 95, and 90, 91 and 92; and a group of one run."""
    with Store.open(home) as store:
        ids = [compare.add(store, trainers=count, seed=seed, steps=0) for count, seed in SEEDED]
        for run_id, value in zip(ids, (90, 91, 92, 94, 95, 96, 90), strict=True):
            points = [Point(ACCURACY, step, value - 1 + step, step, step) for step in range(2)]
            store.worker.write(run_id, [RankBatch(0, points)])
    return ids


SEEDED = ((2, 0), (2, 1), (2, 2), (4, 0), (4, 1), (4, 2), (8, 0))


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Shown]:
    """Return what opens Compare: the page, its table of lines, and the traces of each chart by key."""

    def open_at(**query: str) -> Shown:
        test = opened("compare", query)
        assert not test.exception
        return test, last["table"], charts

    last, charts = dict[str, Any](), dict[str, Any]()
    monkeypatch.setattr(components, "lines", lambda key, data, on_press: last.update(table=data))
    monkeypatch.setattr(components, "figure", lambda key, found, **_: charts.update({key: found["data"]}))
    return open_at


def named(table: dict[str, Any]) -> list[str]:
    return [row["label"] for row in table["rows"]]


def drawn(charts: dict[str, Any]) -> list[str]:
    return [trace["name"] for trace in charts[f"compare-{ACCURACY}"] if trace.get("meta", {}).get("press")]


def press(test: AppTest, asked: str, sent: dict[str, str] | None = None) -> dict[str, str]:
    """Press a button of the table, and return the address that follows, without what it began with; the browser sends
    the page's address, or `sent`.
    """
    if sent is not None:
        test.query_params.clear()
        test.query_params.update(sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines.st, "session_state", test.session_state)
        patch.setattr(lines.st, "query_params", SimpleNamespace(to_dict=partial(address, test)))
        test.session_state["pressed"] = {"press": asked}
        lines.pressed("pressed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addresses, "follows_widget", lambda: True)
        test.run()
    assert not test.exception
    began = ("runs", "v", "group", "metrics", "columns")
    return {name: text for name, text in address(test).items() if name not in began}


def address(test: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


def test_a_pinned_group_comes_first_and_the_others_say_what_they_differ_from_the_baseline(
    ids: list[int], show: Callable[..., Shown], store: Store
) -> None:
    two, four, eight = "trainers 2", "trainers 4", "trainers 8"
    test, table, charts = show(runs="1-7", group="trainers", pins="7", metrics=ACCURACY)
    assert named(table) == [eight, two, four] and drawn(charts) == [f"{eight} (n=1)", f"{two} (n=3)", f"{four} (n=3)"]
    assert [row["cells"][0].get("delta") for row in table["rows"]] == [None] * 3
    colours = {row["label"]: row["colour"] for row in table["rows"]}

    store.annotations.pin(ids[1], by="Ada")  # in Runs: the baseline of a view that names none
    _, table, charts = show(runs="1-7", group="trainers", pins="7", metrics=ACCURACY)
    assert named(table) == [two, eight, four] and drawn(charts)[0] == f"{two} (n=3)"
    assert {row["label"]: row["colour"] for row in table["rows"]} == colours, "a pin changes no colour"
    base, single, other = (row["cells"][0] for row in table["rows"])
    assert base["text"] == "91.00 ± 1.00" and "delta" not in base
    assert other["delta"] == "+4.00 points · +4.9 SE\nmore than chance" and other["tone"] == "better"
    assert "Difference of means to trainers 2: +4.00. 95 % interval +1.73 to +6.27" in other["why"]
    assert (single["delta"], single["tone"]) == ("\u22121.00 points · n=1\ntoo few runs to judge", "")
    assert "No standard error: n=1" in single["why"]
    assert "Differences of means to trainers 2, in points and in standard errors" in said(test := show(
        runs="1-7", group="trainers")[0])  # fmt: skip

    _, table, _ = show(runs="1-7", group="trainers", tab="bars", number="train/loss.last", base="none")
    assert named(table)[0] == two and not any(row["base"] for row in table["rows"])
    for asked, address in (
        ("base 4", {"base": "4"}),
        ("pin 7", {"base": "4", "pins": "2,7"}),
        ("base 4", {"base": "none", "pins": "2,7"}),
    ):
        assert press(test, asked) == address


def test_single_runs_beside_groups_say_that_they_are_too_few_and_the_hover_counts_test_images(
    ids: list[int], show: Callable[..., Shown], store: Store
) -> None:
    few = "too few runs to judge"
    _, table, _ = show(runs="1-7", group="trainers", base="1", members="4", metrics=ACCURACY)
    assert [row["cells"][0]["delta"] for row in table["rows"] if row.get("child")] == [
        f"{amount}.00 points · n=1\n{few}" for amount in ("+3", "+4", "+5")
    ]
    _, table, _ = show(runs="1-7", group="trainers", base="7", metrics=ACCURACY)
    _, two, four = (row["cells"][0] for row in table["rows"])
    assert (two["delta"], four["delta"]) == (f"+1.00 points\n{few}", f"+5.00 points\n{few}"), "the baseline is n=1"
    assert two["why"].endswith("No standard error: n=1 in the baseline")
    _, table, _ = show(runs="1-7", group="none", base="1", metrics=ACCURACY)
    assert table["rows"][1]["cells"][0]["delta"] == "+1.00 points", "the note says it once for all single runs"
    close = compare.add(store, trainers=16, seed=0, steps=0)
    store.worker.write(close, [RankBatch(0, [Point(ACCURACY, 0, 90.3, 0, 0)])])
    _, table, _ = show(runs=f"7,{close}", group="none", base="7", metrics=ACCURACY)
    assert table["rows"][1]["cells"][0]["delta"] == "+0.30 points"
    assert table["rows"][1]["cells"][0]["why"].endswith(". 1.1 of 360 test images")


def test_a_groups_runs_and_one_of_them_alone_are_a_press_away_and_in_the_address(
    ids: list[int], show: Callable[..., Shown]
) -> None:
    test, table, charts = show(runs="1-7", group="trainers", metrics=ACCURACY)
    assert press(test, "show g5") == {"members": "5"}
    assert [name[:2] for name in drawn(charts)] == ["4:", "5:", "6:"]
    _, table, _ = show(**{name: str(value) for name, value in dict(test.query_params).items()})
    assert [(row["label"][:10], row["dim"]) for row in table["rows"]] == [
        *(("trainers 2", True), ("trainers 4", False), ("4: trainer", False), ("5: trainer", False)),
        *(("6: trainer", False), ("trainers 8", True)),
    ]
    assert press(test, "show 6") == {"members": "4", "only": "6"} and [name[:2] for name in drawn(charts)] == ["6:"]
    assert press(test, "show 6") == {"members": "4"} and len(drawn(charts)) == 3
    assert not press(test, "show g4") and [name[-5:] for name in drawn(charts)] == ["(n=3)", "(n=3)", "(n=1)"]
    assert not press(test, "of nobody"), "what the table does not offer is ignored"
    before = address(test)
    assert press(test, "pin 7") == {"pins": "7"}
    assert press(test, "pin 1", sent=before) == {"pins": "1,7"}, (
        "the browser did not have the address of the last press"
    )
    _, table, charts = show(runs="1-3", group="none", only="2", metrics=ACCURACY)
    assert [row["on"] for row in table["rows"]] == [False, True, False] and len(drawn(charts)) == 1
    assert "No run '99' in these runs; ignored." in said(show(runs="1-3", members="99", pins="99")[0])


def test_columns_beside_the_legend_sort_it_and_pinned_lines_stay_first(
    ids: list[int], show: Callable[..., Shown], store: Store
) -> None:
    store.annotations.set_note(ids[4], "a *good* one", by="Ada")
    columns = {"columns": f"note,{ACCURACY}.last,trainers"}
    test, table, _ = show(runs="1-7", group="trainers", sort=f"-{ACCURACY}.last", **columns)
    assert [head["label"] for head in table["columns"]] == ["Note", "Test accuracy, last (%)", "Trainers"]
    assert [[cell["text"] for cell in row["cells"]] for row in table["rows"]] == [
        ["a *good* one", "95.00 ± 1.00", "4"],
        ["–", "91.00 ± 1.00", "2"],
        ["–", "90.00", "8"],
    ]
    assert [head["order"] for head in table["columns"]] == ["", "descending", ""]
    sorts = [press(test, asked) for asked in (f"sort {ACCURACY}.last", f"sort {ACCURACY}.last", "sort note")]
    assert sorts == [{"sort": f"{ACCURACY}.last"}, {}, {"sort": "note"}]
    _, table, _ = show(runs="1-7", group="trainers", sort="trainers", pins="7", **columns)
    assert named(table) == ["trainers 8", "trainers 2", "trainers 4"]
    assert [row["about"] for row in table["rows"]] == ["pinned: first", "", ""]
    assert [head["number"] for head in table["columns"]] == [False, True, True], "settings that are numbers, too"
    _, table, _ = show(runs="1-7", group="trainers", sort="trainers", base="4", **columns)
    assert named(table) == ["trainers 2", "trainers 4", "trainers 8"] and table["rows"][1]["about"] == "baseline", (
        "a baseline that isn't pinned is sorted"
    )
    _, table, _ = show(runs="1-7", group="trainers", tab="bars", number=f"{ACCURACY}.best", base="1", **columns)
    assert table["columns"][0]["label"] == "Test accuracy, best (%)", "Δ of the value shown comes before all else"


def test_without_chosen_columns_the_table_has_those_of_the_chosen_metrics(
    ids: list[int], show: Callable[..., Shown], store: Store
) -> None:
    store.worker.write(ids[0], [RankBatch(0, [Point(LOSS, 1, 0.5, 1, 1)])])
    _, table, _ = show(runs="1-7", group="trainers", metrics=f"{LOSS},{ACCURACY}")
    assert [head["label"] for head in table["columns"]] == ["Training loss, last", "Test accuracy, last (%)"]
    _, table, _ = show(runs="1-7", group="trainers", metrics=LOSS, columns="trainers")
    assert [head["label"] for head in table["columns"]] == ["Trainers"]
    _, table, _ = show(runs="1-7", group="trainers", metrics=LOSS, tab="scatter")
    assert [head["label"] for head in table["columns"]] == ["Test accuracy, last (%)"], "no other tab has metrics"


def test_a_chosen_column_is_added_to_the_result_which_stays_until_it_is_removed(
    ids: list[int], show: Callable[..., Shown]
) -> None:
    test, table, _ = show(runs="1-7", group="trainers", base="1")
    columns = test.multiselect(key="compare.at.columns")
    assert columns.value == [f"{ACCURACY}.last"] and "columns" not in address(test)
    last = dict[str, Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "lines", lambda key, data, on_press: last.update(data))
        columns.select("trainers").run()
        assert [head["label"] for head in last["columns"]] == ["Test accuracy, last (%)", "Trainers"]
        assert "Differences of means to trainers 2" in said(test)
        assert address(test)["columns"] == f"{ACCURACY}.last,trainers"
        columns.set_value(["trainers"]).run()
        assert [head["label"] for head in last["columns"]] == ["Trainers"]
        assert "Differences of means" not in said(test), "there is no number to differ in"
        columns.set_value([]).run()
        assert last["columns"] == [] and address(test)["columns"] == "none"
    _, table, _ = show(**address(test))
    assert table["columns"] == []
    test, table, _ = show(runs="1-7", group="trainers", columns="nothing")
    assert len(table["columns"]) == 1, "of a link without a known column the result is left"


def test_the_usual_column_of_other_programs_is_the_metric_of_the_first_chart_and_of_the_sentence_on_the_best(
    store: Store, show: Callable[..., Shown]
) -> None:
    for place in range(5):
        run_id = store.runs.add(Launch("pets", {"lr": place}, "Ada", demand=Demand(1, 0, 1, 1)))
        store.claims.claim(run_id, me(), [])
        store.worker.begin(run_id, me(), {})
        name = "val/accuracy" if place < 2 else "val_acc"
        points = [Point(name, step, 0.5 + step / 100 + place / 10, float(step)) for step in range(5)]
        store.worker.write(run_id, [], run_points=points)
        store.claims.end(run_id, "finished", "Completed successfully")
    test, table, charts = show(runs="1-5", group="none")
    assert next(iter(charts)) == "compare-val_acc"
    assert any("Last val_acc" in each.value for each in test.markdown)
    assert [head["label"] for head in table["columns"]] == ["val_acc, last"]


def test_a_sentence_says_which_runs_are_shown_alone(ids: list[int], show: Callable[..., Shown]) -> None:
    for query, says in (
        ({"members": "1", "only": "2"}, "Only run 2 is shown in the charts; the sentences are about all 3 groups."),
        (
            {"members": "4"},
            "Only the runs of trainers 4 are shown in the charts; the sentences are about all 3 groups.",
        ),
        ({"group": "none", "only": "2"}, "Only run 2 is shown in the charts; the sentences are about all 7 runs."),
    ):
        assert says in said(show(**({"runs": "1-7", "group": "trainers"} | query))[0])
    assert "shown in the charts" not in said(show(runs="1-7", group="trainers")[0])
    assert "shown in the charts" not in said(show(runs="7", group="trainers", members="7")[0]), "that is all there is"


def test_the_usual_columns_follow_the_tab_and_its_value(ids: list[int], show: Callable[..., Shown]) -> None:
    test, _, _ = show(runs="1-7", group="trainers", tab="bars", number="trainers")
    assert test.multiselect(key="compare.at.columns").value == ["trainers"]
    test.segmented_control(key="compare.at.tab").set_value("curves").run()
    assert test.multiselect(key="compare.at.columns").value == [f"{ACCURACY}.last"]


@pytest.mark.parametrize(
    ("query", "cell", "note"),
    [
        ({}, "91.00 ± 1.00", "mean ± standard deviation (min to max where n < 3) of"),
        ({"band": "se"}, "91.00 ± 0.58", "mean ± standard error (min to max where n < 3) of"),
        ({"band": "ci"}, "91.00 (88.52 – 93.48)", "mean and 95 % confidence interval (min to max where n < 3) of"),
        ({"band": "range", "stat": "median"}, "91.00 (90.00 – 92.00)", "median and min to max of"),
        ({"band": "none"}, "91.00", "mean of"),
    ],
)
def test_the_table_shows_the_chosen_statistic_and_band_and_says_which(
    ids: list[int], show: Callable[..., Shown], query: dict[str, str], cell: str, note: str
) -> None:
    test, table, _ = show(runs="1-5", group="trainers", **query)
    three, two = (row["cells"][0] for row in table["rows"])
    assert three["text"] == cell and two["text"] == ("94.50" if "none" in query.values() else "94.50 (94.00 – 95.00)")
    assert f"Groups: {note} the values of their runs." in said(test)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"runs": "1-3", "band": "ci"}, "trainers 2: mean of 3 runs, band: 95 % confidence interval"),
        ({"runs": "1-6"}, "Mean of 3 runs per group, band: ± standard deviation"),
        ({"runs": "1-7", "stat": "median", "band": "none"}, "Median of the runs of each group"),
        ({"runs": "7"}, "trainers 8: one run"),
        ({"runs": "7", "group": "none"}, "7: Hogwild!, quick"),
        ({"runs": "1-3", "group": "none"}, ""),
    ],
)
def test_a_picture_says_what_its_lines_and_bands_are(
    ids: list[int], monkeypatch: pytest.MonkeyPatch, query: dict[str, str], says: str
) -> None:
    drawn = dict[str, Any]()
    monkeypatch.setattr(components, "shown", lambda key, content, *_: drawn.update({key: content}))
    for tab, key in (("curves", f"compare-{ACCURACY}"), ("bars", "compare-bars")):
        if tab == "curves" or "none" not in query.values():
            opened("compare", {"group": "trainers", "metrics": ACCURACY, "tab": tab, **query})
            found = drawn[key]["figure"]["layout"]["meta"].get("says", "")
            assert found == says


def test_an_address_of_lines_comes_back_and_earlier_ones_mean_what_they_did() -> None:
    query = {"runs": "1-7", "pins": "3,5", "base": "none", "members": "4", "only": "5", "columns": "note", "v": "3"}
    view, warnings = read_view(query)
    assert not warnings and view.base == 0 and query_of(view) == query
    ranged = {"runs": "1", "zoom": "0.25..1500000", "v": "3"}
    assert read_view(ranged)[0].zoom == (0.25, 1.5e6) and query_of(read_view(ranged)[0]) == ranged
    for wrong in ("5", "5..5", "9..1", "a..b", "1..inf", "nan..2"):
        view, warnings = read_view({"zoom": wrong})
        assert view.zoom is None and warnings == [
            f"Link parameter zoom must be a range such as 10..80, got '{wrong}'; ignored."
        ]
    view, warnings = read_view({"pins": "x", "members": "-1", "v": "2"})
    assert (view.pins, view.members, view.base) == ((), 0, None) and len(warnings) == 2


def test_a_line_of_fewer_runs_than_its_group_says_both_numbers(
    ids: list[int], show: Callable[..., Shown], store: Store
) -> None:
    compare.add(store, trainers=8, seed=1, steps=5, ended=False)
    _, table, charts = show(runs="7,8", group="trainers", metrics=ACCURACY)
    assert drawn(charts) == ["trainers 8 (n=1 of 2)"]
    assert (table["rows"][0]["n"], table["rows"][0]["fewer"]) == ("2", "1 in test accuracy")


def test_the_table_marks_runs_that_are_not_complete(ids: list[int], show: Callable[..., Shown], store: Store) -> None:
    more = [compare.add(store, trainers=2, seed=seed, steps=5, ended=False) for seed in (3, 4, 5)]
    for run_id, status in zip(more, ("failed", "lost"), strict=False):
        store.claims.end(run_id, status, "A cause.")  # type: ignore[arg-type]
    _, table, _ = show(runs="1,4,8-10", group="trainers")
    assert [row["about"] for row in table["rows"]] == ["1 failed, 1 lost, 1 running", ""]
    _, table, _ = show(runs="1,8-10", group="none")
    assert [row["about"] for row in table["rows"]] == ["", "failed", "lost", "running"]


def test_one_chart_smooths_all_of_its_curves_or_none(home: Home, store: Store) -> None:
    ids = [compare.add(store, trainers=2, seed=steps, steps=steps) for steps in (40, 300)]
    with Reader.open(home) as reader:
        runs = reader.runs.some(ids)
        for own, smoothed in ((runs, 2), (runs[:1], 0), (runs[1:], 1)):
            found = of_runs(curves(reader, own, LOSS, "step"), {run: str(run) for run in ids}, looks(ids), 0.9)
            kinds = [trace["meta"]["as"] for trace in found.figure["data"]]
            assert sum("smoothed" in kind for kind in kinds) == smoothed


def test_a_metric_stays_raw_beside_smoothed_ones_and_the_address_keeps_it(
    show: Callable[..., Shown], store: Store
) -> None:
    run_id, other = compare.add(store, steps=120), "eval/loss"
    points = [Point(other, step, (-1.0) ** step, step, step) for step in range(120)]

    def smoothed(charts: dict[str, Any]) -> list[str]:
        found = {name: charts[f"compare-{name}"] for name in (LOSS, other)}
        return [name for name, traces in found.items() if any("smoothed" in each["meta"]["as"] for each in traces)]

    test, _, charts = show(runs=str(run_id))
    assert "Not smoothed" not in [each.label for each in test.multiselect], "one chart: the slider is enough"
    store.worker.write(run_id, [RankBatch(0, points)])
    test, _, charts = show(runs=str(run_id), metrics=f"{LOSS},{other}")
    assert smoothed(charts) == [LOSS, other]
    next(each for each in test.multiselect if each.label == "Not smoothed").select(other).run()
    assert smoothed(charts) == [LOSS]
    assert address(test)["raw"] == other
    _, _, charts = show(**address(test))
    assert smoothed(charts) == [LOSS]


def test_the_page_says_beside_smoothing_where_it_has_no_effect_and_names_a_single_line(
    show: Callable[..., Shown], store: Store
) -> None:
    few, many = (compare.add(store, trainers=2, seed=steps, steps=steps) for steps in (20, 300))
    none, some = "not applied: little noise or few points", "applied in 1 of 2 charts"
    shown = said(show(runs=f"{few}")[0])
    assert none in shown and f"**Training loss** · {few}: Hogwild!, quick" in shown
    assert some in said(show(runs=f"{few},{many}")[0])
    for query in ({"smooth": "0"}, {"group": "trainers"}, {"metrics": LOSS}):
        shown = said(show(**{"runs": f"{few},{many}", **query})[0])
        assert none not in shown and "applied in" not in shown


def test_an_average_would_only_lag_behind_a_curve_with_little_noise() -> None:
    falling, wiggle = np.linspace(1.0, 0.0, 200) ** 2, (-1.0) ** np.arange(200)
    assert is_noiseless(falling + 0.0004 * wiggle) and not is_noiseless(falling + 0.05 * wiggle)
    assert is_noiseless(np.full(9, np.nan)) and is_noiseless(np.full(9, 0.1))


def test_runs_of_other_programs_are_named_as_in_the_legend(home: Home, ids: list[int], store: Store) -> None:
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET experiment = 'baselines', name = 'adam' WHERE id = 7")
    with Reader.open(home) as reader:
        assert short_names(reader.runs.some([1, 7])) == ["1: Hogwild!", "7: baselines, adam"]


def test_runs_of_an_open_group_have_other_colours_than_the_groups_beside_it(
    ids: list[int], show: Callable[..., Shown]
) -> None:
    _, table, _ = show(runs="1-7", group="trainers", members="1", base="4", metrics=ACCURACY)
    groups, members = ({row["colour"] for row in table["rows"] if bool(row.get("child")) == own} for own in (0, 1))
    own = next(row["colour"] for row in table["rows"] if row["label"] == "trainers 2")
    assert len(members) == 3 and not members & (groups - {own})


@pytest.mark.parametrize("tab", ["curves", "bars", "scatter"])
@pytest.mark.parametrize("query", [{"members": "1"}, {"members": "4"}, {"members": "4", "only": "5"}, {"only": "5"}])
def test_runs_of_an_open_group_have_one_colour_in_table_and_charts(
    ids: list[int],
    show: Callable[..., Shown],
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    tab: str,
    query: dict[str, str],
) -> None:
    compare.add(store, trainers=2, seed=3, steps=5)  # whose own colour is that of its group
    drawn = set[tuple[str, int]]()

    def figure(key: str, found: Any, *, colours: list[int], **_: object) -> None:
        drawn.update(zip([trace["name"] for trace in found["data"]], colours, strict=True))

    monkeypatch.setattr(components, "figure", figure)
    _, table, _ = show(runs="1-8", group="trainers", metrics=ACCURACY, tab=tab, **query)
    in_table = {(row["label"], row["colour"]) for row in table["rows"] if row.get("child") and not row["dim"]}
    assert in_table and drawn == in_table


def test_each_run_is_in_a_chart_and_runs_of_other_programs_are_drawn_by_step(home: Home, store: Store) -> None:
    ours = compare.add(store, trainers=2)
    also = ("perf/staleness", "perf/samples_per_second", "perf/overwritten_updates")
    store.worker.write(ours, [RankBatch(0, [Point(name, 5, 1.0, 5.0, 5) for name in also])])
    theirs = store.runs.add(Launch("pets", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(theirs, me(), [])
    store.worker.write(theirs, [], run_points=[Point(name, 5, 1.0, 0.1) for name in ("accuracy", "loss")])
    with Reader.open(home) as reader:
        runs = reader.runs.some([ours, theirs])
        assert len(first_curves(runs[:1])) == FIRST and first_curves(runs) == [*first_curves(runs[:1]), "accuracy"]
        assert usual_axis(reader, runs) == "step"


@pytest.mark.parametrize(
    ("value", "text", "shown"), [(1e-9, "0.00 points", "0 points"), (0.0, "0", "0"), (-0.5, "0.5", "\u22120.5")]
)
def test_a_difference_that_rounds_to_0_has_no_sign(value: float, text: str, shown: str) -> None:
    assert signed(value, text) == shown
