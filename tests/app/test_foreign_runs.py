"""Pages on runs that another program recorded, and whose experiment is unknown here."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from app.compare import session_state
from app.compare.curve_tab import first_curves
from app.compare.groups import band_named, groups_of, usual_grouping
from app.home.summary import main_curve
from app.links.compare import ids_text
from app.run.live_series import MOST_MAIN, answer, main_metrics
from engine.analysis.result import better_values, compared
from engine.analysis.run_values import FAMILY
from engine.analysis.scaling.targets import time_text
from engine.filter import read_filter
from engine.filter.tree import metric_written
from engine.home import Home
from engine.metrics import MetricSetting
from engine.recorder import Point
from engine.script.command import read_command
from engine.store import Demand, Launch, RankRow, Reader, Store, SweepLaunch
from engine.store.imports.reports import Report, ReportedRun
from engine.store.records import RunRow
from engine.store.timestamps import in_seconds, now
from engine.sweep.launch import launch_sweep
from engine.system.processes import me
from engine.transfer.import_child import import_path
from engine.transfer.tables import runs_table
from tests.app.reading import all_words, html, opened, said
from tests.app.runs.drawn_table import rows_of, table_of
from tests.transfer.readers.test_other_programs import mlruns

AT = session_state._WIDGETS
SINGLE, CURVE, NOISE = "hparam/accuracy", "val/accuracy", "aux/grad"


def foreign(store: Store, points: Mapping[str, int], experiment: str = "pets", **config: object) -> int:
    """Add a finished run of another program with so many points of each metric; return its id."""
    run_id = store.runs.add(Launch(experiment, config, "Ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, me(), [])
    recorded = [
        Point(name, step, 0.5 + run_id / 100, float(step)) for name, count in points.items() for step in range(count)
    ]
    store.worker.write(run_id, [], run_points=recorded)
    store.claims.end(run_id, "finished", "It ended.", execution_time_s=1.0)
    return run_id


@pytest.fixture
def board(store: Store) -> list[int]:
    """Two runs as PyTorch's `add_hparams` leaves them: two curves, one of them telling, and a single value."""
    return [foreign(store, {SINGLE: 1, NOISE: 8, CURVE: 8}, lr=lr) for lr in (0.1, 0.2)]


def test_a_metric_with_one_point_comes_after_curves_on_every_page(home: Home, board: list[int]) -> None:
    test = opened("runs")
    rows = {row["key"]: row for row in rows_of(test)}
    assert rows[f"run-{board[0]}"]["Result"]["hover"] == f"{CURVE} 0.51 (last)"
    assert len(rows[f"run-{board[0]}"]["Trend"]) > 1
    page = opened("run", {"run": str(board[0])})
    assert f"<small>{CURVE}</small> <strong>0.51</strong>" in html(page), "the header has the same result"
    assert f"Result: {CURVE}" in all_words(page) and "are ranked by it" not in html(page)
    written = test.multiselect(key="columns").value
    assert f"{CURVE}.last" in written and (SINGLE + ".last" not in written or written.index(f"{CURVE}.last") == 1)
    charts = answer(home, board[0], [], 0)["metrics"]
    assert [chart["name"] for chart in charts] == [CURVE, NOISE, SINGLE]
    assert [bool(chart["section"]) for chart in charts] == [False, False, True]
    test = opened("compare", {"runs": ids_text(board), "tab": "bars"})
    assert test.selectbox(key=f"{AT}number").value == f"{CURVE}.last"
    test = opened("compare", {"runs": ids_text(board)})
    assert test.multiselect(key=f"{AT}metrics").options == [CURVE, NOISE, SINGLE]


def test_a_run_that_its_program_reports_is_live_on_all_pages_and_offers_nothing_that_parallab_cannot_do(
    home: Home, store: Store
) -> None:
    run = ReportedRun("pets", "a key", "from a laptop", {"lr": 0.1}, {"host": "laptop"})
    run_id = store.reports.begin(run, by="Ada")
    other = foreign(store, {CURVE: 3}, lr=0.2)
    for offset in range(3):
        store.reports.report(run_id, Report([[Point(CURVE, offset, offset, offset)]], offset), by="Ada")
    test = opened("run", {"run": str(run_id)})
    words = all_words(test)
    assert all(each in words for each in ("from a laptop", "running", "reports it", "Reported from", "laptop"))
    (section,) = [each for each in test.get("button_group") if each.proto.label == "Section"]
    assert not {"Ranks", "Timeline", "Log"} & {option.content for option in section.proto.options}
    assert not {"Cancel", "Clone", "Retry", "Resume"} & {button.label for button in test.button}
    during = answer(home, run_id, [], 0)
    assert during["active"] and [chart["name"] for chart in during["metrics"]] == [CURVE]
    row = {each["key"]: each for each in rows_of(opened("runs"))}[f"run-{run_id}"]
    assert (row["Status"]["states"][0]["text"], row["Status"]["note"]) == ("running", "reported by its program")
    home_page = opened("home")
    assert "from a laptop" in all_words(home_page) and "0% done" not in all_words(home_page)
    assert main_curve(store.read, store.read.runs.entry(run_id)) == (CURVE, [0, 1, 2])
    for page in (test, home_page):
        assert f"Progress of run {run_id}" not in html(page), "how much work it has is unknown"
    compared = opened("compare", {"runs": ids_text([run_id, other])})
    assert compared.multiselect(key=f"{AT}metrics").options == [CURVE]
    with store.db.change() as connection:
        begun, last = in_seconds(-100), in_seconds(-40)
        sql = "UPDATE runs SET created_at = ?1, started_at = ?1, heartbeat_at = ?2 WHERE id = ?3"
        connection.execute(sql, [begun, last, run_id])
    before = store.read.runs.one(run_id)
    store.reports.renew_silent()
    assert store.read.runs.one(run_id).version > before.version, "open pages ask again"
    assert round(before.elapsed_s or 0) == round(store.read.runs.entry(run_id).elapsed_s or 0) == 60
    assert [run.id for run in store.read.runs.find(matching=read_filter("duration < 61 and duration > 59"))] == [run_id]
    assert re.search(r"has missed reports: last report <time[^>]*>4\d s ago", html(opened("run", {"run": str(run_id)})))
    row = {each["key"]: each for each in rows_of(opened("runs"))}[f"run-{run_id}"]
    assert re.fullmatch(r"last report 4\d s ago", row["Status"]["note"])
    assert store.reports.lose_silent(30) == [run_id]
    ended = store.read.runs.one(run_id)
    row = {each["key"]: each for each in rows_of(opened("runs"))}[f"run-{run_id}"]
    assert row["Status"]["note"].startswith("program stopped reporting: ") and row["Status"]["hover"] == ended.cause
    assert (ended.ended_at, round(ended.elapsed_s or 0)) == (last, 60)
    assert f"the last report came at {last[:19].replace('T', ' ')} UTC, and none for 30 s." in ended.cause
    words = all_words(opened("run", {"run": str(run_id)}))
    assert "stopped reporting" in words and "Seeding" not in words and "Disturbance" not in words
    assert not {"Retry", "Resume"} & {button.label for button in opened("run", {"run": str(run_id)}).button}


def test_the_same_curves_are_first_during_a_script_s_run_and_after_it(home: Home, store: Store) -> None:
    run_id = store.runs.add(Launch("train.py", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, me(), [])
    names = ["aux/a", "aux/b", "perf/loss_s", "train/loss", "val/accuracy", "val/loss"]
    points = [Point(name, step, 0.5, float(step)) for name in names for step in range(3)]
    store.worker.write(run_id, [], run_points=[*points, Point("lr", 0, 0.1, 0.0)])
    during = answer(home, run_id, [], 0)["metrics"]
    store.claims.end(run_id, "finished", "It ended.", execution_time_s=1.0)
    assert answer(home, run_id, [], 0)["metrics"] == during
    expected = ["val/accuracy", "val/loss", "train/loss", "aux/a", "aux/b"]
    assert [chart["name"] for chart in during if not chart["section"]] == expected
    many = [f"aux/{number}" for number in range(9)]
    assert main_metrics(store.read.runs.one(run_id), many, (), "aux/7") == ["aux/7", *many[: MOST_MAIN - 1]]


def test_a_run_that_failed_before_any_value_has_no_controls_of_curves_and_is_not_called_disturbed(
    home: Home, store: Store
) -> None:
    run_id = store.runs.add(Launch("train.py", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, me(), [])
    store.worker.write(run_id, [], run_points=[Point("perf/disturbance", 0, 40.0, 0.1)])
    assert store.read.runs.entry(run_id).disturbed
    store.claims.end(run_id, "failed", "It failed.")
    test = opened("run", {"run": str(run_id)})
    assert "This run recorded no curves." in said(test)
    assert not [each for each in test.get("button_group") if each.proto.label == "X-axis"] and not test.slider
    assert "disturbed" not in all_words(test) and "Measure again" not in all_words(test)


def test_default_columns_have_the_result_of_each_other_program(home: Home, store: Store) -> None:
    foreign(store, {"val/accuracy": 8, "val/loss": 8})
    assert {"val/accuracy.last", "val/loss.last"} <= {*opened("runs").multiselect(key="columns").value}
    foreign(store, {"zeta/score": 8}, "birds")
    foreign(store, {"imported/test/accuracy": 8}, "fish")
    shown = {*opened("runs").multiselect(key="columns").value}
    assert {"val/accuracy.last", "zeta/score.last", "imported/test/accuracy.last"} <= shown
    assert "val/loss.last" not in shown, "only one of the programs has it, and it is no result"
    foreign(store, {"zeta/score": 8, "val/loss": 8}, "bats")
    assert "val/loss.last" in {*opened("runs").multiselect(key="columns").value}


def test_only_axes_that_the_runs_have_are_offered_and_advised(home: Home, store: Store, board: list[int]) -> None:
    other = foreign(store, {CURVE: 8}, "birds")
    test = opened("compare", {"runs": ids_text([*board, other]), "x": "step"})
    assert test.selectbox(key=f"{AT}x").options == ["Step", "Time", CURVE, NOISE, SINGLE]
    assert "The steps of birds, pets may count different work, such as batches of other sizes." in said(test)
    test = opened("compare", {"runs": ids_text([*board, other]), "x": "passes"})
    assert f"No run has {CURVE} by passes." in said(test), "an x-axis of a link stays, and says who lacks it"


def test_nothing_is_said_of_ranks_that_another_program_does_not_record(
    home: Home, store: Store, board: list[int]
) -> None:
    test = opened("run", {"run": str(board[0])})
    (sections,) = [each for each in test.get("button_group") if "Overview" in each.options]
    assert not {"Ranks", "Timeline"} & {*sections.options}
    text = f"{said(test)} {html(test)}"
    assert "ranks were ready" not in text.replace("all ranks ready", "ranks were ready")
    charts = [json.loads(each.proto.json) for each in test.get("bidi_component") if each.proto.json]
    assert [each["titles"] for each in charts if "titles" in each] == [{"step": "Step", "time": "Time since the start"}]
    test = opened("compare", {"runs": ids_text(board), "tab": "timelines"})
    assert "None of these runs has recorded operations: other programs record none." in said(test)
    store.worker.add_ranks(board[1], [RankRow(0, "rank 0", 1, "cpu", "ended", 8, now(), None, None, None)])
    test = opened("run", {"run": str(board[1]), "section": "Ranks"})
    assert "rank 0" in html(test), "a script that has ranks but no phases shows them"


def test_the_headline_of_compare_is_of_the_metric_shown_and_not_of_speed(
    home: Home, store: Store, board: list[int]
) -> None:
    other = foreign(store, {CURVE: 8, "val/zeta_loss": 8}, "birds")
    runs = ids_text([*board, other])
    for query in ({}, {"tab": "bars"}, {"tab": "bars", "number": f"{CURVE}.mean"}):
        text = said(opened("compare", {"runs": runs, **query}))
        assert re.search(rf"(Last|Mean|mean|last) {CURVE}: ", text), (query, text)
        assert "Fastest" not in text and "took about as long" not in text, query
    store.annotations.rename(other, "other", by="Ada")
    only = foreign(store, {"zeta/score": 8}, "birds")
    text = said(opened("compare", {"runs": ids_text([only, other]), "tab": "bars", "number": "zeta/score.last"}))
    assert CURVE not in text


@pytest.mark.parametrize("name", ["loss", "val_loss", "train/loss", "error_rate", "perplexity", "step time"])
def test_the_best_comes_first_where_lower_is_better_by_the_name_of_a_metric(
    store: Store, reader: Reader, name: str
) -> None:
    ids = [foreign(store, {name: 2}) for _ in range(3)]
    groups = {f"run {run.id}": [run] * 2 for run in reader.runs.some(ids)}
    said = compared(groups, metric_written(name, "last"), with_disturbed=True)
    first, second, last = groups
    assert said.startswith("Lowest last ") and f": {first}, 0.51; then {second}, 0.52; highest: {last}, 0.53" in said


def test_the_sentence_says_which_runs_it_leaves_out_and_that_lengths_differ(store: Store) -> None:
    long, short = foreign(store, {"loss": 100}), foreign(store, {"loss": 20})
    lost = store.runs.add(Launch("pets", {}, "Ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(lost, me(), [])
    store.worker.write(lost, [], run_points=[Point("loss", 0, 9.0, 0.0)])
    running = said(opened("compare", {"runs": ids_text([long, short, lost]), "metrics": "loss"}))
    assert "Last loss: 0.51" in running and f"Not counted: {lost}: pets, 1 starting." in running
    store.claims.end(lost, "lost", "It is silent.")
    shown = said(opened("compare", {"runs": ids_text([long, short, lost]), "metrics": "loss"}))
    assert f"Not counted: {lost}: pets, 1 lost." in shown
    assert f"Unequal length: to step 19 ({short}: pets) and 99 ({long}: pets)." in shown
    shown = said(opened("compare", {"runs": ids_text([long, lost]), "metrics": "loss"}))
    why = f"loss is not compared: one run is complete and has a value. Not counted: {lost}: pets, 1 lost."
    assert why in shown and "Unequal length" not in shown
    shown = said(opened("compare", {"runs": ids_text([long, lost])}))
    assert f"Last loss: 0.51 ({long}: pets). Not counted: {lost}: pets, 1 lost." in shown


def test_a_direction_that_a_person_set_or_a_metric_of_ours_has_is_not_guessed(store: Store, reader: Reader) -> None:
    (run,) = reader.runs.some([foreign(store, {"val_loss": 2, "train/policy_loss": 2, "timesteps": 2})])
    assert [better_values(name, [run]) for name in ("val_loss", "train/policy_loss", "timesteps")] == [
        "min",
        None,
        None,
    ]
    assert better_values("val_loss", [replace(run, metric_settings={"val_loss": MetricSetting(better="max")})]) == "max"


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("train/loss", "eval/accuracy", "train/lr"), "eval/accuracy"),
        (("train/epoch", "grad_norm", "acc"), "acc"),
        (("perf/tokens_per_second", "train/lr", "val/ppl"), "val/ppl"),
    ],
)
def test_the_first_curve_of_imported_runs_is_the_most_telling(
    store: Store, reader: Reader, names: tuple[str, ...], first: str
) -> None:
    assert first_curves(reader.runs.some([foreign(store, dict.fromkeys(names, 8))]))[0] == first


def test_imported_runs_whose_names_differ_in_their_seed_are_grouped_by_what_is_left(
    store: Store, reader: Reader
) -> None:
    def rows(*names: str, **configs: object) -> list[RunRow]:
        ids = [foreign(store, {CURVE: 8}, "imported", **configs) for _ in names]
        for run_id, name in zip(ids, names, strict=True):
            store.annotations.rename(run_id, name, by="Ada")
        return list(reader.runs.some(ids))

    seeded = rows("resnet_seed1", "resnet_s2", "resnet-seed-3", "vgg seed=0", "vgg_seed_1", lr=0.1)
    assert usual_grouping(seeded) == (FAMILY,)
    assert [(group.name, len(group.runs)) for group in groups_of(seeded, (FAMILY,))] == [("resnet", 3), ("vgg", 2)]
    test = opened("compare", {"runs": ids_text([run.id for run in seeded])})
    assert test.multiselect(key=f"{AT}group").value == [FAMILY] and "No field" not in said(test)
    assert usual_grouping(rows("class1", "class2", "class3")) != (FAMILY,), "a word that ends in s has no seed"
    assert usual_grouping(rows("resnet_s1", "vgg_s1", "bert_s1")) != (FAMILY,), "nothing is repeated"
    other = replace(seeded[0], config={"lr": 0.5})
    assert usual_grouping([other, *seeded[1:]]) != (FAMILY,), "a setting differs, so names don't tell all"


def test_percentages_in_a_table_of_runs_are_rounded_and_no_other_numbers(store: Store, reader: Reader) -> None:
    (run,) = reader.runs.some([foreign(store, {"val/acc": 2})])
    setting, third = {"val/acc": MetricSetting(unit="%")}, 1 / 3
    last = {"perf/disturbance": 100 * third, "val/acc": 100 * third, "loss": third}
    run = replace(run, last=last, metric_settings=setting)
    table = runs_table(reader, [run])
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert (cells["disturbance (%)"], cells["val/acc.last (%)"]) == (33.3333, 33.3333)
    assert third in cells.values()


def test_times_in_one_sentence_have_one_unit() -> None:
    assert [time_text(time_s, beside=2.0) for time_s in (0.25, 2.0)] == ["0.25 s", "2 s"]
    assert [time_text(time_s, beside=0.5) for time_s in (0.25, 0.5)] == ["250 ms", "500 ms"]


def test_a_note_is_confirmed_and_shown_and_marks_lead_to_it(home: Home, board: list[int]) -> None:
    test = opened("run", {"run": str(board[0])})
    test.session_state["person"] = "Ada"
    (there,) = [each.proto for each in test.get("page_link") if each.proto.label == "Name, tags and note"]
    assert there.query_string == f"run={board[0]}&section=Notes"
    test = opened("run", {"run": str(board[0]), "section": "Notes"})
    test.session_state["person"] = "Ada"
    test.text_area(key=f"note-{board[0]}").set_value("Lower rates\nlearn slowly.").run()
    test.button(key=f"save-{board[0]}").click().run()
    assert [toast.value for toast in test.toast] == ["Name, tags and note saved."]
    assert "Lower rates learn slowly." in html(opened("run", {"run": str(board[0])}))


def test_a_missing_parameter_is_left_out_or_a_dash(home: Home, store: Store, board: list[int]) -> None:
    foreign(store, {CURVE: 8}, batch=32)
    other = foreign(store, {CURVE: 8}, batch=64)
    rows = {row["key"]: row for row in rows_of(opened("runs"))}
    assert rows[f"run-{other}"]["Settings that differ"] == "batch 64"
    assert rows[f"run-{board[0]}"]["Settings that differ"] == "lr 0.1"
    runs = store.read.runs.some([board[0], other])
    assert [group.name for group in groups_of(runs, ["lr", "batch"])] == ["lr 0.1, batch –", "lr –, batch 64"]


def test_results_of_several_metrics_are_named_and_not_sorted(home: Home, store: Store, board: list[int]) -> None:
    foreign(store, {"zeta/score": 8}, "birds")
    (head,) = [each for each in table_of(opened("runs"))["columns"] if each["label"] == "Result"]
    assert head["sort"] is None and f"several metrics, so not to be sorted: {CURVE}, zeta/score" in head["help"]
    cells = runs_table(store.read, store.read.runs.some(board[:1]))
    assert dict(zip(cells.columns, cells.rows[0], strict=True))["result_metric"] == f"{CURVE}.last"


def test_a_name_of_several_lines_is_found_as_it_is_shown(home: Home, tmp_path: Path) -> None:
    folder = mlruns(tmp_path, experiment='"two\\nlines"')
    about = folder / "42" / "0a1b2c" / "meta.yaml"
    about.write_text(about.read_text().replace("'it''s a run'", '"first\\n  try"'))
    with Store.open(home) as store:
        (run_id,) = import_path(store, folder, by="Lin").ids
        for text in ('name == "first try"', 'experiment == "two lines"'):
            assert store.read.runs.ids_of(store.read.fields.filter(text)) == [run_id], text


def test_a_band_that_some_groups_are_too_small_for_says_so(store: Store) -> None:
    runs = store.read.runs.some([foreign(store, {CURVE: 2}, lr=lr) for lr in (0.1, 0.1, 0.1, 0.2, 0.2)])
    assert band_named("sd", groups_of(runs, ["lr"]), "mean") == "± standard deviation (min to max where n < 3)"
    assert band_named("sd", groups_of(runs[:4], ["lr"]), "mean") == "± standard deviation"


def test_the_metric_chosen_to_rank_the_runs_of_a_script_comes_first_in_compare_and_on_the_page_of_a_sweep(
    home: Home, store: Store
) -> None:
    shared = Launch("train.py", {}, "Ada", name="rates", command=read_command("python train.py --lr 0.1"))
    sweep_id = launch_sweep(home, SweepLaunch(shared, {"lr": [0.05, 0.2]}, 1))
    ids = [run.id for run in store.read.sweeps.runs(sweep_id)]
    for run_id in ids:
        store.claims.claim(run_id, me(), [])
        points = [
            Point(name, step, (step + 1) * run_id / 10, float(step))
            for name in ("perf/samples_per_second", "train/loss", "val/error")
            for step in range(3)
        ]
        store.worker.write(run_id, [], run_points=[*points, Point("perf/disturbance", 9, 90.0, 9.0)])
        store.claims.end(run_id, "finished", "It ended.", execution_time_s=1.0)
    sweep = opened("sweep", {"sweep": str(sweep_id)})
    assert sweep.selectbox[0].value == "val/error", "the curve that tells most, while none was chosen"
    store.recipes.rank_by(ids[0], "train/loss", "max", by="Ada")
    sweep = opened("sweep", {"sweep": str(sweep_id)})
    assert sweep.selectbox[0].value == "train/loss"
    assert "last value of each run" in said(sweep)
    assert "there is no table" not in said(sweep)
    assert "best 0.6" in str(rows_of(opened("runs"))[0]["cells"])
    store.recipes.rank_by(ids[0], "val/error", "min", by="Ada")
    assert [run.best["val/error"] for run in store.read.runs.some(ids)] == [0.1, 0.2], "the lowest of each"
    assert "best 0.3" in str(rows_of(opened("runs"))[0]["cells"])
    test = opened("compare", {"runs": ids_text(ids)})
    assert test.multiselect(key=f"{AT}metrics").options[0] == "val/error"
    assert "**Last val/error: 0.3 (lr 0.05), 0.6 (lr 0.2). One run each: other repeats may change the order.**" in said(
        test
    )
    assert "**Throughput**" not in said(test), "no chart of speed, unless asked for"
    assert "Also different" not in said(test)
    test = opened("compare", {"runs": ids_text(ids), "tab": "bars"})
    assert test.selectbox(key=f"{AT}number").value == "val/error.last"
    sweep = opened("sweep", {"sweep": str(sweep_id), "number": "perf/execution_time_s"})
    assert "Include disturbed runs" in [each.label for each in sweep.toggle]
