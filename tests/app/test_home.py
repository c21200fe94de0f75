"""The Home page: what it shows of a lab, what is new to whom, what ticks by our route, and where old links lead."""

import math
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from app.core.caches import VersionedCache
from app.home import recent as figures
from app.home import summary
from app.home.summary import _cpu, main_curve, sparkline, standing
from app.ui.html import Slot
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.registry import experiment, experiments
from engine.store import MachineSample, RankBatch, Reader, Store
from engine.store.imports.reports import Report, ReportedEnd, ReportedRun
from engine.store.records import Status
from engine.store.timestamps import in_seconds, now
from engine.system.machine import storage
from tests.app.browsing import Client
from tests.app.reading import html, opened, said
from tests.app.runs.drawn_table import ids_of
from tests.labs import basic, compare, duel, small, sweeps
from tests.labs import figures as figure_labs
from tests.labs.people import people, sign_in
from tests.stand_in import worker
from tests.waiting import PATIENCE_S

Lab = dict[Status, int]
LONG_AGO = "2000-01-01T00:00:00.000Z"


def slots(home: Home, since: str = LONG_AGO) -> dict[Slot, str]:
    return dict(standing(home, since).slots)


def as_person(name: str) -> AppTest:
    """Open Home as somebody whose name is known."""
    test = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=PATIENCE_S)
    test.session_state["person"] = name
    return test.run()


def test_a_busy_store_keeps_nobody_from_reading_and_launching_is_one_click_away(home: Home, lab: Lab) -> None:
    test = opened("home")
    assert test.title[0].value == "Home"
    test.button(key="home.launch").click().run()
    assert not test.exception
    assert test.title[0].value == "Launch"
    test = opened("home", {"experiment": "hogwild", "preset": "quick", "set": ["trainers:3", "epochs:7"]})
    assert (
        test.title[0].value,
        test.number_input(key="form.hogwild.trainers").value,
        test.number_input(key="form.hogwild.epochs").value,
    ) == ("Launch", 3, 7)
    with Store.open(home) as store, store.db.change():
        test = as_person("Ada")
    assert not test.exception and not test.error
    assert "4 runs ended" in html(test)


def test_a_newcomer_is_told_in_two_sentences_what_to_do_and_one_click_does_it(home: Home, reader: Reader) -> None:
    small.without_a_runner(home)
    test = opened("home")
    (words,) = [text.value.replace("\\", "") for text in test.markdown if "No runs in this lab yet" in text.value]
    assert words.count(". ") == 1 and words.endswith(".")
    assert "Best results" not in said(test) and [button.label for button in test.button] == ["Run quick Hogwild!"]
    assert all(f'href="/launch?experiment={one.name}"' in html(test) for one in experiments())
    links = {each.proto.label: each.proto.query_string for each in test.get("page_link")}
    assert links["Your own script: paste its command"] == "command="
    test.session_state["person"] = "Ada"
    next(button for button in test.button if button.label == "Run quick Hogwild!").click().run()
    assert not test.exception
    assert (reader.runs.one(1).preset, reader.runs.one(1).owner) == ("quick", "Ada")


def test_a_command_of_ones_own_is_offered_only_to_those_who_may_launch_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.without_a_runner(home)
    people(home)
    for name, label in (("ada", "Your own script: paste its command"), ("mo", "")):
        sign_in(home, monkeypatch, name)
        labels = [each.proto.label for each in opened("home").get("page_link") if "script" in each.proto.label]
        assert labels == [label] * bool(label)


def test_a_lab_is_shown_with_what_is_on_what_ended_who_is_ahead_and_how_busy_the_machine_is(
    home: Home, lab: Lab, still: None, store: Store
) -> None:
    shown = html(opened("home"))
    at = (
        now()
    )  # as new as the runner's samples are, and one moment for both: the page shows those of the newest moment alone
    store.machine.add([MachineSample(at, "host", "cpu_percent", 93.0), MachineSample(at, "host", "memory_mb", 2_000.0)])
    found = slots(home)
    assert {status for status in lab if f'/run?run={lab[status]}"' in found["home-now"]} == {
        "running",
        "starting",
        "stopping",
    }
    assert {status for status in lab if f'/run?run={lab[status]}"' in found["home-news"]} == {
        "finished",
        "failed",
        "lost",
        "cancelled",
    }
    counted = re.sub(r"<a [^>]*>|</a>", "", found["home-news"])
    assert "4 runs ended" in counted and "1 finished, 1 failed, 1 cancelled, 1 lost" in counted
    (cancelled,) = re.findall(r'<a href="([^"]+)">1 cancelled</a>', found["home-news"])
    query = dict(parse_qsl(urlsplit(unescape(cancelled)).query))
    assert query["show"] == "cancelled" and re.fullmatch(r'ended > "(\d+ (d|h|min) ?)+ago"', query["filter"])
    assert ids_of(opened("runs", query)) == [f"run-{lab['cancelled']}"]
    assert "1 queued" in found["home-queue"] and "1 queued" in found["home-machine"]
    assert f'/run?run={lab["queued"]}"' in found["home-queue"] and "waits for" in found["home-queue"]
    assert "93 %" in found["home-machine"] and "2.0 of" in found["home-machine"]
    assert f'/run?run={lab["finished"]}"' in found["home-best"] and "95.5" in found["home-best"]
    for name in found:
        assert f'<div data-slot="{name}">' in shown
    assert 'href="/docs?page=first-hour"' in shown and 'href="/exercises"' in shown, "they stay after the first run"
    assert "<b>H</b>" not in shown, "a name is never markup"


def test_the_ended_runs_of_a_sweep_behind_a_count_are_one_row(home: Home, lab: Lab, store: Store) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2]})
    for run in runs:
        store.runs.cancel(run.id, by="Ada")
    (cancelled,) = re.findall(r'<a href="([^"]+)">3 cancelled</a>', slots(home)["home-news"])
    query = dict(parse_qsl(urlsplit(unescape(cancelled)).query))
    assert ids_of(opened("runs", query)) == [f"sweep-{sweep_id}", f"run-{lab['cancelled']}"]


def test_without_saved_views_home_names_the_pages_that_save_them(home: Home, lab: Lab) -> None:
    assert "Save view on the Runs or Compare page adds one." in said(opened("home"))


def test_load_beyond_the_allocated_cores_is_of_other_programs() -> None:
    assert _cpu(93.0, 0.0).startswith("93 %, by other programs<")
    assert _cpu(93.0, 0.5).startswith("93 %, at least 43 % by other programs<")
    assert "other" not in _cpu(60.0, 0.5) + _cpu(3.0, 0.0) + _cpu(None, 0.0)


def test_a_live_run_has_the_curve_of_its_main_metric_and_another_one_before_its_first_test(
    home: Home, reader: Reader, store: Store
) -> None:
    run_id = basic.add(store, "Ada")
    store.claims.claim(run_id, worker(), [])
    store.worker.begin(run_id, worker(), {})
    store.worker.mark_running(run_id, 1.0)
    assert '<div class="pl-spark"></div>' in slots(home)["home-now"], "its place is reserved"
    losses = [(0, [8.0, math.nan, 4.0, 2.0]), (1, [6.0, 4.0, 4.0, 0.0])]
    for rank, values in losses:
        points = [Point("train/loss", step, value, step + rank / 2) for step, value in enumerate(values)]
        store.worker.write(run_id, [RankBatch(rank, points)], progress=(1, 4, "samples"))
    (run,) = reader.runs.find(statuses=("running",))
    assert main_curve(reader, run) == ("train/loss", [8.0, 6.0, 4.0, 4.0, 4.0, 2.0, 0.0]), "both ranks, by time"
    assert f'alt="Training loss of run {run_id}"' in slots(home)["home-now"]
    tests = [Point("test/accuracy", step, step / 10, 3.0 + step, 2.0) for step in range(1_000)]
    store.worker.write(run_id, [RankBatch(0, tests)], progress=(2, 4, "samples"))
    (run,) = reader.runs.find(statuses=("running",))
    name, values = main_curve(reader, run)
    assert (name, len(values) <= 40, values == sorted(values)) == ("test/accuracy", True, True)
    assert "Test accuracy 99.90 %" in slots(home)["home-now"]


def test_a_sparkline_lies_within_its_picture_and_falls_where_its_values_fall() -> None:
    drawn = unquote(str(sparkline([3.0, 1.0, 2.0], "<loss>")))
    assert 'points="0,3 50,29 100,16"' in drawn and "<loss>" not in drawn
    assert 'points="0,16 100,16"' in unquote(str(sparkline([5.0, 5.0], "flat")))
    assert "img" not in sparkline([1.0], "one value")


def test_what_is_new_is_by_person_kept_over_reloads_and_gone_once_seen(home: Home, lab: Lab) -> None:
    assert "4 runs ended" in html(as_person("Ada"))
    again = as_person("Ada")
    assert "4 runs ended" in html(again), "a reload is the same visit"
    assert "Recent" in said(again) and "New since your last visit" not in said(again), "it is the first one"
    hours = (datetime.now(UTC) - timedelta(hours=2)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE looks SET looked_at = ?", [hours])
        connection.execute("UPDATE runs SET ended_at = '2001-01-01T00:00:00.000Z' WHERE id = ?", [lab["lost"]])
    test = as_person("Ada")
    assert "New since your last visit" in said(test)
    assert "3 runs ended in the last" in html(test) and "2 h" in html(test)
    test.button(key="home.seen").click().run()
    assert "No runs ended in the last" in html(test)
    assert "No runs ended in the last" in html(as_person("Ada"))
    stranger = opened("home")
    assert "Recent" in said(stranger)
    assert "3 runs ended" in html(stranger)


def test_the_runs_of_a_sweep_are_one_piece_of_news(home: Home) -> None:
    sweep_id, runs = sweeps.pipeline(home, {"splits": [1, 2], "mode": ["gpipe"]}, 2, title="<i>Splits</i>")
    for run, status in zip(runs[:3], ("finished", "finished", "failed"), strict=True):
        sweeps.drive(home, run, status)
    news = slots(home)["home-news"]
    assert "3 runs ended" in news and "2 finished" in news and "1 failed" in news and "1 remaining" in news
    assert f'<a href="/sweep?sweep={sweep_id}">Sweep {sweep_id}: &lt;i&gt;Splits&lt;/i&gt;</a>' in news
    assert "/run?run=" not in news


def test_a_burst_of_reported_runs_is_one_piece_of_news_that_leads_to_them(home: Home, store: Store) -> None:
    def report(minutes: int, owner: str = "Ada") -> int:
        name = f"run {minutes}"
        run_id = store.reports.begin(ReportedRun('my "pets"', f"{owner} {minutes}", name), by=owner)
        store.reports.report(run_id, Report(end=ReportedEnd("failed" if minutes == 9 else "finished")), by=owner)
        with store.db.change() as connection:
            connection.execute("UPDATE runs SET ended_at = ? WHERE id = ?", [in_seconds(-60 * minutes), run_id])
        return run_id

    early = [report(minutes) for minutes in (200, 199)]
    burst = [report(minutes) for minutes in (60, 30, 9, 1)]
    other = report(2, "Bea")
    news = slots(home)["home-news"]
    assert {int(run_id) for run_id in re.findall(r"/run\?run=(\d+)", news)} == {*early, other}
    (address,) = re.findall(r'<a href="([^"]+)">4 runs of my &\S+;pets&\S+;</a>', news)
    assert "3 finished" in news and "1 failed" in news and "reported" in news
    query = dict(parse_qsl(urlsplit(unescape(address)).query))
    assert {int(key.removeprefix("run-")) for key in ids_of(opened("runs", query))} == set(burst)
    assert "Imported and reported runs are not ranked here." in slots(home)["home-best"]


def test_the_best_of_each_experiment_stands_with_its_seeds_and_links(home: Home, reader: Reader) -> None:
    ids = compare.fill(home)
    runs = reader.runs.some(ids[:5])
    best = max(runs, key=lambda run: run.last["test/accuracy"])
    shown = str(slots(home)["home-best"])
    assert f'<a href="/run?run={best.id}">{best.id}, quick</a>' in shown
    assert f"{sum(run.config['trainers'] == best.config['trainers'] for run in runs)} seeds, mean " in shown
    assert f'/run?run={ids[5]}"' in shown, "the reference has a row of its own"
    with Store.open(home) as store:
        compare.add(store, **{name: best.config[name] for name in ("trainers", "seed")}, steps=4)
        compare.add(store, "reference", level=1.4)
    assert "1 seed (2 runs)" in str(slots(home)["home-best"]), "a seed that ran twice is one seed"
    link = shown.partition('href="/runs?of=hogwild')[2].partition('"')[0].replace("&amp;", "&")
    assert link == "&show=finished&sort=-test%2Faccuracy.last"
    asked = {"of": "hogwild", "show": "finished", "sort": f"-{experiment('hogwild').result.metric}.last"}
    assert ids_of(opened("runs", asked))[0] == f"run-{best.id}"


def test_a_figure_has_its_results_and_is_compared_again_only_when_a_run_has_ended(
    home: Home, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    real = figures.best_comparison
    monkeypatch.setattr(
        figures, "best_comparison", lambda reader, figure: compared.append(figure.name) or real(reader, figure)
    )
    assert (
        slots(home)["home-published"].count("not reproduced here yet: no run with these settings") == 7 and not compared
    )
    sweep_id, runs = figure_labs.figure_sweep(home, "pipeline_as_run")
    assert f"running, 0 of {len(runs)} runs ended" in slots(home)["home-published"]
    for run in runs:
        figure_labs.end(home, run, 12 / run.config["splits"] ** 0.4)
    shown = slots(home)["home-published"]
    assert ">4 not comparable</span>" in shown and f"/sweep?sweep={sweep_id}" in shown and "reduced" in shown
    before = len(compared)
    labs_run = compare.fill(home)[0]
    with Store.open(home) as store:
        store.annotations.star([labs_run, runs[0].id], by="Ada")
    assert slots(home)["home-published"] == shown
    assert len(compared) == before


def test_views_are_listed_with_ones_own_first_and_renamed_and_deleted_by_their_owner(
    home: Home, lab: Lab, reader: Reader, store: Store
) -> None:
    ids = [
        store.views.save(name, "compare", "runs=1&v=1", owner=owner)
        for name, owner in (("alpha", "Bea"), ("beta", "Ada"), ("gamma", "Ada"))
    ]
    test = as_person("Ada")
    for view_id in ids:
        test.session_state[f"view.change.{view_id}"] = True
    test.run()
    shown = html(test)
    assert shown.index("beta") < shown.index("gamma") < shown.index("alpha")
    assert '<a href="/compare?runs=1&amp;v=1">beta</a>' in shown
    assert {button.key for button in test.button if button.label == "Rename"} == {
        f"view.rename.{view_id}" for view_id in ids[1:]
    }
    test.text_input(key=f"view.name.{ids[1]}").set_value("gamma").run()
    test.button(key=f"view.rename.{ids[1]}").click().run()
    assert "You have a view of this page named 'gamma'" in said(test)
    test.text_input(key=f"view.name.{ids[1]}").set_value("delta").run()
    test.button(key=f"view.rename.{ids[1]}").click().run()
    test.session_state[f"view.change.{ids[2]}"] = True
    test.run().button(key=f"view.delete.{ids[2]}").click().run()
    assert [view.name for view in reader.views.find()] == ["alpha", "delta"]


def test_the_route_gives_what_the_page_shows_and_then_only_that_nothing_changed(
    home: Home, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "EVERY_S", 1e-9)
    found = storage(home)
    monkeypatch.setattr("app.home.summary.storage", lambda _: found)  # other programs write to the disk meanwhile
    with Store.open(home) as store:
        basic.drive(store, home, basic.add(store, "Ada"), "finished")
        waits = basic.add(store, "Ada")
    client = Client()
    first = client.get("/api/home", params={"since": LONG_AGO}).json()
    assert (first["slots"], first["token"]) == (slots(home), standing(home, LONG_AGO).token)
    assert client.get("/api/home", params={"since": LONG_AGO, "version": first["version"]}).json() == {
        "version": first["version"],
        "unchanged": True,
    }
    with Store.open(home) as store:
        basic.drive(store, home, waits, "failed")
    news = client.get("/api/home", params={"since": LONG_AGO, "version": first["version"]}).json()
    assert "2 runs ended" in news["slots"]["home-news"]
    assert "1 queued" in first["slots"]["home-queue"] and "No queued runs" in news["slots"]["home-queue"]
    assert news["token"] == first["token"], "no script runs again for it"
    with Store.open(home) as store:
        store.views.save("new", "compare", "v=1", owner="Ada")
    assert client.get("/api/home", params={"since": LONG_AGO}).json()["token"] != first["token"]


@pytest.mark.parametrize("since", ["", "yesterday", "0001-01-01T00:00:00+23:59", "9" * 50])
def test_a_since_that_is_no_time_is_refused_with_a_sentence(home: Home, since: str) -> None:
    answer = Client().get("/api/home", params={"since": since})
    assert answer.status_code == 400 and "since must be a time" in answer.json()["error"]


def test_the_route_is_answered_once_for_all_who_have_it_open(
    home: Home, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "EVERY_S", float("inf"))
    made: list[int] = []
    real = summary._lab
    monkeypatch.setattr(summary, "_lab", lambda *asked: made.append(1) or real(*asked))
    monkeypatch.setattr(summary, "_labs", VersionedCache())
    client = Client()
    for person in range(20):
        assert client.get("/api/home", params={"since": f"2000-01-01T00:00:{person:02}.000Z"}).status_code == 200
    assert len(made) == 1


def test_the_runs_of_a_duel_are_one_piece_of_news(home: Home) -> None:
    duel.whole(home, "hogwild", "sync_sgd", amount=2)
    with Reader.open(home) as reader:
        news = reader.recent_ends.since(LONG_AGO)
    assert [(each.duel_id, sum(each.statuses.values()) > 4) for each in news] == [(1, True)]
    shown = slots(home)["home-news"]
    assert 'href="/duel?duel=1">Duel 1: ' in shown and shown.count("<a ") <= 3 and "Sweep" not in shown
