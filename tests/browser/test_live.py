"""What moves by itself: curves that keep their zoom, questions that end with the run and rest in a hidden tab."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from engine.home import Home
from engine.recorder import Point
from engine.store import RankBatch, Store
from tests.app import labs
from tests.browser.conftest import Console, wait_until
from tests.browser.places import settle

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("still"), pytest.mark.timeout(600)]
LOSS = "[data-metric='train/loss']"
SILENT_MS = 6_000
"""Longer than any pause of a page that goes on asking: up to 5 s, where the console does not keep up or does not answer."""
PAUSES = """(route) => {
  const starts = performance.getEntriesByType('resource').filter(({ name }) => name.includes(route)).map((each) => each.startTime);
  const late = starts.filter((start) => start > starts[0] + 10_000);
  return late.slice(1).map((start, index) => start - late[index]);
}"""
"""Returns the milliseconds between questions of a route by the page's own clock, from ten seconds after the first on: before, it asks more often."""


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    """Write to the console's store as the worker of run 1 does; this process is that worker."""
    with Store.open(home) as opened:
        labs.drive(opened, home, labs.add(opened, "Ada"), "running")
        yield opened


@pytest.fixture
def console(store: Store, console: Console) -> Console:
    """Serve the home once run 1 has its worker: the console's runner would give it another."""
    return console


class Questions:
    """What a page asks of our routes."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.open: set[Request] = set()
        page.on("request", self._note)
        page.on("requestfinished", self._close)
        page.on("requestfailed", self._close)

    def wait_for_silence(self) -> None:
        """Wait for a stretch in which no question was asked and none waited for its answer."""
        wait_until(self._rest, 60, f"the page asked nothing for {SILENT_MS / 1000:g} s")

    def _rest(self) -> bool:
        before, waited = len(self.asked), bool(self.open)
        self.page.wait_for_timeout(SILENT_MS)
        return not waited and len(self.asked) == before

    def _note(self, request: Request) -> None:
        if "/api/" in request.url:
            self.asked.append(request.url)
            self.open.add(request)

    def _close(self, request: Request) -> None:
        self.open.discard(request)


@pytest.fixture
def questions(page: Page) -> Questions:
    """Collect the questions that the page asks from now on."""
    return Questions(page)


def drawn(page: Page) -> Locator:
    """Return the plot of the loss once all of the page is drawn: what comes later would move it under the mouse."""
    page.locator("[data-drawn*='test/accuracy']").wait_for(state="attached")
    settle(page)
    return page.locator(LOSS)


def points(page: Page) -> int:
    return int(page.locator(LOSS).evaluate("plot => plot.data.filter(trace => trace.showlegend !== false)[0].y.length"))


def test_a_zoom_and_its_node_outlive_new_points(console: Console, page: Page, store: Store) -> None:
    page.goto(f"{console.address}/run?run=1")
    plot = drawn(page)
    plot.evaluate("plot => { plot.marked = true; }")
    box = plot.locator(".nsewdrag").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 120, steps=5)
    page.mouse.up()
    wait_until(lambda: plot.evaluate("plot => plot.layout.xaxis.autorange") is False, 60, "the drag zoomed")
    zoomed = plot.evaluate("plot => [plot.layout.xaxis.range, plot.layout.yaxis.range]")
    before = points(page)
    labs.record(store, 1, steps=60, first=101)
    wait_until(lambda: points(page) == before + 60, 60, "the new points were drawn")
    assert plot.evaluate("plot => [plot.layout.xaxis.range, plot.layout.yaxis.range]") == zoomed
    assert plot.evaluate("plot => plot.marked === true")


def test_a_long_curve_is_thinned_in_the_browser_too_and_says_so(console: Console, page: Page, store: Store) -> None:
    page.goto(f"{console.address}/run?run=1")
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    for part in range(3):
        labs.record(store, 1, steps=1_500, first=101 + part * 1_500)
        wait_until(lambda seen=part: _last_step(page) == 100 + (seen + 1) * 1_500, 60, "the last point was drawn")  # type: ignore[misc]
    expect(page.locator(".pl-panel", has=page.locator(LOSS)).locator(".pl-caption")).to_contain_text("of 9,200 points")
    assert points(page) <= 2_000


def _last_step(page: Page) -> int:
    return int(page.locator(LOSS).evaluate("plot => plot.data[0].x.at(-1)"))


def test_the_page_follows_a_run_to_its_end_and_then_asks_nothing_more(console: Console, page: Page, store: Store, questions: Questions) -> None:
    page.goto(f"{console.address}/run?run=1")
    expect(page.get_by_text("50% done")).to_be_visible()
    labs.record(store, 1, steps=100, first=101)
    store.write(1, [], progress=(9_600, 12_800, "samples"))
    expect(page.get_by_text("75% done")).to_be_visible()  # the page's scripts may still be on their way
    store.end(1, "finished", "All ranks ended their work.", execution_time_s=3.0)
    expect(page.get_by_text("All ranks ended their work.")).to_be_visible()
    questions.wait_for_silence()


def test_what_ticks_needs_no_script_run_and_a_note_of_someone_else_does(console: Console, page: Page, store: Store) -> None:
    sent: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(bytes(frame))))
    page.goto(f"{console.address}/run?run=1")
    expect(page.get_by_text("50% done")).to_be_visible()
    bars = page.locator(".pl-figure").last
    bars.locator(".nsewdrag").first.wait_for()
    before = len(sent)
    labs.record(store, 1, steps=100, first=101)
    store.write(1, [RankBatch(0, phases={"compute": 800.0, "wait": 0.5})], progress=(9_600, 12_800, "samples"))
    expect(page.get_by_text("75% done")).to_be_visible()
    expect(page.locator("[data-slot='ranks']")).to_contain_text("200")
    wait_until(lambda: max(x for trace in bars.evaluate("plot => plot.data") for x in trace["x"]) == 800.0, 60, "the bar of trainer1 grew")
    assert len(sent) == before
    store.add_tag(1, "odd", by="Ada")
    expect(page.locator("[data-slot='facts']")).to_contain_text("odd")

    def ran_again() -> bool:
        page.wait_for_timeout(50)  # what the page sends is only noted while Playwright is at work
        return len(sent) > before

    wait_until(ran_again, 60, "the page's script ran again")


def test_a_hidden_tab_asks_nothing_and_catches_up_when_it_is_seen(console: Console, page: Page, store: Store, questions: Questions) -> None:
    page.goto(f"{console.address}/run?run=1")
    expect(page.get_by_text("50% done")).to_be_visible()
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    page.evaluate("() => { window.tabHidden = true; document.dispatchEvent(new Event('visibilitychange')); }")
    questions.wait_for_silence()
    questions.asked.clear()
    before = points(page)
    labs.record(store, 1, steps=20, first=101)
    page.wait_for_timeout(2_500)
    assert questions.asked == []
    page.evaluate("() => { window.tabHidden = false; document.dispatchEvent(new Event('visibilitychange')); }")
    wait_until(lambda: points(page) == before + 20, 60, "the points of the meantime were drawn")


def test_a_run_without_news_is_asked_about_once_a_second_and_sends_no_points(console: Console, page: Page, store: Store) -> None:
    page.add_init_script("performance.setResourceTimingBufferSize(10_000)")
    page.goto(f"{console.address}/run?run=1")
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    for route in ("/api/series", "/api/standing"):
        wait_until(lambda route=route: len(page.evaluate(PAUSES, route)) >= 3, 60, f"{route} was asked again and again")  # type: ignore[misc]
        assert min(page.evaluate(PAUSES, route)) > 650, route
    for _ in range(3):
        with page.expect_response(lambda response: "/api/series" in response.url) as answered:
            pass
        assert "unchanged" in answered.value.text()


def test_the_log_follows_finds_and_offers_its_file(console: Console, page: Page, store: Store, home: Home) -> None:
    page.goto(f"{console.address}/run?run=1&section=Log")
    text = page.locator(".pl-log-text")
    expect(text).to_contain_text("second line")
    with (home.run_folder(1) / "logs" / "worker.log").open("a") as log:
        log.write("third <b>line</b>\n")
    expect(text).to_contain_text("third <b>line</b>")
    page.get_by_role("searchbox", name="Find").fill("THIRD")
    expect(text).not_to_contain_text("second")
    expect(text.locator("mark")).to_have_text("third")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_text() == "first line\nsecond line\nthird <b>line</b>\n"


def test_a_histogram_grows_with_its_run_on_the_same_node(console: Console, page: Page, store: Store) -> None:
    def push(value: int, count: int) -> None:
        points = [Point("perf/staleness", step, float(value), step / 50) for step in range(count)]
        store.write(1, [RankBatch(0, points, histograms={("staleness", value): count})])

    page.goto(f"{console.address}/run?run=1")
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    expect(page.get_by_role("radio", name="Histograms")).to_have_count(0)
    push(1, 10)
    page.get_by_role("radio", name="Histograms").click()
    bars, heat = page.locator(".pl-figure").first, page.locator(".pl-figure").last
    wait_until(lambda: bars.evaluate("plot => plot.data?.[0].y") == [10], 60, "the bar was drawn")
    settle(page)
    expect(page.locator(".pl-figure:has(.nsewdrag)")).to_have_count(2)
    heat.evaluate("plot => { plot.marked = true; }")
    push(3, 20)
    wait_until(lambda: bars.evaluate("plot => plot.data[0].y") == [10, 20], 60, "the new bar was drawn")
    wait_until(lambda: heat.evaluate("plot => plot.data[0].z.flat().reduce((sum, count) => sum + count, 0)") == 30, 60, "the heat holds every push")
    assert heat.evaluate("plot => plot.marked === true")
    assert heat.evaluate("plot => plot.data[0].colorscale.length") == 3
    heat.evaluate("plot => { const draw = Plotly.react; Plotly.react = (node, ...more) => { node.redrawn = true; return draw(node, ...more); }; }")
    store.write(1, [], progress=(9_600, 12_800, "samples"))
    expect(page.get_by_text("75% done")).to_be_visible()
    page.wait_for_timeout(500)
    assert heat.evaluate("plot => plot.redrawn") is None, "nothing was pushed, so nothing is drawn"


def test_a_page_asks_as_seldom_as_the_console_wants_it_to(console: Console, page: Page, store: Store) -> None:
    page.route("**/api/**", lambda route: route.fulfill(response=(answer := route.fetch()), headers=answer.headers | {"x-slower": "4"}))
    page.goto(f"{console.address}/run?run=1")
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    for path, usual_ms in (("series", 400), ("standing", 350)):
        began = f"() => performance.getEntriesByType('resource').filter(asked => asked.name.includes('/api/{path}')).map(asked => asked.startTime)"
        wait_until(lambda of=began: len(page.evaluate(of)) >= 5, 60, f"{path} was asked for again")  # type: ignore[misc]
        moments = page.evaluate(began)
        assert min(later - earlier for earlier, later in pairwise(moments[1:])) > 3.9 * usual_ms, "before the first answer nothing was known"
    page.unroute_all(behavior="ignoreErrors")
