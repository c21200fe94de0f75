"""What ticks on a live run's page without a script run, and what brings one about."""

import json
from collections.abc import Callable

import pytest

from app.standing import DRAWN_BY_THE_SCRIPT, frame, standing
from engine.home import Home
from engine.recorder import Span
from engine.store import MachineSample, RankBatch, RankRow, Reader, Store
from engine.store.clock import now
from engine.store.records import Status
from tests.app import labs
from tests.app.browsing import Client
from tests.app.test_pages import opened

Lab = dict[Status, int]
TICKING = ("Ranks", "Machine", "Events", "Log", "Config", "Environment", "Notes")


def frame_of(home: Home, run_id: int, section: str = "Ranks") -> int:
    with Reader.open(home) as reader:
        return frame(reader.run(run_id), reader, section)


@pytest.mark.parametrize("section", TICKING)
def test_the_frame_stays_while_points_heartbeats_and_samples_come(home: Home, lab: Lab, section: str) -> None:
    run_id = lab["running"]
    before = frame_of(home, run_id, section)
    with Store.open(home) as store:
        labs.record(store, run_id, steps=20, first=101)
        store.update_ranks(run_id, [RankRow(0, "trainer1", 4000, "cpu", "running", 120, now(), None, 500.0, 50.0)])
        store.write(run_id, [], progress=(9_600, 12_800, "samples"), samples=[MachineSample(now(), "host", "cpu_percent", 12.0)])
    assert frame_of(home, run_id, section) == before


CHANGES: dict[str, Callable[[Store, int], object]] = {
    "note": lambda store, run_id: store.set_note(run_id, "look at this", by="Ada"),
    "tag": lambda store, run_id: store.add_tag(run_id, "odd", by="Ada"),
    "event": lambda store, run_id: store.add_event(run_id, "cut", "worker", "The net was cut."),
    "log": lambda store, run_id: store.add_log(run_id, "trainer1", "logs/trainer1.log"),
    "histogram": lambda store, run_id: store.write(run_id, [RankBatch(0, histograms={("staleness", 1): 3})]),
    "span": lambda store, run_id: store.write(run_id, [RankBatch(0, spans=[Span("forward", 0, 0, 1, 2, 0, "")])]),
    "cancel": lambda store, run_id: store.request_cancel(run_id, by="Ada"),
    "end": lambda store, run_id: store.end(run_id, "finished", "All ranks ended their work.", execution_time_s=3.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_frame_changes_with_what_no_slot_holds(home: Home, lab: Lab, change: str) -> None:
    before = frame_of(home, lab["running"])
    with Store.open(home) as store:
        CHANGES[change](store, lab["running"])
    assert frame_of(home, lab["running"]) != before


@pytest.mark.parametrize("section", DRAWN_BY_THE_SCRIPT)
def test_a_section_that_the_script_draws_is_drawn_at_each_news(home: Home, lab: Lab, section: str) -> None:
    before = frame_of(home, lab["running"], section)
    with Store.open(home) as store:
        labs.record(store, lab["running"], steps=1, first=101)
    assert frame_of(home, lab["running"], section) != before


@pytest.mark.parametrize("section", TICKING)
def test_the_page_shows_each_slot_and_figure_as_the_route_gives_it(home: Home, lab: Lab, still: None, section: str) -> None:
    run_id = lab["failed"]  # nothing of it ticks, so both are of the same moment
    found = standing(home, run_id, section)
    page = opened("run", {"run": str(run_id), "section": section})
    shown = " ".join(element.proto.body for element in page.get("html"))
    told = [json.loads(element.proto.json) for element in page.get("bidi_component") if element.proto.json]
    figures = {data["key"]: data for data in told if "figure" in data}
    slots = {name: content for name, content in found.slots.items() if name != "bar"}  # an ended run has no bar
    assert [name for name, content in slots.items() if f'<div data-slot="{name}">{content}</div>' not in shown] == []
    assert {key: {name: data[name] for name in found.figures[key]} for key, data in figures.items()} == json.loads(json.dumps(found.figures))
    assert [data["token"] for data in told if "token" in data] == [found.token]


def test_the_route_says_how_a_run_stands_and_then_only_that_nothing_changed(home: Home, lab: Lab) -> None:
    client, query = Client(), {"run": lab["running"], "section": "Ranks"}
    first = client.get("/api/standing", params=query).json()
    assert first["token"] == frame_of(home, lab["running"])
    assert "trainer2" in first["slots"]["ranks"]
    assert list(first["figures"]) == [f"phases-{lab['running']}"]
    assert client.get("/api/standing", params=query | {"version": first["version"]}).json() == {"version": first["version"], "unchanged": True}
    with Store.open(home) as store:
        store.write(lab["running"], [], progress=(9_600, 12_800, "samples"))
    news = client.get("/api/standing", params=query | {"version": first["version"]}).json()
    assert "75% done" in news["slots"]["cause"]
    assert news["token"] == first["token"]


def test_what_people_wrote_is_text_in_a_slot(home: Home, lab: Lab) -> None:
    with Store.open(home) as store:
        store.add_tag(lab["running"], "<img src=x onerror=alert(1)>", by="Ada")
    slots = Client().get("/api/standing", params={"run": lab["running"], "section": "Events"}).json()["slots"]
    assert "&lt;img" in slots["facts"]
    assert not [name for name, content in slots.items() if "<img" in content or "<b>" in content]


@pytest.mark.parametrize(("query", "status"), [({"run": 99}, 404), ({"run": "x"}, 400), ({}, 400)])
def test_a_run_that_is_not_there_is_said_so(home: Home, lab: Lab, query: dict[str, object], status: int) -> None:
    answer = Client().get("/api/standing", params=query)
    assert answer.status_code == status
    assert answer.json()["error"]
