"""Flags on the pages: disturbed runs (crosses, left out by default, measured again), and runs that did not learn."""

import re
from dataclasses import replace
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.api import catalogue_routes, run_routes
from app.charts.sweep_data import EXECUTION, disturbed_of, groups_of
from app.core.formatting import duration
from app.home.recent import best_html
from app.links.compare import TABS
from app.report import page_capture
from app.report.document import Paragraph, _cell
from app.runs import grid
from app.runs.columns import disturbed
from app.runs.rows import run_rows
from app.scaling.view import picture
from app.sweep.chart import chart
from app.ui.time_difference import DISTURBED, _show_disturbed
from engine.analysis.run_values import measured
from engine.analysis.scaling.laws import SCALABILITY, Fit, fit
from engine.analysis.scaling.scaling_data import study, unequal_of_sweep
from engine.analysis.scaling.speedup import sizes
from engine.commands.lab_settings import change_limits
from engine.home import Home
from engine.recorder import Point
from engine.store import Launch, RankBatch, Reader, Store, SweepLaunch
from engine.sweep.launch import launch_sweep
from tests.app.reading import all_words, html, opened
from tests.app.runs.drawn_table import rows_of
from tests.app.test_scaling import end, hogwild, view
from tests.labs.compare import ACCURACY


def disturb(home: Home, run_id: int, percent: float, slower: float = 1.0) -> None:
    """Let an ended run have been disturbed, and so have taken longer."""
    with Store.open(home) as store:
        store.worker.write(run_id, [], run_points=[Point("perf/disturbance", 9, percent, 9.0, None)])
        store.worker.note_environment(run_id, "other_programs", [["stress", 0.61], ["python -m app", 0.02]])
        with store.db.change() as connection:
            connection.execute("UPDATE runs SET execution_time_s = execution_time_s * ? WHERE id = ?", [slower, run_id])


def at_2(home: Home, sweep_id: int) -> list[int]:
    with Reader.open(home) as reader:
        return [run.id for run in reader.sweeps.runs(sweep_id) if run.config["trainers"] == 2]


def test_a_disturbed_run_is_flagged_on_its_page_in_the_table_and_in_its_cell(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]}, 2)
    one, other = at_2(home, sweep_id)
    disturb(home, one, 31.4)
    disturb(home, other, 4.9)
    caveat = "Other programs disturbed this run: times, and what follows from the order of its ranks, may differ."
    assert caveat not in all_words(opened("run", {"run": str(one)})), "its sentence has no number"
    with Store.open(home) as store:
        for run_id in (one, other):
            store.worker.write(run_id, [RankBatch(0, [Point("perf/overwritten_updates", 8, 0.5, 8.0)])])
    shown = opened("run", {"run": str(one)})
    assert "disturbed 31 %" in all_words(shown)
    assert "stress 0.61 cores" in all_words(shown)
    assert caveat in all_words(shown)
    assert not re.search(r"disturbed \d", all_words(opened("run", {"run": str(other)})))
    with Reader.open(home) as reader:
        row, calm = run_rows([reader.runs.entry(each) for each in (one, other)])
        facts = grid.RowFacts({}, {}, {})
        assert grid._state(row, facts)["note"] == "disturbed 31 %"
        assert grid._hover(row, facts) == "Other programs took 31 % of its CPU time: its times are not reliable."
        assert grid._state(calm, facts)["note"] == ""
    page = all_words(view(sweep_id, "Results"))
    assert "disturbed 31 %" in page and f"Run {one} was disturbed" in page
    assert "disturbed 4.9" not in page


def test_a_run_that_did_not_learn_is_flagged_wherever_it_is_compared(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 1)
    (bad,) = at_2(home, sweep_id)
    disturb(home, bad, 31.4)
    with Store.open(home) as store:
        losses = [Point("train/loss", step, 2.3, 9.0, None) for step in range(1, 41)]
        store.worker.write(bad, [RankBatch(0, losses)], run_points=[Point("test/accuracy", 40, 10.0, 9.0, None)])
        row, other = run_rows([store.read.runs.entry(each) for each in (bad, bad - 1)])
    facts = grid.RowFacts({}, {}, {})
    assert (grid._state(row, facts)["note"], grid._state(other, facts)["note"]) == ("did not learn", "")
    sentence = "test accuracy 10.00 % is chance for 10 classes."
    assert grid._hover(row, facts).startswith(f"Did not learn: {sentence} Other programs took 31 %")
    assert f"Did not learn: {sentence}" in all_words(opened("run", {"run": str(bad)}))
    for page in (view(sweep_id, "Results"), opened("compare", {"runs": f"{bad - 1}-{bad}"})):
        assert f"Run {bad} did not learn: {sentence}" in all_words(page)
    with Store.open(home) as store:
        store.worker.write(bad - 1, [], run_points=[Point("test/accuracy", 40, 95.0, 9.0, None)])
    (fold,) = [row for row in rows_of(opened("runs", {})) if row["key"] == f"sweep-{sweep_id}"]
    assert (fold["Status"]["note"], fold["Status"]["hover"]) == ("1 did not learn", f"Run {bad} did not learn")
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM runs WHERE id = ?", [bad - 1])
    (fold,) = [row for row in rows_of(opened("runs", {})) if row["key"] == f"sweep-{sweep_id}"]
    assert fold["Status"]["note"] == "best run did not learn"
    assert fold["Status"]["hover"] == f"Run {bad}, the best: Did not learn: {sentence}"
    with Reader.open(home) as reader:
        assert f"Did not learn: {sentence}" in best_html(reader)


def test_the_threshold_of_the_lab_decides_everywhere_which_runs_are_disturbed(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]}, 2)
    one, other = at_2(home, sweep_id)
    disturb(home, one, 31.4)
    disturb(home, other, 12.0)
    with Reader.open(home) as reader:
        assert disturbed(reader, [one, other]) == {one, other}
    change_limits(home, {}, by="Ada", disturbed_above_percent=20)
    assert "disturbed 31 %" in all_words(opened("run", {"run": str(one)}))
    assert not re.search(r"disturbed \d", all_words(opened("run", {"run": str(other)})))
    page = all_words(view(sweep_id, "Results"))
    assert f"Run {one} was disturbed: other programs or the host took more than 20 % of its CPU" in page
    with Reader.open(home) as reader:
        assert disturbed(reader, [one, other]) == {one}
        assert [run_routes.in_full(reader, each).disturbed for each in (one, other)] == [True, False]
    with Store.open(home) as store:
        assert list(store.sweeps.remeasure(sweep_id, by="Ada")) == [one]


def test_means_leave_a_disturbed_time_out_and_draw_it_as_a_cross_but_never_an_accuracy(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]}, 2)
    one, _ = at_2(home, sweep_id)
    disturb(home, one, 31.4, slower=5.0)
    with Reader.open(home) as reader:
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        (stray,) = disturbed_of(sweep, runs, EXECUTION)
        assert (stray.x, stray.run_id, stray.share) == (2, one, 0.314)
        assert disturbed_of(sweep, runs, "test/accuracy") == []
        calm = [run for run in runs if run.id != one]
        figure, colours = chart(groups_of(sweep, calm, EXECUTION), EXECUTION, sweep, "Trainers", None, [stray])
    cross = figure.data[-1]
    assert (cross.marker.symbol, list(cross.x), list(cross.y)) == ("x-thin-open", [2], [stray.y])
    assert list(cross.customdata[0]) == [one, "31 %"] and len(colours) == len(figure.data)
    rows = all_words(view(sweep_id, "Results"))
    assert "1 of 2" in rows, "the mean of 2 trainers is over one run"
    whole = all_words(view(sweep_id, "Results", disturbed="true"))
    assert "1 of 2" not in whole and "was disturbed" not in whole


def test_no_setting_is_named_the_fastest_by_disturbed_runs_unless_they_are_included(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 2)
    assert "Fastest" in (shown := all_words(view(sweep_id, "Results"))) and "irst at a best test accuracy of" in shown
    for run_id in at_2(home, sweep_id):
        disturb(home, run_id, 31.4, slower=5.0)
    said = "Speed can't be compared: the runs did unequal total work. Other programs also disturbed them, so that"
    for name in ("Results", "Scaling", "Time breakdown"):
        left = all_words(view(sweep_id, name))
        assert "**With disturbed runs: No clear speed-up" in left and said not in left and "Fastest" not in left
        assert said not in (whole := all_words(view(sweep_id, name, disturbed="true")))
        assert "took up to 31 % of the CPU time of 2 of 4 runs: their times," in whole
        assert name == "Results" or all_words(opened("scaling", {"runs": "1-4", "view": name})).count(said) == 1
    assert "2 runs (" in left and "Means and fits leave them out" in left, "the time breakdown names them"
    assert said not in all_words(view(sweep_id, "Staleness"))
    compared = all_words(opened("compare", {"runs": "1-4", "group": "trainers"}))
    assert compared.count(said) == 1 and "Fastest" not in compared and "Measure again:" not in compared
    whole = all_words(view(sweep_id, "Results", disturbed="true"))
    assert "Fastest" in whole and "can't be compared" not in whole and ", disturbed runs included." in whole


@pytest.mark.parametrize("name", ["Scaling", "Time breakdown"])
def test_a_view_without_undisturbed_runs_has_the_button_that_brings_its_chart(home: Home, name: str) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 1)
    link = f'/sweep?sweep={sweep_id}&view=Scaling{{}}">Chart of the work per second by count'
    assert link.format("") in html(view(sweep_id, "Results")).replace("&amp;", "&")
    for run_id in (1, 2):
        disturb(home, run_id, 31.4)
    assert link.format("&disturbed=true") in html(view(sweep_id, "Results")).replace("&amp;", "&")
    for page in (view(sweep_id, name), opened("scaling", {"runs": "1-2", "view": name})):
        assert not page.get("component_instance") and "2 runs (1, 2) were disturbed" in all_words(page)
        page.button(key="offer-disturbed").click().run()
        assert page.query_params["disturbed"] == "true" and page.toggle(key="disturbed").value
        assert "<td>2</td>" in html(page) and "were disturbed" not in all_words(page)
        assert not [button for button in page.button if button.key == "offer-disturbed"]
    stale = view(sweep_id, "Staleness", disturbed="true")
    assert stale.query_params["disturbed"] == "true", "the other views still include them"


def test_disturbed_runs_lead_to_where_they_are_measured_again(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [2], "lock": [True, False]}, 1)
    one, other = at_2(home, sweep_id)
    for run_id in (one, other):
        disturb(home, run_id, 31.4, slower=5.0)
    said = "Speed can't be compared: other programs disturbed the runs."
    again = f'Measure again: <a href="/sweep?sweep={sweep_id}">sweep {sweep_id}</a>.'
    for page in ("compare", "scaling"):
        assert f"{said} {again}" in all_words(opened(page, {"runs": f"{one}-{other}"})), page
    assert f"{said} Press Measure again above, or include disturbed runs." in all_words(view(sweep_id, "Results"))

    def buttons() -> list[tuple[str, str]]:
        links = [each.proto for each in opened("run", {"run": str(one)}).get("page_link")]
        return [(each.label, each.query_string) for each in links if each.label.startswith("Measure")]

    assert buttons() == [(f"Measure sweep {sweep_id} again", f"sweep={sweep_id}")]
    whole = opened("compare", {"runs": f"{one}-{other}", "disturbed": "1", "v": "3"})
    assert "took up to 31 % of the CPU time of 2 of 2 runs: their times," in all_words(whole)
    assert said not in all_words(whole) and "about as long" in all_words(whole)
    assert whole.toggle(key="compare.at.disturbed").value
    assert not whole.toggle(key="compare.at.disturbed").set_value(False).run().query_params.get("disturbed")
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE runs SET sweep_id = NULL")
    alone = all_words(opened("compare", {"runs": f"{one}-{other}"}))
    assert 'Measure again: <a href="/launch?experiment=hogwild&' in alone and f"clone={one}" in alone
    ((label, query),) = buttons()
    assert label == "Measure again" and f"clone={one}" in query


def test_compare_has_the_permalink_of_its_view(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(st.context), "url", property(lambda _: "http://127.0.0.1:8501/compare"))
    hogwild(home, {"trainers": [1, 2]}, 1)
    page = opened("compare", {"runs": "1,2", "tab": "bars", "v": "3"})
    links = [each.value for each in page.code]
    assert "This address opens the console on this machine only." in all_words(page)
    assert [link.partition("/compare")[2] for link in links] == ["?runs=1,2&tab=bars&v=3"]


def test_every_view_says_that_sizes_whose_range_of_speed_up_includes_1_do_not_differ_clearly(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 2)
    for run_id, slower in zip(at_2(home, sweep_id), (1.0, 5.0), strict=True):
        disturb(home, run_id, 31.4, slower)
    results, scaling, breakdown = (
        all_words(view(sweep_id, name, disturbed="true")) for name in ("Results", "Scaling", "Time breakdown")
    )
    assert "No clear difference per second: on average, 1 trainer did" in results and "2 trainers" in results
    assert "No clear difference in work per second from 1 to 2 trainers: the range of the speed-up" in scaling
    assert "Mean times and speed-up rank 2 trainers differently from 1 trainer" in scaling
    assert "No break-even estimate: no clear difference from 1 to 2 trainers." in breakdown


def test_findings_from_disturbed_runs_say_so_in_each_view(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 1)
    disturb(home, *at_2(home, sweep_id), 31.4, 5.0)
    for name in ("Time breakdown", "Scaling"):
        words = all_words(view(sweep_id, name, disturbed="true"))
        assert words.count("With disturbed runs: ") == 2, "the answer and the finding"
    words = all_words(view(sweep_id, "Time breakdown"))
    assert words.count("With disturbed runs: ") == 1, "the answer, which undisturbed runs alone don't give; no finding"


def test_a_law_without_the_disturbed_runs_is_the_quiet_one_within_its_interval(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 3, 4, 6]}, 3)

    def law(*, with_disturbed: bool = False) -> Fit | str:
        with Reader.open(home) as reader:
            runs = reader.sweeps.runs(sweep_id)
            around = reader.studies.surroundings([run.id for run in runs])
        return fit(SCALABILITY, study(runs, around, "trainers", with_disturbed=with_disturbed).timings)

    quiet = law()
    for run_id in at_2(home, sweep_id)[:2]:
        disturb(home, run_id, 40.0, slower=4.0)
    without = law()
    assert isinstance(quiet, Fit) and isinstance(without, Fit)
    for before, after in zip(quiet.parameters, without.parameters, strict=True):
        assert before.low <= after.value <= before.high, before.name
    assert isinstance(law(with_disturbed=True), str), "with the disturbed runs no law fits"
    shown = all_words(view(sweep_id, "Scaling"))
    assert "2 runs (" in shown and "were disturbed" in shown


def test_measure_again_repeats_the_disturbed_cells_alone_and_their_result_takes_the_place(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]}, 2)
    one, other = at_2(home, sweep_id)
    disturb(home, one, 31.4, slower=5.0)
    test: AppTest = opened("sweep", {"sweep": str(sweep_id)})
    test.session_state["person"] = "Ada"
    test.run()
    button = test.button(key=f"remeasure-sweep-{sweep_id}")
    assert button.label == "Measure again (1)"
    button.click().run()
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
        (again,) = [run for run in runs if run.status == "queued"]
        assert (again.config, reader.sweeps.one(sweep_id).exclusive) == (
            next(run for run in runs if run.id == one).config,
            True,
        )
        assert one in {run.id for run in measured(reader.sweeps.one(sweep_id), runs)}
    end(home, again, lambda n: n)
    with Reader.open(home) as reader:
        left = measured(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id))
    assert {one, again.id, other} & {run.id for run in left} == {again.id, other}
    page = all_words(opened("sweep", {"sweep": str(sweep_id)}))
    assert "was disturbed" not in page and "attempt 2" in page


def test_every_view_of_runs_that_did_unequal_work_says_so_with_the_numbers(home: Home) -> None:
    unequal = hogwild(home, {"trainers": [1, 2, 4]}, 1)
    said = "Unequal total work: 1, 2 and 4 trainers: 0.6959, 1.392 and 2.784 passes. Every metric may differ"
    assert "After unequal work, times alone do not compare." in all_words(view(unequal, "Results"))
    for name in ("Results", "Scaling", "Time breakdown", "Staleness"):
        assert said in all_words(view(unequal, name)), name
    assert said in all_words(view(unequal, "Results", number="test/accuracy"))
    for tab in TABS:
        assert said in all_words(opened("compare", {"runs": "1-3", "tab": tab, "group": "trainers"})).replace(
            "trainers 1: 0.6959 passes; trainers 2: 1.392 passes; trainers 4: 2.784 passes",
            "1, 2 and 4 trainers: 0.6959, 1.392 and 2.784 passes",
        ), tab
    assert said in all_words(opened("scaling", {"runs": "1-3"}))
    with Reader.open(home) as reader:
        assert said in unequal_of_sweep(reader, unequal)
    assert said in catalogue_routes.sweep(unequal).unequal_work
    same = hogwild(home, {"trainers": [2], "lock": [True, False]}, 1)
    assert "nequal" not in all_words(view(same, "Results")) + all_words(opened("compare", {"runs": "4-5"}))


def test_the_table_of_runs_counts_a_disturbed_time_in_no_mean_and_no_difference(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 2)
    one, other = at_2(home, sweep_id)
    with Reader.open(home) as reader:
        calm = reader.runs.entry(other).execution_time_s
        first = next(run.id for run in reader.sweeps.runs(sweep_id) if run.config["trainers"] == 1)
    disturb(home, one, 31.4, slower=5.0)

    def cells(**query: str) -> dict[str, dict[str, Any]]:
        return {row["key"]: row for row in rows_of(opened("runs", {"columns": "duration", **query}))}

    grouped = opened("runs", {"columns": "duration", "group": "true"})
    assert "Means of times leave out disturbed runs." in all_words(grouped)
    (group,) = [
        row for row in rows_of(grouped) if "trainers 2" in row["Name"] or row["Settings that differ"] == "trainers 2"
    ]
    assert group["Execution"] == duration(calm)
    with Store.open(home) as store:
        store.annotations.pin(one, by="Ada")
    assert cells(fold="false", sort="created")[f"run-{first}"].get("Δ") is None
    assert "A baseline was disturbed: no differences of times." in all_words(opened("runs", {"columns": "duration"}))


def test_compare_leaves_a_disturbed_time_out_of_the_values_of_its_group(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, 2)
    one, _ = at_2(home, sweep_id)
    disturb(home, one, 31.4, slower=5.0)
    query = {"runs": "1-4", "group": "trainers", "tab": "bars", "v": "2"}
    assert f"Run {one} was disturbed" in all_words(opened("compare", query | {"number": "perf/execution_time_s.last"}))
    assert "was disturbed" not in all_words(opened("compare", query | {"number": "test/accuracy.last"}))
    whole = all_words(opened("compare", query | {"number": "perf/execution_time_s.last", "disturbed": "1"}))
    assert "leave it out" not in whole and "took up to 31 % of the CPU time of 1 of 4 runs" in whole


def test_an_oversubscribed_size_and_a_disturbed_run_have_two_symbols_named_in_the_legend(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 6]}, 2)
    disturb(home, at_2(home, sweep_id)[0], 31.4)
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
        found = study(runs, reader.studies.surroundings([run.id for run in runs]), "trainers")
    lines, apart = {"": sizes(found.timings)}, {"": list(found.disturbed)}
    figure, colours = picture("Speed-up", lines, {}, "Trainers", found.unit, None, apart)
    symbols = {trace.name: trace.marker.symbol for trace in figure.data}
    assert symbols["measured"] == ("circle", "circle", "circle-open")
    assert (symbols["oversubscribed"], symbols["disturbed, left out"]) == ("circle-open", "x-thin-open")
    assert len(colours) == len(figure.data)


def test_disturbed_runs_still_answer_which_learning_rate_reached_the_best_accuracy(home: Home) -> None:
    sweep_id = hogwild(home, {"learning_rate": [0.01, 0.1, 0.3]}, 2)
    with Reader.open(home) as reader:
        runs = [run.id for run in reader.sweeps.runs(sweep_id)]
    for run_id in runs:
        disturb(home, run_id, 31.4)
    test = view(sweep_id, "Results")
    said = all_words(test)
    assert "last test accuracy" in said
    assert "Speed" not in said and "Measure again" not in said and "Include disturbed" not in said
    assert not [button.label for button in test.button if button.label.startswith("Measure again")]
    assert view(sweep_id, "Results", number=EXECUTION).button(key="offer-disturbed")


def test_a_sweep_about_learning_says_what_is_best_so_far_while_runs_are_missing(home: Home) -> None:
    grid = {"learning_rate": [0.01, 0.1, 0.3]}
    sweep_id = launch_sweep(home, SweepLaunch(Launch("hogwild", {"trainers": 1}, "Ada"), grid, seeds=2))
    with Reader.open(home) as reader:
        runs = sorted(reader.sweeps.runs(sweep_id), key=lambda run: run.config["learning_rate"])
    assert "So far" not in all_words(view(sweep_id, "Results"))
    for run in runs[:3]:
        end(home, run, lambda count: 1.0)
    with Store.open(home) as store:
        store.worker.write(runs[2].id, [RankBatch(0, [Point(ACCURACY, 99, 97.5, 99.0)])])
    said = all_words(view(sweep_id, "Results"))
    best = "learning rate 0.1 (97.50 %, 1 run), learning rate 0.01 (95.00 %, 2 runs)."
    assert f"So far best by test accuracy: {best}" in said
    assert "Fastest" not in said


def test_a_sweep_whose_times_are_all_disturbed_answers_from_them_and_says_so(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2]}, seeds=1)
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
    assert "Last test accuracy" not in all_words(view(sweep_id, "Results"))
    for run, percent in zip(runs, (42.0, 87.0), strict=True):
        disturb(home, run.id, percent)
    test = view(sweep_id, "Results")
    reached = "The last test accuracy is the same for all: 95.00 %."
    for shown in (test, view(sweep_id, "Results", disturbed="true")):
        said = all_words(shown)
        assert "**With disturbed runs: 2 trainers do 1.8 times the work per second of 1 trainer" in said
        assert "Other programs took 42 to 87 % of the CPU time of 2 of 2 runs: repeat them on an idle machine." in said
        assert f"One run each: their spread is unknown. {reached}" in said
        assert "can't be compared" not in said, "the page contradicts nothing that it says"
    assert test.selectbox(key="number").value == "test/accuracy"


def test_accuracies_a_few_test_images_apart_are_drawn_on_an_axis_of_five_points(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]}, seeds=1)
    with Store.open(home) as store:
        sweep, runs = store.read.sweeps.one(sweep_id), store.read.sweeps.runs(sweep_id)

        def range_of(*values: float) -> Any:
            done = [replace(run, last={ACCURACY: each}) for run, each in zip(runs, values, strict=False)]
            return chart(groups_of(sweep, done, ACCURACY), ACCURACY, sweep, "Trainers")[0].layout.yaxis.range

        assert range_of(97.5, 97.5, 97.22) == pytest.approx((94.86, 99.86))
        assert range_of(97.5, 97.5) == pytest.approx((95.0, 100.0)), "and not from 0 while a run is missing"
        assert range_of(99.9, 100.0) == (95.0, 100.0) and range_of(97.5, 90.0) is None


def test_a_file_speaks_of_no_buttons_and_shows_percentages_as_the_page_does(home: Home) -> None:
    sweep_id = hogwild(home, {"lock": [True, False]}, seeds=1)
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
    for run in runs:
        disturb(home, run.id, 31.0)
    with page_capture.keeping() as shown, Reader.open(home) as reader:
        _show_disturbed({str(run.id): [run] for run in runs}, reader, sweep_id)
    assert [part.text for part in shown.parts() if isinstance(part, Paragraph)] == [DISTURBED]
    assert [_cell(97.8704, is_percent=each).shown for each in (True, False)] == ["97.87", "97.8704"]
