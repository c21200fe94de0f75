"""Scaling and where time went, on a sweep's page and over runs chosen by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.charts.sweep_charts import error_bars
from app.links.addresses import read_run_ids
from app.links.compare import ids_text
from app.scaling.breakdown import intervals, named, stacked
from app.scaling.staleness_charts import MOST_ROWS, against_expected, result_along, spread
from app.scaling.view import MEASURES, picture, with_interval
from engine.analysis.scaling.findings import of_sweep
from engine.analysis.scaling.laws import SCALABILITY
from engine.analysis.scaling.scaling_data import TimedRun, bars
from engine.analysis.scaling.speedup import sizes
from engine.analysis.scaling.staleness import Price, Stale, price
from engine.analysis.scaling.staleness import sizes as stale_sizes
from engine.analysis.statistics.intervals import LIMIT, Interval, mean_interval
from engine.errors import ConfigError
from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment
from engine.script.command import read_command
from engine.store import Launch, RankBatch, RankRow, Reader, Store, SweepLaunch
from engine.store.records import RunRow
from engine.store.timestamps import now
from engine.sweep.launch import launch_sweep
from tests.app.reading import all_words, html, opened
from tests.labs import sweeps
from tests.stand_in import worker

HERE = {"host": "lab", "cpu": "Xeon", "cores": 4, "gpus": []}


def hogwild(
    home: Home,
    grid: dict[str, list[Any]],
    seeds: int = 3,
    speed_up: Callable[[int], float] = lambda n: SCALABILITY.speed_up(n, 0.05, 0.03),
    fails: Callable[[RunRow], str] = lambda run: "",
) -> int:
    """Queue and end a sweep of Hogwild! whose samples a second follow a law, one seed a little faster than
    the other; runs for which `fails` gives a cause fail.
    """
    settings = {**experiment("hogwild").preset("quick").settings}
    sweep_id = launch_sweep(
        home,
        SweepLaunch(
            Launch("hogwild", {name: value for name, value in settings.items() if name not in grid}, "Ada"), grid, seeds
        ),
    )
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
    for run in runs:
        end(home, run, speed_up, fails(run))
    return sweep_id


def end(home: Home, run: RunRow, speed_up: Callable[[int], float], failure: str = "") -> None:
    trainers = int(run.config["trainers"])
    work = trainers * 1000
    time_s = work / (100 * speed_up(trainers) * (1 + run.config["seed"] / 200))
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        store.worker.begin(run.id, worker(), HERE | {"cores": 4})
        store.worker.add_ranks(
            run.id,
            [RankRow(rank, f"trainer{rank + 1}", None, "cpu", "running", 9, now(), None) for rank in range(trainers)],
        )
        store.worker.mark_running(run.id, 1.0)
        phases = {"compute": 10.0, "communicate": time_s - 10.0}
        points = [
            Point("test/accuracy", 10 * place, 80.0 + 5 * place, place * time_s / 4, float(place))
            for place in range(1, 4)
        ]
        store.worker.write(
            run.id,
            [RankBatch(rank, points if rank == 0 else [], phases) for rank in range(trainers)],
            progress=(work, work, "samples"),
        )
        store.claims.end(
            run.id, "failed" if failure else "finished", failure or "It finished.", execution_time_s=time_s
        )


def view(sweep_id: int, name: str, **query: str) -> AppTest:
    test = opened("sweep", {"sweep": str(sweep_id), "view": name, **query})
    assert not test.exception
    return test


def test_a_sweep_of_a_command_scales_along_its_processes(home: Home) -> None:
    command = read_command("torchrun --nproc-per-node 1 train.py --lr 0.1")
    sweep_id = launch_sweep(
        home, SweepLaunch(Launch("train.py", {}, "Ada", command=command), {"processes": [1, 2, 4]}, 3)
    )
    with Store.open(home) as store:
        for run in store.read.sweeps.runs(sweep_id):
            count = run.config["processes"]
            store.claims.claim(run.id, worker(), [])
            store.worker.begin(run.id, worker(), HERE)
            ranks = [RankRow(rank, f"rank {rank}", None, "cpu", "running", 9, now(), None) for rank in range(count)]
            store.worker.add_ranks(run.id, ranks)
            store.worker.mark_running(run.id, 0.1)
            store.claims.end(run.id, "finished", "Done.", execution_time_s=12.0 / count + run.config["seed"] / 100)
    shown = all_words(view(sweep_id, "Scaling"))
    assert "No slow-down up to 4 processes: 4 times as fast as 1 process." in shown


def test_without_selected_runs_the_latest_sweeps_lead_to_their_scaling(home: Home) -> None:
    hogwild(home, {"trainers": [1, 2]}, seeds=2)
    for _ in range(9):
        sweeps.pipeline(home, {"mode": ["gpipe", "1f1b"]}, title="by <b>mode</b>")
    test = opened("scaling")
    shown = html(test)
    assert shown.count("/sweep?sweep=") == 10
    assert '<a href="/sweep?sweep=1&amp;view=Scaling">1: Hogwild! over trainers</a>' in shown
    assert '<a href="/sweep?sweep=10">10: by &lt;b&gt;mode&lt;/b&gt;</a>' in shown
    assert "trainers: 1, 2" in shown and "4 of 4" in shown and "mode: gpipe, 1f1b" in shown and "0 of 2" in shown
    sweeps.pipeline(home, {"splits": [1, 2]})
    test = opened("scaling")
    assert "/sweep?sweep=1&" not in html(test)
    assert "All 11 sweeps" in [element.proto.label for element in test.get("page_link")]


def test_a_sweep_says_beyond_how_many_it_slows_down(home: Home) -> None:
    shown = all_words(view(hogwild(home, {"trainers": [1, 2, 3, 4, 6, 8]}), "Scaling"))
    assert "Fastest at 6 trainers (2.8 times as fast as 1 trainer); slower beyond." in shown
    for law in ("Amdahl", "Gustafson", "Universal Scalability Law"):
        assert f"<td>{law}</td>" in shown
    assert "oversubscribed: 6 threads on 4 cores" in shown and "oversubscribed: 4 threads" not in shown
    assert "Oversubscribed (trainers 6 (6 threads on 4 cores), 8 (8 threads on 4 cores))" in shown
    assert "Speed-up compares samples per second, seed by seed." in shown


@pytest.mark.parametrize(
    ("trainers", "words_of_it"),
    [
        ([1, 2], "A fit needs at least 3 sizes of trainers; got 2."),
        ([2, 3, 4], "No reference point"),
    ],
)
def test_a_law_is_refused_with_the_reason(home: Home, trainers: list[int], words_of_it: str) -> None:
    shown = all_words(view(hogwild(home, {"trainers": trainers}), "Scaling"))
    assert words_of_it in shown
    assert "<td>Amdahl</td>" not in shown
    assert "Scaling by size" in shown, "what was measured is there all the same"
    assert ("2 trainers do 1.8 times the work per second of 1 trainer." in shown) == (1 in trainers)


def test_a_law_says_what_it_fits_and_unlike_machines_and_one_seed_are_said(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]})
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE runs SET environment = json_set(environment, '$.cores', 8) WHERE id = 2")
    shown = all_words(view(sweep_id, "Scaling"))
    assert "No fitted law. The runs used different machines: lab (4 cores of Xeon) and lab (8 cores of Xeon)." in shown
    assert "No break-even estimate." in all_words(view(sweep_id, "Time breakdown"))
    shown = all_words(view(hogwild(home, {"trainers": [1, 2, 4]}, seeds=1), "Scaling"))
    assert "No intervals: every point is a single run." in shown
    assert ("Universal Scalability Law: At least 4 runs are needed for this fit; got 3. Add seeds or sizes.") in shown


def test_time_to_a_target_is_told_by_steps_and_seconds_and_taken_from_the_address(home: Home) -> None:
    test = view(hogwild(home, {"trainers": [1, 2]}), "Scaling")
    assert test.number_input(key="target-test/accuracy").value == 95.0
    test.number_input(key="target-test/accuracy").set_value(90.0).run()
    assert "<td>3 of 3</td>" in all_words(test) and "<td>20 (all 3 equal)</td>" in all_words(test)
    assert "updates are unknown for these runs" in all_words(test)
    test.number_input(key="target-test/accuracy").set_value(99.0).run()
    assert "<td>0 of 3</td>" in all_words(test)
    assert "No run reached this target." in all_words(test)
    hogwild(home, {"trainers": [1, 2]})
    test = opened("scaling", {"runs": "1-6", "target-test/accuracy": "90"})
    assert test.number_input(key="target-test/accuracy").value == 90.0
    assert "<td>3 of 3</td>" in all_words(test)


def test_time_to_a_target_is_split_into_the_updates_of_all_ranks_and_their_seconds(home: Home) -> None:
    sweep_id = hogwild(
        home, {"trainers": [1, 2]}, speed_up=float
    )  # twice the work in the same time; the target is reached in half of it
    with Reader.open(home) as reader, Store.open(home) as store:
        for run in reader.sweeps.runs(sweep_id):
            end_s = run.execution_time_s or 0.0
            for rank in range(run.config["trainers"]):
                store.worker.write(
                    run.id,
                    [RankBatch(rank, [Point("train/loss", step, 1.0, step * end_s / 40) for step in range(1, 41)])],
                )
    test = view(sweep_id, "Scaling")
    test.number_input(key="target-test/accuracy").set_value(90.0).run()
    shown = all_words(test)
    assert (
        "<td>1</td><td>3 of 3</td><td>20 (all 3 equal)</td>" in shown
        and "<td>2</td><td>3 of 3</td><td>40 (all 3 equal)</td>" in shown
    )
    assert (
        "No clear difference in the time to target between 1 and 2 trainers (1 times): 2 times the updates, 0.5 times "
        "the time per update."
    ) in shown
    assert "**Updates needed**" in shown and "Seconds per update" in shown


def test_where_time_went_tells_shares_and_break_even(home: Home, reader: Reader) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4, 8]})
    shown = all_words(view(sweep_id, "Time breakdown"))
    assert "Break-even near" in shown
    assert "<td>trainer</td>" in shown
    sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
    found = of_sweep(sweep, runs, reader)
    assert not isinstance(found, str)
    each = bars(found.timings, reader.studies.phases_of([run.id for run in runs]), each_rank=True)
    figure, colours = stacked(found, each)
    assert len(figure.data) == len(colours) == 2
    assert list(figure.data[0].x[0]) == ["1", "2", "2", *["4"] * 4, *["8"] * 8]
    assert list(figure.data[0].y) == [10.0] * 15


def test_lines_are_told_apart_by_the_other_field_and_the_ideal_of_splits_is_the_stages(
    home: Home, reader: Reader
) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"mode": ["gpipe", "1f1b"], "splits": [1, 2, 4]}, 2)
    for run in runs:
        sweeps.drive(home, run)
    found = of_sweep(reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id), reader)
    assert not isinstance(found, str)
    assert (found.field, found.line_keys()) == ("splits", [("gpipe",), ("1f1b",)])
    lines = {line[0]: sizes(found.of(line), 2) for line in found.line_keys()}
    for measure in MEASURES:
        figure, colours = picture(measure, lines, {}, "Splits", found.unit, 2.0)
        assert len(figure.data) == len(colours)
        ideal = [list(trace.y) for trace in figure.data if trace.name == "ideal"]
        assert ideal == {"Speed-up": [[1.0, 2.0, 2.0]], "Efficiency": [[1.0, 1.0, 1.0]]}.get(measure, [])
    assert "gpipe" in all_words(view(sweep_id, "Scaling"))


@pytest.mark.parametrize(("counts", "kind"), [([1, 2, 4, 8], "linear"), ([1, 4, 16, 64], "log")])
def test_the_ideal_speed_up_is_a_straight_line_on_its_axes(counts: list[int], kind: str) -> None:
    points = sizes([TimedRun(at, (), count, 0, 10.0 / count, 1_000.0, "") for at, count in enumerate(counts)], None)
    figure, _ = picture("Speed-up", {"": points}, {}, "Trainers", "samples", None)
    ideal = next(trace for trace in figure.data if trace.name == "ideal")
    assert (list(ideal.x), list(ideal.y)) == ([counts[0], counts[-1]], [1.0, counts[-1]])
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == (kind, kind)
    assert list(figure.layout.xaxis.tickvals) == counts


def test_a_sweep_over_no_count_or_without_finished_runs_says_so(home: Home) -> None:
    sweep_id = hogwild(home, {"trainers": [1], "learning_rate": [0.01, 0.02]}, seeds=1)
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("""UPDATE sweeps SET grid = '{"learning_rate": [0.01, 0.02], "seed": [0]}'""")
    for name in ("Scaling", "Time breakdown"):
        assert "a number of ranks or splits; this one varies learning rate." in all_words(view(sweep_id, name))
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]})
    assert "Points appear as runs finish." in all_words(view(sweep_id, "Scaling"))
    assert "No bars: no run has finished." in all_words(view(sweep_id, "Time breakdown"))


# ---- by hand -------------------------------------------------------------------------------------------------------


def chosen(runs: str, **query: str) -> AppTest:
    test = opened("scaling", {"runs": runs, **query})
    assert not test.exception
    return test


def test_runs_of_several_sweeps_are_laid_along_the_count_they_differ_in(home: Home) -> None:
    hogwild(home, {"trainers": [1, 2]})
    hogwild(home, {"trainers": [4]})
    shown = all_words(chosen("1..9"))
    assert "Still speeding up at 4 trainers" in shown or "Fastest at" in shown or "No slow-down up to 4" in shown
    assert [shown.count(f"<td>{count}</td><td>3</td>") for count in (1, 2, 4)] == [1, 1, 1], "three sizes of three runs"
    assert "Every added rank pays off, up to 4 trainers: the step from 2 to 4 saved 2.5 s" in all_words(
        chosen("1..9", view="Time breakdown")
    )


def test_mixed_experiments_are_not_fitted(home: Home) -> None:
    hogwild(home, {"trainers": [1, 2, 4]}, seeds=1)
    _, runs = sweeps.pipeline(home, {"splits": [1]})
    sweeps.drive(home, runs[0])
    assert (
        "No fitted law. The runs belong to 2 experiments (Hogwild!, Pipeline parallelism). Select runs of one"
        in all_words(chosen("1..4", lines=""))
    )


def test_runs_that_differ_in_no_count_say_so(home: Home) -> None:
    hogwild(home, {"trainers": [2]}, seeds=2)
    assert "Scaling needs runs that differ in a number of ranks or splits" in all_words(chosen("1, 2"))


def test_runs_that_are_gone_or_unfinished_are_named(home: Home) -> None:
    hogwild(home, {"trainers": [1, 2]}, seeds=1)
    sweeps.pipeline(home, {"splits": [1]})
    shown = all_words(chosen("1..3, 99"))
    assert "Runs not found (possibly deleted): 99." in shown
    assert "1 of these runs have not finished" in shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("a", "got 'a'"), ("9..3", "such as 3-9"), ("1..9999", "At most 500 runs"), ("<img src=x>", "got '<img src=x>'")],
)
def test_what_is_no_number_of_a_run_is_a_sentence(home: Home, text: str, sentence: str) -> None:
    assert sentence in all_words(chosen(text))


def test_intervals_are_told_by_their_ends_in_words_bars_and_files() -> None:
    assert with_interval(mean_interval([0.0434, 0.0434, 0.0434 + 1e-17])) == "0.0434 (all 3 equal)"
    assert with_interval(Interval(0.0434, 0.0434 - 2.1e-17, 0.0434 + 2.1e-17, 3)) == "0.0434 (0.0434 – 0.0434)"
    assert with_interval(mean_interval([2.0, 2.2, 2.1])) == "2.1 (1.852 – 2.348)"
    assert (with_interval(mean_interval([2.0])), with_interval(None)) == ("2", "–")
    assert with_interval(mean_interval([2.0, 2.2])) == "2.1 (2 – 2.2)"
    cut = mean_interval([0.1, 1.0, 4.0]).within(0.0)
    bars = error_bars([cut, mean_interval([2.0, 2.2, 2.1]), mean_interval([5.0])])
    assert bars["array"] == pytest.approx([5.0728, 0.2484, 0.0], rel=1e-3)
    assert bars["arrayminus"] == pytest.approx([1.7, 0.2484, 0.0], rel=1e-3)
    wanted = {"time_s": pytest.approx(1.7), "time_s low": 0.0, "time_s high": cut.high, "time_s interval": "student"}
    assert dict(zip(named("time_s"), intervals(cut), strict=True)) == wanted
    assert list(intervals(mean_interval([5.0]), None)) == [5.0, 5.0, 5.0, "range", None, None, None, None]
    assert read_run_ids("3, 5-7, 3", 10) == read_run_ids("3, 5..7, 3", 10) == [3, 5, 6, 7]
    with pytest.raises(ConfigError):
        read_run_ids("1..11", 10)


def asynchronous(home: Home, trainers: list[int], seeds: int = 3, name: str = "async_sgd", **grid: list[object]) -> int:
    """Queue and end a sweep whose accuracy falls by 0.5 points per update of staleness, seeds a tenth of a point apart;
    return its id.
    """
    settings = {
        key: value for key, value in experiment(name).preset("quick").settings.items() if key not in {"trainers", *grid}
    }
    sweep_id = launch_sweep(home, SweepLaunch(Launch(name, settings, "Ada"), {"trainers": trainers, **grid}, seeds))
    with Reader.open(home) as reader:
        runs = reader.sweeps.runs(sweep_id)
    for run in runs:
        _end(home, run)
    return sweep_id


def _end(home: Home, run: RunRow) -> None:
    trainers, seed = int(run.config["trainers"]), int(run.config["seed"])
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        store.worker.begin(run.id, worker(), {"host": "lab"})
        store.worker.add_ranks(
            run.id,
            [
                RankRow(rank, f"trainer{rank}" if rank else "ps", None, "cpu", "running", 9, now(), None)
                for rank in range(trainers + 1)
            ],
        )
        store.worker.mark_running(run.id, 1.0)
        tests = RankBatch(0, [Point("test/accuracy", 100, 98.0 - 0.5 * (trainers - 1) + seed / 10, 9.0, 1.0)])
        pushes = {("staleness", trainers - 1): 60, ("staleness", trainers): 20, ("staleness", max(0, trainers - 2)): 20}
        store.worker.write(run.id, [tests, *(RankBatch(rank, histograms=pushes) for rank in range(1, trainers + 1))])
        store.claims.end(run.id, "finished", "It finished.", execution_time_s=10.0)


def test_the_answer_on_staleness_links_to_its_chart_and_says_nothing_of_speed(home: Home) -> None:
    sweep_id = asynchronous(home, [1, 2], rule=["plain", "staleness_scaled"])
    page = opened("sweep", {"sweep": str(sweep_id)})
    shown = all_words(page)
    assert "Does staleness hurt?" in shown and "Speed can't be compared" not in shown and "Fastest" not in shown
    assert f"/sweep?sweep={sweep_id}&view=Staleness" in html(page).replace("&amp;", "&")


def test_only_what_can_record_staleness_has_its_tab(home: Home) -> None:
    settings = experiment("batched_reinforce").preset("quick").settings
    sweep_id = launch_sweep(home, SweepLaunch(Launch("batched_reinforce", settings, "Ada"), {"observers": [1, 2]}))
    for one, there in ((sweep_id, False), (asynchronous(home, [1, 2]), True)):
        with Reader.open(home) as reader:
            ids = ids_text([run.id for run in reader.sweeps.runs(one)])
        for page, query in (("sweep", {"sweep": str(one)}), ("scaling", {"runs": ids})):
            (views,) = (each for each in opened(page, query).segmented_control if each.label == "View")
            assert ("Staleness" in views.options) == there


def test_a_sweep_tells_means_beside_n_less_1_and_the_price(home: Home) -> None:
    shown = all_words(opened("sweep", {"sweep": str(asynchronous(home, [1, 2, 4])), "view": "Staleness"}))
    assert "With 4 trainers, mean staleness is 3.00 updates (at most N - 1 = 3)." in shown
    assert (
        "Test accuracy is 0.5" in shown
        and "points lower per update of staleness (95 % interval 0.4" in shown
        and "9 runs, compared seed by seed)" in shown
        and shown.count(LIMIT) == 1
        and "An association: the runs also differ in the number of trainers (1 to 4)" in shown
    )
    assert "<td>4</td><td>3</td><td>3</td><td>3 (all 3 equal)</td><td>4</td><td>4</td>" in shown
    assert "trainer1 3, trainer2 3, trainer3 3, trainer4 3" in shown
    assert ", which may explain the association" not in shown


def test_chosen_runs_and_another_result_stand_in_the_address(home: Home) -> None:
    asynchronous(home, [2], seeds=1)
    asynchronous(home, [4], seeds=2)
    shown = all_words(opened("scaling", {"runs": "1-3", "view": "Staleness", "result": "test/accuracy"}))
    assert "Test accuracy by staleness" in shown and "Staleness of each run" in shown
    assert "With 2 trainers, mean staleness is 1.00 updates (at most N - 1 = 1)." in shown


def test_lines_are_told_apart_and_one_size_is_laid_along_together(home: Home) -> None:
    both = all_words(
        opened("sweep", {"sweep": str(asynchronous(home, [2, 4], momentum=[0.0, 0.5])), "view": "Staleness"})
    )
    assert "momentum 0.5: Test accuracy is" in both, both[:900]
    assert "momentum 0: With 2 trainers" in both
    bound = all_words(
        opened("sweep", {"sweep": str(asynchronous(home, [2], 1, staleness_bound=[0, 4])), "view": "Staleness"})
    )
    assert (
        "No estimate for test accuracy per update of staleness. At least 3 runs with a result are needed; got 2."
    ) in bound
    assert "all runs have the same size" not in bound


def test_one_seed_one_size_and_runs_without_staleness_say_so(home: Home) -> None:
    asynchronous(home, [2], seeds=1)
    assert "every size is one run" in all_words(opened("scaling", {"runs": "1", "view": "Staleness"}))
    assert "Nothing to compare: all runs have the same size." in all_words(
        opened("scaling", {"runs": "1", "view": "Staleness"})
    )
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM histograms")
    assert "These runs did not record staleness." in all_words(opened("scaling", {"runs": "1", "view": "Staleness"}))


def test_ages_of_policies_are_shown_by_their_bound_or_the_mode(home: Home) -> None:
    settings = dict(experiment("dppo").preset("lag").settings)
    sweep_id = launch_sweep(home, SweepLaunch(Launch("dppo", settings, "Ada"), {"max_lag": [2, None]}, seeds=1))
    queued = launch_sweep(home, SweepLaunch(Launch("dppo", {}, "Ada"), {"mode": ["bounded_queue"]}, seeds=1))
    with Reader.open(home) as reader:
        runs = [*reader.sweeps.runs(sweep_id), *reader.sweeps.runs(queued)]
    with Store.open(home) as store:
        for run, ages in zip(runs, ({1: 6, 2: 2}, {3: 2, 5: 2}, {0: 1, 7: 1}), strict=True):
            store.claims.claim(run.id, worker(), [])
            store.worker.begin(run.id, worker(), {"host": "lab"})
            store.worker.add_ranks(run.id, [RankRow(1, "learner", None, "cpu", "running", 9, now(), None)])
            store.worker.mark_running(run.id, 1.0)
            tests = RankBatch(1, [Point("test/episodic_return", 100, 480.0 + run.id, 9.0, 1.0)])
            counts = {("policy_age", age): count for age, count in ages.items()}
            store.worker.write(run.id, [tests, RankBatch(1, histograms=counts)])
            store.claims.end(run.id, "finished", "It finished.", execution_time_s=10.0)
    shown = all_words(opened("sweep", {"sweep": str(sweep_id), "view": "Staleness"}))
    assert "max lag 2</span></td><td>1</td><td>8</td><td>1.25</td><td>2</td><td>2</td><td>481" in shown, shown[-900:]
    assert "max lag none</span></td><td>1</td><td>4</td><td>4</td><td>5</td><td>5</td><td>482" in shown
    mixed = all_words(opened("scaling", {"runs": "1-3", "view": "Staleness"}))
    assert "bounded_queue</span></td><td>1</td><td>2</td><td>3.5</td><td>7</td><td>7</td><td>483" in mixed


def run(number: int, trainers: int, counts: dict[int, int], result: float) -> Stale:
    return Stale(number, (), trainers, trainers - 1.0, counts, result)


def test_charts_hold_every_run_and_their_spread_loses_no_gradient() -> None:
    runs = [run(1, 1, {0: 10}, 98.0), run(2, 4, {2: 5, 3: 5}, 97.0), run(3, 4, {3: 8, 90: 2}, 95.0)]
    figure, colours = against_expected({"": stale_sizes(runs)}, {"": runs})
    assert len(figure.data) == len(colours) == 3
    assert [list(trace.x) for trace in figure.data] == [[0.0, 3.0], [0.0, 3.0, 3.0], [0, pytest.approx(11.45)]]
    (heat,) = spread({"1 trainer": {0: 10}, "4 trainers": {2: 5, 3: 13, 90: 2}}).data
    assert (len(heat.y), heat.y[-1]) == (MOST_ROWS + 1, f"{MOST_ROWS} or more")
    assert [sum(row[column] or 0 for row in heat.z) for column in range(2)] == pytest.approx([100, 100])
    found = price(runs)
    assert isinstance(found, Price)
    drawn, places = result_along({"": runs}, {"": found}, "Test accuracy", "%")
    assert len(drawn.data) == len(places) == 2
    assert list(drawn.data[1].y) == [found.at(0.0), found.at(20.4)]
    runs = [replace(each, block=seed) for seed in (0, 1) for each in (*runs, run(4, 2, {1: 9}, 96.0))]
    found = price(runs)
    assert isinstance(found, Price)
    drawn, places = result_along({"": runs}, {"": found}, "Test accuracy", "%")
    seed_by_seed = [0.0, 1.0, 2.5, 20.4]
    assert list(drawn.data[1].x) == [*seed_by_seed, None, *seed_by_seed] and len(places) == len(drawn.data) == 3


def test_a_value_whose_runs_failed_stays_beside_the_answer_and_in_the_table(home: Home) -> None:
    cause = "trainer1's loss became nan at step 12: its weights have diverged. Lower learning_rate."
    sweep_id = hogwild(
        home, {"learning_rate": [0.1, 1.0]}, 1, fails=lambda run: cause if run.config["learning_rate"] == 1 else ""
    )
    shown = all_words(view(sweep_id, "Results"))
    answer = "Last test accuracy: 95.00 % (learning rate 0.1). Not counted: learning rate 1, 1 failed: loss became NaN."
    assert answer in shown
    assert "<td>0 of 1, 1 failed: loss became NaN</td>" in shown
    sweep_id = hogwild(
        home,
        {"learning_rate": [0.1, 0.2, 1.0]},
        2,
        fails=lambda run: "A cause." if (run.config["learning_rate"], run.config["seed"]) == (1, 1) else "",
    )
    shown = all_words(view(sweep_id, "Results"))
    assert "Not counted: learning rate 1, 1 failed: A cause." in shown
    assert "<td>1 of 2, 1 failed: A cause</td>" in shown
