"""The JSON routes: curves, logs, names, and their errors."""

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.core import visitor
from app.core.assets import PLOTLY_URL
from app.core.caches import SharedReader
from app.run.live_series import FIRST_POINTS
from app.run.live_update import LIVE, STATIC, frame, has_picture, standing
from engine.home import Home
from engine.recorder import Point, Span
from engine.registry import experiment
from engine.store import Launch, MachineSample, RankBatch, RankRow, Reader, Store
from engine.store.records import Status
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.app.browsing import BASE, Client
from tests.app.reading import all_words, html, opened
from tests.labs import basic, compare

Lab = dict[Status, int]


@pytest.fixture
def client(home: Home) -> Client:
    """Speak to our routes behind the guard, as a browser on this machine would."""
    return Client()


def series(client: Client, run_id: int, **query: Any) -> dict[str, Any]:
    answer = client.get("/api/series", params={"run": run_id, **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_tokens_change_with_their_run_and_series_bring_only_what_is_new(
    client: Client, lab: Lab, home: Home, store: Store
) -> None:
    before = {
        status: client.get("/api/token", params={"run": run_id}).json()["token"] for status, run_id in lab.items()
    }
    store.annotations.set_note(lab["finished"], "well done", by="Ada")
    after = {status: client.get("/api/token", params={"run": run_id}).json()["token"] for status, run_id in lab.items()}
    assert [status for status in lab if before[status] != after[status]] == ["finished"]
    assert client.get("/api/token").json()["token"] == max(after.values())
    first = series(client, lab["running"])
    loss = [curve for curve in first["series"] if curve["metric"] == "train/loss"]
    assert [(curve["role"], len(curve["values"])) for curve in loss] == [("trainer1", 100), ("trainer2", 100)]
    assert series(client, lab["running"], after=first["last_id"], version=first["version"]) == {
        "version": first["version"],
        "unchanged": True,
    }
    basic.record(store, lab["running"], steps=5, first=101)
    news = series(client, lab["running"], after=first["last_id"], version=first["version"])
    assert [curve["steps"] for curve in news["series"] if curve["metric"] == "train/loss"] == [
        [101, 102, 103, 104, 105]
    ] * 2
    assert [curve["total"] for curve in news["series"] if curve["metric"] == "train/loss"] == [105, 105]
    assert news["active"]


def test_the_token_of_a_filter_is_its_newest_run_that_is_not_archived(
    client: Client, lab: Lab, home: Home, store: Store
) -> None:
    def newest(text: str) -> int:
        return int(client.get("/api/token", params={"latest": text}).json()["token"])

    assert newest("") == max(lab.values())
    assert newest('status == "finished"') == lab["finished"] and newest('status == "finished" and id < 0') == 0
    assert newest("no such (") == 0, "the page says what is wrong"
    newer = basic.add(store, "Ada")
    assert newest('owner == "Ada"') == newer
    store.runs.cancel(newer, by="Ada")
    store.annotations.archive([newer], by="Ada")
    assert newest('owner == "Ada"') < newer and newest("archived") == newer
    page = opened("run", {"latest": 'status == "finished"'})
    assert not page.exception and f"Run {lab['finished']}" in all_words(page)
    assert "The newest run of the filter" in all_words(page)
    assert "No run of the filter" in all_words(opened("run", {"latest": "trainers == 63"}))
    assert "Did you mean trainers" in all_words(opened("run", {"latest": "trainerz == 63"}))


def test_a_long_series_is_thinned_a_nan_is_a_gap_and_an_ended_run_says_so(
    client: Client, lab: Lab, home: Home, store: Store
) -> None:
    answer = client.get("/api/series", params={"run": lab["finished"], "metrics": "train/loss"})
    curve = json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["series"][0]
    assert curve["values"][curve["steps"].index(50)] is None
    assert {status for status, run_id in lab.items() if series(client, run_id)["active"]} == {
        "queued",
        "starting",
        "running",
        "stopping",
    }
    basic.record(store, lab["running"], steps=3_000, first=101)
    curve = series(client, lab["running"], metrics="train/loss")["series"][0]
    assert len(curve["values"]) <= FIRST_POINTS
    assert curve["total"] == 3_100
    assert (curve["steps"][0], curve["steps"][-1]) == (1, 3_100)
    basic.record(store, lab["running"], steps=20_000, first=101)
    query = {"metrics": "train/loss"}
    whole = series(client, lab["running"], **query)["series"][0]
    part = series(client, lab["running"], **query | {"axis": "step", "from": 9_000, "to": 9_500.5})["series"][0]
    assert part["steps"] == list(range(8_999, 9_502))
    assert len([step for step in whole["steps"] if 9_000 <= step <= 9_500]) < 100
    late = series(client, lab["running"], **query | {"axis": "time", "from": 400})["series"][0]
    assert (late["times"][0] < 400 <= late["times"][1], late["steps"][-1]) == (True, 20_100)
    passes = series(client, lab["running"], **query | {"axis": "passes", "to": 2})["series"][0]
    assert (passes["steps"][0], passes["passes"][-2] <= 2 < passes["passes"][-1]) == (1, True)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"axis": "epochs"}, "axis must be one of step, passes, time, got 'epochs'."),
        ({"from": "left"}, "from must be a number, got 'left'."),
    ],
)
def test_a_stretch_along_nothing_is_refused(client: Client, lab: Lab, query: dict[str, str], sentence: str) -> None:
    answer = client.get("/api/series", params={"run": lab["running"], **query})
    assert (answer.status_code, answer.json()["error"]) == (400, sentence)


def test_a_log_is_read_on_by_its_offset_downloaded_whole_and_begins_with_a_whole_line(
    client: Client, lab: Lab, home: Home
) -> None:
    query = {"run": lab["running"], "source": "worker"}
    first = client.get("/api/log", params=query).json()
    assert first["text"] == "first line\nsecond line\n"
    with (home.run_folder(lab["running"]) / "logs" / "worker.log").open("a") as log:
        log.write("third line\nhalf a li")
    assert client.get("/api/log", params=query | {"offset": first["end"]}).json()["text"] == "third line\n"
    answer = client.get("/api/log", params={"run": lab["failed"], "source": "worker", "download": 1})
    assert answer.text == "first line\nsecond line\n"
    assert answer.headers["content-disposition"] == f'attachment; filename="run-{lab["failed"]}-worker.log"'
    path = home.run_folder(lab["running"]) / "logs" / "worker.log"
    path.write_text("".join(f"line {number:07d}\n" for number in range(60_000)))
    tail = client.get("/api/log", params={"run": lab["running"], "source": "worker"}).json()
    assert tail["text"].startswith("line ")
    assert tail["text"].endswith("line 0059999\n")
    assert tail["start"] > 0
    assert tail["end"] == tail["size"] == path.stat().st_size


def test_a_log_outside_the_runs_folder_is_not_shown(client: Client, lab: Lab, home: Home, store: Store) -> None:
    (home.path / "secret").write_text("secret\n")
    store.worker.add_log(lab["running"], "evil", "../../secret")
    answer = client.get("/api/log", params={"run": lab["running"], "source": "evil"})
    assert answer.status_code == 404
    assert "the file is outside the run's folder" in answer.json()["error"]


@pytest.mark.parametrize(
    ("address", "status", "word"),
    [
        ("/api/series?run=99", 404, "Run 99 doesn't exist"),
        ("/api/series?run=abc", 400, "run must be a whole number, got 'abc'"),
        ("/api/series", 400, "run must be a whole number"),
        ("/api/series?run=1&after=-3", 400, "after must be a whole number"),
        ("/api/log?run=1&source=nothing", 404, "no log named 'nothing'. Available: worker"),
        ("/api/log?run=99&source=worker", 404, "Run 99 doesn't exist"),
    ],
)
def test_nonsense_is_answered_by_a_sentence(
    client: Client, lab: Lab, home: Home, address: str, status: int, word: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == status
    assert word in answer.json()["error"]
    assert str(home.path) not in answer.json()["error"]


def test_a_name_is_kept_in_a_cookie_that_scripts_can_t_read_and_plotly_for_ever(client: Client, home: Home) -> None:
    answer = client.post("/api/name", json={"name": " Ada "}, headers={"origin": BASE})
    assert visitor.read(home, answer.cookies[visitor.NAME_COOKIE]) == "Ada"
    assert visitor.take_over(home, answer.json()["proof"]) == "Ada"
    set_cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in set_cookie
    assert "samesite=lax" in set_cookie
    assert client.post("/api/name", data={"name": "Ada"}).status_code == 422
    answer = client.get(PLOTLY_URL)
    assert "immutable" in answer.headers["cache-control"]
    assert "plotly.js" in answer.text[:200]


@pytest.mark.parametrize("body", [b"name=Ada", b"[]", b"{}", b"nonsense", b'{"name": 3}', b'{"name": ""}'])
def test_a_name_that_is_none_is_refused(client: Client, body: bytes) -> None:
    answer = client.post("/api/name", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "set-cookie" not in answer.headers


def test_episodes_come_as_one_band_over_all_ranks_with_the_goal(client: Client, home: Home, store: Store) -> None:
    config = experiment("dppo").configure("quick")
    run_id = store.runs.add(
        Launch("dppo", config.model_dump(mode="json"), "Ada", "quick", "", demand=demand(config, machine()))
    )
    basic.drive(store, home, run_id, "running")
    for step, reward in enumerate((10.0, 20.0, 30.0)):
        store.worker.write(run_id, [RankBatch(step % 2, [Point("charts/episodic_return", step, reward, 0.5 * step)])])
    answer = series(client, run_id, metrics=["charts/episodic_return", "train/loss"])
    assert {curve["metric"] for curve in answer["series"]} == {"train/loss"}
    assert [
        (band["metric"], band["means"], band["running"], band["times"], band["total"]) for band in answer["bands"]
    ] == [("charts/episodic_return", [10.0, 20.0, 30.0], [10.0, 15.0, 20.0], [0.0, 0.5, 1.0], 3)]
    assert answer["goals"] == dict.fromkeys(
        ("charts/episodic_return", "charts/episodic_return_last_100", "test/episodic_return"), 475.0
    )


@pytest.mark.parametrize(
    "values",
    [
        [1_000_000 + step / 4 for step in range(40)],
        [1e9, 1e9 + 1, 1e9 + 2],
        [3e-7, 3e-7 + 1e-13],
        [float(np.float32(1.1 + step / 1e6)) for step in range(40)],
        [0.1 + 0.2, math.nan, -1e300, 1e300],
        [123_456.789_012],
    ],
    ids=str,
)
def test_the_numbers_of_a_curve_differ_where_the_recorded_ones_do(
    client: Client, lab: Lab, store: Store, values: list[float]
) -> None:
    points = [
        Point(name, place, value, place * 1e-5, place * 1e-8)
        for place, value in enumerate(values)
        for name in ("own/number", "charts/episodic_return")
    ]
    store.worker.write(lab["running"], [RankBatch(0, points)])
    found = series(client, lab["running"], metrics=["own/number", "charts/episodic_return"])
    curve, finite = found["series"][0], [value for value in values if math.isfinite(value)]
    near = 1e-6 * (max(finite) - min(finite)) if len(finite) > 1 else 0.0
    assert [value for value in curve["values"] if value is not None] == pytest.approx(finite, abs=near, rel=1e-8)
    assert len({*curve["values"]}) == len({*map(str, values)})
    assert (len({*curve["times"]}), len({*curve["passes"]})) == (len(values), len(values))
    assert len({*found["bands"][0]["means"]}) == len(finite)


def test_a_zoom_on_compared_runs_gives_finer_traces_and_gone_ones_are_said(
    client: Client, home: Home, store: Store
) -> None:
    ids = [compare.add(store, trainers=2, seed=seed, steps=12_000) for seed in range(2)]
    query = {"runs": f"{ids[0]},{ids[1]}", "metric": "train/loss", "smooth": "0", "x": "step"}

    def traces(**more: Any) -> list[dict[str, Any]]:
        answer = client.get("/api/compare", params=query | more)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["figure"]["data"]
        assert len(found) == len(answer.json()["colours"])
        return found

    def points(trace: dict[str, Any]) -> list[float]:
        return np.frombuffer(base64.b64decode(trace["x"]["bdata"]), trace["x"]["dtype"]).tolist()

    whole, part = traces(), traces(**{"from": 6000, "to": 6300})
    assert [trace["name"] for trace in whole] == [trace["name"] for trace in part]
    assert [step for step in points(part[0]) if 6000 <= step <= 6300] == list(range(6000, 6301))
    assert len([step for step in points(whole[0]) if 6000 <= step <= 6300]) < 100
    grouped = traces(group="trainers", band="ci", **{"from": 6000, "to": 6300})
    assert set(range(6000, 6301)) <= set(points(grouped[-1]))
    answer = client.get("/api/compare", params={"runs": "99", "metric": "train/loss"})
    assert (answer.status_code, answer.json()["error"]) == (
        404,
        "None of these runs exists: never launched or deleted.",
    )
    assert client.get("/api/compare", params={"runs": "99", "from": "x"}).status_code == 400


@pytest.mark.parametrize("path", ["", "/lab"])
def test_the_html_of_a_page_names_the_address_of_its_server_before_streamlits_script_runs(
    home: Home, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("PARALLAB_BASE", path)
    answer = Client().get(f"{path}/run")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    told, _, rest = answer.text.partition(f'BACKEND_BASE_URL: location.origin + "{path}"')
    assert "<head>" in told and 'src="' not in told and 'src="./static/js/' in rest
    assert Client().get(f"{path}/run/_stcore/health").status_code == 404
    assert Client().get(f"{path}/nopage").status_code == 404


def test_a_token_is_that_of_the_store_which_is_in_its_place(home: Home, tmp_path: Path) -> None:
    shared = SharedReader()
    assert shared.token(home, 1) == shared.token(home) == 0
    with Store.open(home) as store, Reader.open(home) as reader:
        for _ in range(3):
            run_id = basic.add(store, "Ada")
            store.annotations.set_note(1, f"after run {run_id}", by="Ada")
            assert shared.token(home, 1) == reader.runs.token(1)
            assert shared.token(home) == reader.runs.token()
    assert shared.token(home, 99) == 0
    shared.close()
    shared, other = SharedReader(), Home(tmp_path / "other").create()
    for one, runs in ((home, 1), (other, 3)):
        with Store.open(one) as store:
            for _ in range(runs):
                basic.add(store, "Ada")
            store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    before = shared.token(home)
    expected = shared.token(other)
    assert shared.token(home) == before != expected
    other.database.replace(home.database)
    assert shared.token(home) == expected
    shared.close()


TICKING = (*LIVE, *STATIC)


def frame_of(home: Home, run_id: int, section: str = "Ranks") -> int:
    with Reader.open(home) as reader:
        return frame(reader.runs.one(run_id), reader, section, has_picture(reader.db.home, run_id))


@pytest.mark.parametrize("section", TICKING)
def test_a_ticking_page_shows_slots_as_the_route_gives_them_and_its_frame_stays(
    home: Home, lab: Lab, section: str, still: None, store: Store
) -> None:
    run_id = lab["running"]
    before = frame_of(home, run_id, section)
    basic.record(store, run_id, steps=20, first=101)
    store.worker.update_ranks(run_id, [RankRow(0, "trainer1", 4000, "cpu", "running", 120, now(), None, 500.0, 50.0)])
    store.worker.write(
        run_id, [], progress=(9_600, 12_800, "samples"), samples=[MachineSample(now(), "host", "cpu_percent", 12.0)]
    )
    assert frame_of(home, run_id, section) == before
    run_id = lab["failed"]  # nothing of it ticks, so both are of the same moment
    if section == "Files":
        basic.keep(store, run_id, "a.txt", b"a")
    found = standing(home, run_id, section)
    page = opened("run", {"run": str(run_id), "section": section})
    shown = html(page)
    told = [json.loads(element.proto.json) for element in page.get("bidi_component") if element.proto.json]
    figures = {data["key"]: data for data in told if "figure" in data}
    slots = {name: content for name, content in found.slots.items() if name != "bar"}  # an ended run has no bar
    assert [name for name, content in slots.items() if f'<div data-slot="{name}">{content}</div>' not in shown] == []
    assert {key: {name: data[name] for name in found.figures[key]} for key, data in figures.items()} == json.loads(
        json.dumps(found.figures)
    )
    assert [data["token"] for data in told if "token" in data] == [found.token]


CHANGES: dict[str, Callable[[Store, int], object]] = {
    "note": lambda store, run_id: store.annotations.set_note(run_id, "look at this", by="Ada"),
    "tag": lambda store, run_id: store.annotations.tag([run_id], "odd", by="Ada"),
    "event": lambda store, run_id: store.runs.add_event(run_id, "cut", "worker", "The net was cut."),
    "log": lambda store, run_id: store.worker.add_log(run_id, "trainer1", "logs/trainer1.log"),
    "histogram": lambda store, run_id: store.worker.write(run_id, [RankBatch(0, histograms={("staleness", 1): 3})]),
    "span": lambda store, run_id: store.worker.write(
        run_id, [RankBatch(0, spans=[Span("forward", 0, 0, 1, 2, 0, "")])]
    ),
    "cancel": lambda store, run_id: store.runs.cancel(run_id, by="Ada"),
    "end": lambda store, run_id: store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=3.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_frame_changes_with_what_no_slot_holds(home: Home, lab: Lab, change: str, store: Store) -> None:
    before = frame_of(home, lab["running"])
    CHANGES[change](store, lab["running"])
    assert frame_of(home, lab["running"]) != before


@pytest.mark.parametrize("section", ["Pipeline", "Histograms", "Episode"])
def test_a_section_that_the_script_draws_is_drawn_at_each_news(
    home: Home, lab: Lab, section: str, store: Store
) -> None:
    before = frame_of(home, lab["running"], section)
    basic.record(store, lab["running"], steps=1, first=101)
    assert frame_of(home, lab["running"], section) != before


def test_the_route_says_how_a_run_stands_in_text_alone_and_then_that_nothing_changed(
    home: Home, lab: Lab, store: Store
) -> None:
    client, query = Client(), {"run": lab["running"], "section": "Ranks"}
    first = client.get("/api/standing", params=query).json()
    assert first["token"] == frame_of(home, lab["running"])
    assert "trainer2" in first["slots"]["ranks"]
    assert list(first["figures"]) == [f"phases-{lab['running']}"]
    assert client.get("/api/standing", params=query | {"version": first["version"]}).json() == {
        "version": first["version"],
        "unchanged": True,
    }
    store.worker.write(lab["running"], [], progress=(9_600, 12_800, "samples"))
    news = client.get("/api/standing", params=query | {"version": first["version"]}).json()
    assert "75% done" in news["slots"]["cause"]
    assert news["token"] == first["token"]
    store.annotations.tag([lab["running"]], "<img src=x onerror=alert(1)>", by="Ada")
    slots = {}
    for section in ("Overview", "Events"):
        slots |= client.get("/api/standing", params={"run": lab["running"], "section": section}).json()["slots"]
    assert "&lt;img" in slots["facts"]
    assert not [name for name, content in slots.items() if "<img" in content or "<b>" in content]


@pytest.mark.parametrize(("query", "status"), [({"run": 99}, 404), ({"run": "x"}, 400), ({}, 400)])
def test_a_run_that_is_not_there_is_said_so(home: Home, lab: Lab, query: dict[str, object], status: int) -> None:
    answer = Client().get("/api/standing", params=query)
    assert answer.status_code == status
    assert answer.json()["error"]
