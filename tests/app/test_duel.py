"""The Duel page: the form with what it takes, a launch, and what a duel in every state shows."""

import json
import re
import shlex
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from app.duel import charts, tables
from app.duel.header import duel_again
from engine.analysis.duel import Spent
from engine.analysis.statistics.intervals import LIMIT
from engine.cli import main
from engine.duel.evidence import Tried, about_runs
from engine.duel.outcome import outcome
from engine.duel.spec import read_strategy
from engine.errors import WrongStatus
from engine.home import Home
from engine.store import Reader, Store
from tests.app.reading import all_words, opened
from tests.labs import duel as labs


def page(duel_id: int) -> AppTest:
    test = opened("duel", {"duel": str(duel_id)})
    assert not test.exception
    assert not test.error
    return test


def way(test: AppTest) -> list[str]:
    """Return the parts of the breadcrumb."""
    (found,) = [str(each.proto.body) for each in test.get("html") if "pl-breadcrumb" in str(each.proto.body)]
    return re.findall(r"<li[^>]*>(?:<a [^>]*>)?([^<]+)", found)


def test_the_form_says_what_a_duel_takes_and_launches_it(home: Home) -> None:
    test = opened("duel")
    assert "Tuning runs12" in all_words(test).replace("</small><span>", "") and "No duels yet." in all_words(test)
    assert "No estimate for Hogwild!, Parameter server: no comparable run has finished" in all_words(test)
    test.session_state["person"] = "Ada"
    test.number_input(key="duel.amount.passes").set_value(9.0)
    test.text_input(key="duel.rates").set_value("0.02, 0.1")
    test.text_area(key="duel.own").set_value("Locked=hogwild: lock=true")
    test.text_input(key="duel.name").set_value("Who is first?").run()
    assert "Hogwild! at 8 (every 2); Locked at 8" in all_words(
        test
    ) and "Use 8 passes to test all at the budget's end." in all_words(test)
    too_few = "3 evaluation seeds give no verdict: 3 differences without a cause have one sign in 1 of 4 duels. Use at"
    assert "give no verdict" not in all_words(test)
    assert f"{too_few} least 5." in all_words(test.number_input(key="duel.seeds").set_value(3).run())
    test.number_input(key="duel.seeds").set_value(5).run()
    test.button(key="once.duel.launch").click().run()
    assert not test.exception
    found = labs.gathered(home, 1)
    assert (found.stored.owner, found.stored.name, found.duel.budget.amount, found.duel.rates) == (
        "Ada",
        "Who is first?",
        9.0,
        (0.02, 0.1),
    )
    assert [one.name for one in found.duel.strategies] == ["Hogwild!", "Parameter server", "Locked"]
    assert len(found.of("tuning")) == 12
    assert "Who is first?" in all_words(opened("duel"))
    again = opened("duel", {"clone": "1"})
    assert "Settings of duel 1." in all_words(again) and not again.exception and not again.error
    assert again.multiselect(key="duel.strategies").value == ["hogwild", "parameter_server"]
    assert again.number_input(key="duel.amount.passes").value == 9.0
    assert again.text_input(key="duel.rates").value == "0.02, 0.1"
    assert again.text_area(key="duel.own").value == "Locked=hogwild_locked"


def test_a_form_that_breaks_rules_says_which_and_offers_no_launch(home: Home) -> None:
    test = opened("duel")
    test.text_input(key="duel.rates").set_value("0.1, fast")
    test.run()
    assert "Learning rates must be comma-separated numbers, such as 0.01, 0.03; got '0.1, fast'." in test.error[
        0
    ].value.replace("\\", "")
    assert test.button(key="once.duel.launch").disabled
    test.text_input(key="duel.rates").set_value("0.1")
    test.multiselect(key="duel.strategies").set_value(["hogwild"]).run()
    assert "A duel needs 2 to 6 strategies; got 1." in test.error[0].value.replace("\\", "")
    test.multiselect(key="duel.strategies").set_value(["hogwild", "sync_sgd"])
    test.segmented_control(key="duel.kind").set_value("bytes").run()
    assert "Hogwild!: budget must be in passes, updates or seconds; got bytes." in test.error[0].value.replace("\\", "")


def test_a_duel_that_tunes_shows_its_runs_and_its_sweep_links_to_it(home: Home) -> None:
    duel_id = labs.launched(home)
    shown = all_words(page(duel_id))
    assert (
        "tuning, 6 runs left" in shown
        and "The verdict appears when an evaluation run of each strategy has ended." in shown
    )
    assert shown.count('class="pl-cell pl-queued"') == 6
    assert any(button.key == "duel-cancel" for button in page(duel_id).button)
    with Reader.open(home) as reader:
        run_id = reader.sweeps.runs(reader.duels.one(duel_id).parts[0].sweep_id)[0].id
    assert way(page(duel_id)) == ["Runs", "Duels", "Duel 1"]
    assert way(opened("run", {"run": str(run_id)})) == ["Runs", "Duel 1", f"Run {run_id}"]
    labs.launched(home)
    assert '<a href="/duel?duel=1">duel 1</a>' in all_words(opened("sweep", {"sweep": "2"}))


def test_a_whole_duel_says_who_won_by_how_much_and_what_was_cut(home: Home) -> None:
    labs.whole(home, "hogwild", "parameter_server", "sync_sgd", amount=8)
    shown = all_words(page(1))
    assert (
        "Hogwild! is ahead of Parameter server by 2.94 points (2.85 to 3.02) and Synchronous SGD, weights by "
        "0.372 points"
    ) in shown
    assert "Best learning rate of Hogwild! is the largest of the grid (0.1): the optimum may lie outside." in shown
    assert "Tests past 8 passes are excluded (10 runs)." in shown
    assert "All took about as long: 4 s." in shown
    assert shown.count(", selected</strong>") == 3, "the learning rate of each"
    assert "8 passes" in shown and "Reached 89 %" in shown
    assert "the whole data set per trainer, in its own order" in shown
    assert not any(button.key == "duel-cancel" for button in page(1).button)
    other = page(1)
    other.segmented_control(key="against").set_value("seconds").run()
    assert not other.exception


def test_lost_runs_halt_a_duel_until_one_click_tries_them_again_and_the_runner_goes_on(
    home: Home, reader: Reader
) -> None:
    duel_id = labs.launched(home)
    ids = [each.run.id for each in labs.gathered(home, duel_id).of("tuning") if each.run]
    labs.drive(home, duel_id, "tuning", ends={ids[0]: "lost", ids[5]: "cancelled"})
    test = page(duel_id)
    assert "blocked" in all_words(test) and "2 of 6 tuning runs have no result (cancelled, lost)" in all_words(test)
    test.session_state["person"] = "Ada"
    test.button(key="duel-retry").click().run()
    assert not test.exception
    assert reader.runs.count() == 8 and reader.queue.count() == 2
    assert "tuning, 2 runs left" in all_words(page(duel_id))
    labs.drive(home, duel_id, "tuning")
    shown = all_words(page(duel_id))
    assert "tuned, queueing evaluation runs" in shown and "No runner is running" in shown
    assert labs.continued(home, duel_id)
    assert "evaluation, 10 runs left" in all_words(page(duel_id))


def test_deleted_runs_are_told_and_a_link_to_no_duel_is_a_sentence(home: Home) -> None:
    for wanted in ("99", "<b>"):
        assert f"Duel {wanted} doesn't exist" in opened("duel", {"duel": wanted}).title[0].value.replace("\\", "")
    labs.whole(home, seeds=6)
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM runs WHERE id = (SELECT max(id) FROM runs)")
    shown = all_words(page(1))
    assert (
        "1 of 6 evaluation runs of Hogwild! have no result (lost, cancelled or deleted); their pairs are excluded."
        in shown
    )
    assert "deleted" in shown


@pytest.mark.parametrize("kind", ["passes", "updates", "seconds", "bytes"])
def test_no_curve_goes_past_its_budget(home: Home, kind: str) -> None:
    names, amount = (
        ("async_sgd", "sync_gradients"),
        {"passes": 8.0, "updates": 300.0, "seconds": 8.0, "bytes": 64e6}[kind],
    )
    reach = lambda name, rate, seed, share: 90 + min(share, 1.5) + seed % 700 / 1000  # noqa: E731
    found = labs.whole(home, *names, kind=kind, amount=amount, reaches=reach)
    picture = charts.curves(found, charts.lines(found, kind), kind)
    end = amount / 1e6 if kind == "bytes" else amount
    xs = [float(x) for trace in picture.figure["data"] for x in trace["x"] if x == x]
    assert max(xs) == pytest.approx(end) and len(picture.colours) == len(picture.figure["data"])
    told = outcome(found)
    assert all(set(each.line.count) <= {0, 5} for each in charts.lines(found, kind) if each), (
        "a mean is of all seeds or of none"
    )
    assert len(about_runs(found)) == 2 * (3 + 5) and len(tables.pairs_to_save(told).rows) == 1


def test_learning_rates_and_differences_are_drawn_as_the_rows_of_compare(home: Home) -> None:
    reach = lambda name, rate, seed, share: 90 + 10 * (rate == 0.1) + seed % 7 / 10 + (name == "hogwild")  # noqa: E731
    told = outcome(labs.whole(home, "hogwild", "parameter_server", amount=8, reaches=reach))
    figure, colours, _ = charts.tuning(told)
    means = [trace for trace in figure.data if trace.meta is None or "runs" not in trace.meta]
    rates = told.evidence.duel.rates
    chosen = [choice.rate for choice in told.tuned.choices if choice]
    assert len(means) == 2 * len(rates) and len(colours) == len(figure.data)
    assert [trace.y[0] for trace in means if trace.y[0].endswith(", selected")] == [
        f"{one.name}, {rate:g}, selected" for one, rate in zip(told.evidence.duel.strategies, chosen, strict=True)
    ]
    for trace in means:
        own = [
            each.value
            for place, one in enumerate(told.evidence.duel.strategies)
            for each in told.evidence.of("tuning", place)
            if trace.y[0].removesuffix(", selected") == f"{one.name}, {each.rate:g}"
        ]
        assert trace.x[0] == pytest.approx(np.mean(own))
    figure, _, _ = charts.pairs(told)
    (pair,) = told.found
    centre, seeds = figure.data
    assert pair.found and centre.x[0] == pytest.approx(pair.found.mean)
    assert list(centre.customdata[0]) == pytest.approx([pair.found.low, pair.found.high])
    assert dict(zip(seeds.customdata, seeds.x, strict=True)) == pytest.approx(dict(pair.by_seed))
    assert seeds.hovertemplate.startswith("seed %{customdata}") and not seeds.meta["runs"]
    assert figure.layout.xaxis.title.text == "Difference in test accuracy (points)"
    assert figure.layout.meta["units"]["x"] == "points"


def test_a_mean_of_staggered_tests_has_no_jump_and_ends_with_the_first_run(home: Home) -> None:
    found = labs.whole(home, "hogwild", "parameter_server", amount=8)

    def tested(each: Tried, seed: int, last: int = 8) -> Tried:
        late = (0, 0.03, 0.05, 0, 0)[seed]
        passes = [test + late for test in range(1, last + 1)]
        return replace(each, tests=tuple(Spent(at, 0.4 * at, 10 * seed + at) for at in passes))

    cells = [
        tested(each, seed, 4 if place and seed == 2 else 8)
        for place in (0, 1)
        for seed, each in enumerate(found.of("judging", place))
    ]
    made = replace(found, cells=tuple(cells))
    for axis, scale in (("passes", 1.0), ("seconds", 0.4)):
        drawn = charts.lines(made, axis)
        picture = charts.curves(made, drawn, axis)
        whole, cut = (trace for trace in picture.figure["data"] if "(n=" in trace.get("name", ""))
        for centre, last in ((whole, 8.0 if axis == "passes" else 7.03), (cut, 8.0 if axis == "passes" else 4.05)):
            at, y = centre["x"] / scale, centre["y"]
            there = np.isfinite(y)
            inner = there & (at <= (4 if centre is cut else 7))
            assert y[inner] == pytest.approx(20 + at[inner])
            assert (at[there].min(), at[there].max()) == pytest.approx((1.05, last))
    assert drawn[1] is not None and "the line is drawn to 1.62 s, where run" in drawn[1].extent


def test_a_duel_leaves_as_a_report_with_its_verdict_charts_numbers_and_the_line_that_launches_it_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[bytes] = []
    monkeypatch.setattr("app.export.view_report.download", lambda *_, report, **__: reports.append(report()))
    found = labs.whole(home, "hogwild", "parameter_server", amount=8)
    page(1)
    text = reports[0].decode()
    assert "Hogwild! is ahead of Parameter server by 2.94 points (2.85 to 3.02)" in text
    assert text.count("<figure") == 3 and unescape(text).count(LIMIT) == 1
    line = duel_again(found.duel, "")
    assert line in unescape(text)
    told = CliRunner().invoke(main, [*shlex.split(line)[3:], "--no-runner", "--json"])
    assert labs.gathered(home, json.loads(told.stdout)["id"]).duel == found.duel


def test_strategies_are_written_as_the_command_reads_them() -> None:
    for text in (
        "hogwild",
        "hogwild_locked",
        "hogwild:trainers=2",
        "Two trainers=hogwild:trainers=2; lock=true",
        "async_scaled",
    ):
        one = read_strategy(text)
        duel = replace(labs.duel_of("hogwild"), strategies=(one,))
        (again,) = shlex.split(duel_again(duel, ""))[5:6]
        assert (read_strategy(again).experiment, read_strategy(again).settings) == (one.experiment, one.settings), again


def test_runs_that_spent_the_budget_count_as_complete_on_the_page_of_their_sweep(home: Home, store: Store) -> None:
    duel_id = labs.launched(home, kind="seconds", amount=8.0)
    found = labs.gathered(home, duel_id)
    for each in found.of("tuning"):
        labs.end(home, found, each, status="cancelled")
    spent = "Cancelled by the budget of duel 1."
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET cause = ?, execution_time_s = NULL", [spent])
    test = opened("sweep", {"sweep": "1"})
    assert not test.exception
    assert "Retry" not in [button.label for button in test.button]
    assert "3 budget reached" in all_words(test) and "no run of this sweep finished" not in all_words(test)
    assert test.selectbox(key="number").value == "test/accuracy", "there are no execution times"
    with pytest.raises(WrongStatus, match="no cell to retry"):
        store.sweeps.retry(1, by="Ada", statuses=("failed", "cancelled"))
