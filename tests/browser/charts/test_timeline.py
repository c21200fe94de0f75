"""The timeline in a browser: what it draws of a stretch, what a zoom asks for, the critical path, keys; and a real run
whose stopped rank is named.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Locator, Page, expect

from engine.home import Home
from engine.store import Reader, Store
from engine.store.timestamps import now
from engine.system.processes import end_session
from engine.system.runner_process import runner_process
from engine.trace.health import Health, Verdict
from tests.browser.conftest import Console, Lab
from tests.browser.replay import launch
from tests.browser.test_live import path_of, pytestmark, store
from tests.labs import basic
from tests.labs.traced import STEP_US, STEPS, add_trace

__all__ = ["pytestmark", "store"]
STATE = """(root) => {
  const { picture, view } = root.timeline;
  return { begin: picture.begin, end: picture.end, left: view.left, width: view.width };
}"""
BARS = """(svg) => [...svg.querySelectorAll('rect.bar')].map((bar) =>
  ['x', 'y', 'width', 'height'].map((name) => Number(bar.getAttribute(name))))"""


@pytest.fixture
def timeline(lab: Lab, store: Store, page: Page) -> Locator:
    """Open the timeline of a run with 400 steps of a millisecond."""
    run = basic.add(store, "Ada")
    basic.drive(store, lab.home, run, "running")
    add_trace(store, run)
    store.claims.end(run, "finished", "Completed successfully")
    page.goto(path_of(lab, run, "&section=Timeline"))
    root = page.locator(".pl-timeline")
    expect(root.locator("rect.bar").first).to_be_visible()
    return root


def asked(page: Page, act: Any) -> tuple[float, float]:
    """Return the stretch that an action asks for, in microseconds, once its picture has come."""
    with page.expect_response(lambda answer: "/api/timeline" in answer.url and "from=" in answer.url) as found:
        act()
    query = parse_qs(urlparse(found.value.url).query)
    return float(query["from"][0]), float(query["to"][0])


def shown(root: Locator) -> tuple[float, float]:
    state = root.evaluate(STATE)
    return state["begin"], state["end"]


def settled(root: Locator, stretch: tuple[float, float]) -> None:
    """Wait until that stretch is drawn."""
    root.page.wait_for_function(
        "([root, begin]) => Math.abs(root.timeline.picture.begin - begin) < 1", arg=[root.element_handle(), stretch[0]]
    )


def drag(root: Locator, begin: float, end: float) -> None:
    """Drag over a part of the picture, as shares of its width."""
    state, box = root.evaluate(STATE), root.locator("svg").bounding_box()
    assert box
    at = [box["x"] + state["left"] + share * (state["width"] - state["left"]) for share in (begin, end)]
    mouse, y = root.page.mouse, box["y"] + 40
    mouse.move(at[0], y)
    mouse.down()
    mouse.move(at[1], y, steps=4)


def test_a_drag_zooms_to_the_stretch_under_it_with_its_rectangles_and_critical_path(
    timeline: Locator, page: Page
) -> None:
    begin, end = shown(timeline)
    bars = timeline.locator("svg").evaluate(BARS)
    state = timeline.evaluate(STATE)
    steps = (end - begin) / STEP_US
    assert len(bars) == pytest.approx(3 * steps, abs=6), "two of the trainer, one of the server"
    px = (state["width"] - state["left"]) / (end - begin)
    computing = [width for x, y, width, _ in bars if y == max(each[1] for each in bars) and width > 400 * px]
    assert computing == pytest.approx([500 * px] * len(computing), rel=0.01) and len(computing) > steps - 3

    drag(timeline, 0.25, 0.5)
    assert timeline.locator(".chosen").count() == 1
    stretch = asked(page, page.mouse.up)
    span = end - begin
    assert stretch == pytest.approx((begin + span / 4, begin + span / 2), abs=span / 200)
    settled(timeline, stretch)
    assert shown(timeline) == pytest.approx(stretch, abs=0.01)
    assert len(timeline.locator("svg").evaluate(BARS)) == pytest.approx(3 * steps / 4, abs=6)

    assert timeline.locator("polyline.path").count() == 0
    timeline.get_by_label("Critical path").check()
    points = (timeline.locator("polyline.path").get_attribute("points") or "").split()
    assert len(points) > 4 and len({point.split(",")[1] for point in points}) > 1, "it goes through both ranks"
    expect(timeline.locator(".legend")).to_contain_text("<b>backward</b>")
    assert timeline.locator("b, b *").count() == 0
    expect(timeline.locator(".said")).to_contain_text("the critical path")
    timeline.get_by_text("As a table").click()
    expect(timeline.get_by_role("row", name="compute").first).to_be_visible()


def test_esc_cancels_a_drag_and_hides_the_hover_and_keys_zoom_and_move_within_the_run(
    timeline: Locator, page: Page
) -> None:
    before = shown(timeline)
    drag(timeline, 0.2, 0.6)
    page.keyboard.press("Escape")
    assert timeline.locator(".chosen").count() == 0
    page.mouse.up()
    timeline.locator("rect.bar").nth(4).hover()
    expect(timeline.locator(".hover")).to_be_visible()
    page.keyboard.press("Escape")
    expect(timeline.locator(".hover")).to_be_hidden()
    page.wait_for_timeout(300)
    begin, end = shown(timeline)
    assert (begin, end) == before
    svg, span = timeline.locator("svg"), end - begin
    svg.focus()
    for key, expected in (
        ("+", (begin + span / 4, end - span / 4)),
        ("ArrowRight", (begin + span / 2, end)),
        ("ArrowLeft", (begin + span / 4, end - span / 4)),
        ("-", (begin, end)),
    ):
        stretch = asked(page, lambda key=key: svg.press(key))
        assert stretch == pytest.approx(expected, abs=1.0), key
        settled(timeline, stretch)
    for _ in range(5):
        settled(timeline, asked(page, lambda: svg.press("-")))
    assert shown(timeline) == pytest.approx((0.0, STEP_US * STEPS)), "no further than the run"
    svg.press("0")
    settled(timeline, (begin, end))


@pytest.mark.parametrize("width", [390, 1300])
def test_nothing_moves_or_sticks_out_when_the_picture_comes(timeline: Locator, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(
        "window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach((entry) => "
        "entry.hadRecentInput || (window.moved += entry.value))).observe({ type: 'layout-shift', buffered: true });"
    )
    page.reload()
    expect(timeline.locator("rect.bar").first).to_be_visible()
    expect(timeline.locator(".said li").first).to_be_visible()
    page.wait_for_timeout(300)
    assert page.evaluate("window.moved") < 0.05
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_timeline_of_a_running_run_follows_its_newest_steps_until_one_looks_at_others(
    lab: Lab, store: Store, page: Page
) -> None:
    run = basic.add(store, "Ada")
    basic.drive(store, lab.home, run, "running")
    add_trace(store, run)
    page.goto(path_of(lab, run, "&section=Timeline"))
    root = page.locator(".pl-timeline")
    expect(root.locator("rect.bar").first).to_be_visible()
    assert shown(root)[1] < 1e6
    add_trace(store, run, after_s=10)
    page.wait_for_function("(root) => root.timeline.picture.begin > 10e6", arg=root.element_handle())
    expect(root.get_by_text("Follows the newest stored steps")).to_be_visible()
    stretch = asked(page, lambda: root.get_by_role("button", name="Zoom in").click())
    settled(root, stretch)
    add_trace(store, run, after_s=20)
    page.wait_for_function("(root) => root.timeline.picture.all[1] > 20e6", arg=root.element_handle())
    assert shown(root) == pytest.approx(stretch)
    expect(root.get_by_text("Follows the newest stored steps")).to_have_count(0)
    root.get_by_role("button", name="A few steps").click()
    page.wait_for_function("(root) => root.timeline.picture.begin > 20e6", arg=root.element_handle())
    store.claims.end(run, "finished", "Completed successfully")


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Console]:
    """Give a console of its own, whose runner's hang doctor looks after a second."""
    served = Console(Home(tmp_path / "quick").create())
    served.settings = {"PARALLAB_HANG_S": "1"}
    served.start()
    try:
        yield served
    finally:
        served.stop()
        if runner := runner_process(served.home):
            end_session(runner)


def test_a_stopped_rank_is_named_on_the_page_of_its_run(lab: Lab, store: Store, page: Page) -> None:
    run = basic.add(store, "Ada")
    basic.drive(store, lab.home, run, "running")
    page.goto(path_of(lab, run))
    expect(page.get_by_text("running", exact=True).first).to_be_visible()
    sentence = "trainer2 makes no progress: it is stopped (SIGSTOP), in compute, since 30 s."
    store.worker.write_health(run, Health(now(), (), Verdict("HUNG", "trainer2", "stopped", sentence)))
    store.worker.note_standstill(run, "hung", sentence)
    expect(page.get_by_text("Hung: trainer2").first).to_be_visible()
    expect(page.get_by_text("it is stopped (SIGSTOP)").first).to_be_visible()
    store.claims.end(run, "finished", "Completed successfully")


@pytest.mark.long  # 30 s of a real run; tests/hang stop real ranks, and the test above shows the page
def test_a_rank_that_is_really_stopped_is_named_on_the_page_of_its_run(quick: Console, page: Page) -> None:
    page.goto(f"{quick.address}/launch?experiment=sync_sgd&preset=quick&set=rounds:100000&set=device:cpu")
    run = launch(page, "Launch", to="run")
    expect(page.get_by_text("running", exact=True).first).to_be_visible()
    with Reader.open(quick.home) as reader:
        stopped = next(rank for rank in reader.details.ranks(run) if rank.role == "trainer2")
    assert stopped.pid
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        expect(page.get_by_text("Hung: trainer2").first).to_be_visible()
        expect(page.get_by_text("it is stopped (SIGSTOP)").first).to_be_visible()
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
        with Store.open(quick.home) as store:
            store.runs.cancel(run, by="Ada")
