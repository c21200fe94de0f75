"""What moves by itself: curves that keep their zoom, questions that end with the run and rest in a hidden tab."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from engine.recorder import Point
from engine.store import RankBatch, Store
from tests.browser.conftest import Lab, zoom
from tests.browser.places import settle
from tests.labs import basic
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
LOSS = "[data-metric='train/loss']"
NOTING = """() => {
  const [later, ask] = [window.setTimeout, window.fetch];
  let pause = null; // of the timer whose function runs
  window.asked = [];
  window.answering = 0;
  window.setTimeout = (act, delay, ...more) => later((...given) => {
    pause = delay;
    try { return act(...given); } finally { pause = null; }
  }, delay, ...more);
  window.fetch = async (url, ...more) => {
    if (!/[/]?api[/]/.test(url)) return ask(url, ...more);
    window.asked.push([String(url), pause]);
    window.answering += 1;
    try { return await ask(url, ...more); } finally { window.answering -= 1; }
  };
}"""
"""Has the page note each question to one of our routes, with the milliseconds that it wanted to wait before, and how
many wait for an answer.
"""
LATE = """() => {
  window.loading = new Promise((resolve) => (window.load = resolve));
  window.Blob = class extends Blob {
    constructor(code, options) {
      super(options?.type === 'text/javascript' ? ['await window.loading;', ...code] : code, options);
    }
  };
}"""
"""Delays the scripts of our components, which Streamlit imports from blobs, until `window.load()`."""
COUNT_RUNS = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  window.ended = 0;
  new MutationObserver(() => (window.ended += app.dataset.testScriptState === 'notRunning'))
    .observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""
"""Has the page count in `window.ended` the runs of its script that have ended since."""
PAST_MS = 60_000
"""Longer than any pause of a page that goes on asking, by the page's own clock, which tests put forward."""


@pytest.fixture
def store(lab: Lab) -> Iterator[Store]:
    with Store.open(lab.home) as opened:
        yield opened


@pytest.fixture
def run(lab: Lab, store: Store) -> Iterator[int]:
    """Give a run that is on, and end it: this process writes as its worker does."""
    made = basic.add(store, "Ada")
    basic.drive(store, lab.home, made, "running")
    yield made
    if store.read.runs.one(made).status == "running":
        store.claims.end(made, "finished", "Completed successfully")


def path_of(lab: Lab, run: int, section: str = "") -> str:
    return f"{lab.address}/run?run={run}&axis=Step{section}"


def is_silent(page: Page) -> bool:
    """Put the page's clock forward, and say whether it asked nothing for that, and nothing is unanswered."""
    before = page.evaluate("() => window.answering ? null : window.asked.length")
    page.clock.fast_forward(PAST_MS)
    return bool(before == page.evaluate("() => window.answering ? -1 : window.asked.length"))


def drawn(page: Page) -> Locator:
    """Return the plot of the loss once all of the page is drawn: what comes later would move it under the mouse."""
    page.locator("[data-drawn*='test/accuracy']").wait_for(state="attached")
    settle(page)
    return page.locator(LOSS)


def points(page: Page) -> int:
    return int(page.locator(LOSS).evaluate("plot => plot.data.filter(trace => trace.showlegend !== false)[0].y.length"))


def test_a_zoom_and_its_node_outlive_new_points(lab: Lab, page: Page, store: Store, run: int) -> None:
    page.goto(path_of(lab, run))
    plot = drawn(page)
    plot.evaluate("plot => { plot.marked = true; }")
    zoom(page, plot, to=0.8, down=60)
    zoomed = plot.evaluate("plot => [plot.layout.xaxis.range, plot.layout.yaxis.range]")
    before = points(page)
    basic.record(store, run, steps=60, first=101)
    wait_until(lambda: points(page) == before + 60, "the new points were drawn")
    assert plot.evaluate("plot => [plot.layout.xaxis.range, plot.layout.yaxis.range]") == zoomed
    assert plot.evaluate("plot => plot.marked === true")


def test_a_long_curve_is_thinned_in_the_browser_too_and_says_so(lab: Lab, page: Page, store: Store, run: int) -> None:
    page.goto(path_of(lab, run))
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    for part in range(3):
        basic.record(store, run, steps=1_500, first=101 + part * 1_500)
        wait_until(lambda seen=part: _last_step(page) == 100 + (seen + 1) * 1_500, "the last point was drawn")  # type: ignore[misc]
    expect(page.locator(".pl-panel", has=page.locator(LOSS)).locator(".pl-caption")).to_contain_text("of 9,200 points")
    assert points(page) <= 2_000


def _last_step(page: Page) -> int:
    return int(page.locator(LOSS).evaluate("plot => plot.data[0].x.at(-1)"))


def test_a_hidden_tab_asks_nothing_and_one_that_is_seen_follows_its_run_to_the_end_and_then_asks_nothing(
    lab: Lab, timed_page: Page, store: Store, run: int
) -> None:
    page = timed_page
    page.add_init_script(f"({NOTING})()")
    page.goto(path_of(lab, run))
    expect(page.get_by_text("50% done")).to_be_visible()
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    page.evaluate("() => { window.tabHidden = true; document.dispatchEvent(new Event('visibilitychange')); }")
    wait_until(lambda: is_silent(page), "a hidden page asks nothing")
    before, asked = points(page), page.evaluate("window.asked.length")
    basic.record(store, run, steps=20, first=101)
    assert is_silent(page) and page.evaluate("window.asked.length") == asked
    page.evaluate("() => { window.tabHidden = false; document.dispatchEvent(new Event('visibilitychange')); }")
    wait_until(lambda: points(page) == before + 20, "the points of the meantime were drawn")
    assert not is_silent(page)
    store.worker.write(run, [], progress=(9_600, 12_800, "samples"))
    expect(page.get_by_text("75% done")).to_be_visible()  # the page's scripts may still be on their way
    store.claims.end(run, "finished", "Completed successfully", execution_time_s=3.0)
    expect(page.get_by_text("Completed successfully")).to_be_visible()
    wait_until(lambda: is_silent(page), "a page asks nothing of a run that has ended")


def test_a_run_without_news_is_asked_about_once_a_second_without_points_and_as_seldom_as_the_console_wants(
    lab: Lab, timed_page: Page, run: int
) -> None:
    page = timed_page
    page.add_init_script(f"({NOTING})()")
    page.goto(path_of(lab, run))
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    settle(page)
    page.clock.fast_forward(PAST_MS)  # before, it asks more often

    def pauses(route: str) -> list[float]:
        """Return the pauses before the questions of a route that came last."""
        page.evaluate("window.asked = []")

        def found() -> list[float]:
            page.clock.fast_forward(1_000)
            return [pause for url, pause in page.evaluate("window.asked") if f"/{route}?" in url and pause]

        wait_until(lambda: len(found()) >= 4, f"{route} was asked again and again")
        return found()[1:4]

    def slowed(by: str) -> None:
        """Have the console say by how much it is slower than usual."""
        page.unroute_all(behavior="ignoreErrors")
        page.route(
            "**/api/**",
            lambda route: route.fulfill(response=(answer := route.fetch()), headers=answer.headers | {"x-slower": by}),
        )

    slowed("1")
    assert pauses("series") == [750] * 3
    assert pauses("standing") == [1_000] * 3
    with page.expect_response(lambda response: "/api/series" in response.url) as answered:
        page.clock.fast_forward(1_000)
    assert "unchanged" in answered.value.text()
    slowed("4")
    assert pauses("series") == [3_000] * 3
    assert pauses("standing") == [4_000] * 3
    page.unroute_all(behavior="ignoreErrors")


def test_a_chart_that_was_on_top_first_goes_on_in_its_section(lab: Lab, page: Page, store: Store) -> None:
    """Which two charts are on top is known only when loss and result are recorded: others came before them."""

    def recorded(names: tuple[str, ...], steps: range) -> None:
        points = [Point(name, step, 1.0 + step, step / 10, step / 10) for name in names for step in steps]
        store.worker.write(run, [RankBatch(0, points)])

    run = basic.add(store, "Ada")
    store.claims.claim(run, basic.worker(), [])
    store.worker.begin(run, basic.worker(), {})
    store.worker.mark_running(run, 0.5)
    early = ("train/kl", "train/entropy", "perf/staleness")
    recorded(early, range(1, 4))
    page.add_init_script(
        "for (const name of ['Learning', 'Parallelism']) localStorage.setItem(`parallab-section-${name}`, 'open')"
    )
    page.goto(path_of(lab, run))
    for name in early:
        page.locator(f"[data-metric='{name}'] .nsewdrag").wait_for()
    recorded((*early, "train/loss", "test/accuracy"), range(4, 60))
    page.locator(f"{LOSS} .nsewdrag").wait_for()
    for name, section in zip(early, ("Learning", "Learning", "Parallelism"), strict=True):
        chart = page.locator(f"details[data-section='{section}'] [data-metric='{name}']")
        wait_until(lambda chart=chart: chart.evaluate("plot => Math.max(...plot.data[0].x)") == 59, f"{name} goes on")  # type: ignore[misc]
    store.claims.end(run, "finished", "Completed successfully", execution_time_s=6.0)


def test_what_ticks_needs_no_script_run_and_a_note_of_someone_else_does(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    sent: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(bytes(frame))))
    page.goto(path_of(lab, run, "&section=Ranks"))
    expect(page.get_by_text("50% done")).to_be_visible()
    bars = page.locator(".pl-figure").last
    bars.locator(".nsewdrag").first.wait_for()
    before = len(sent)
    basic.record(store, run, steps=100, first=101)
    store.worker.write(run, [RankBatch(0, phases={"compute": 800.0, "wait": 0.5})], progress=(9_600, 12_800, "samples"))
    expect(page.get_by_text("75% done")).to_be_visible()
    expect(page.locator("[data-slot='ranks']")).to_contain_text("200")
    wait_until(
        lambda: max(x for trace in bars.evaluate("plot => plot.data") for x in trace["x"]) == pytest.approx(800 / 60),
        "the bar of trainer1 grew",
    )
    assert len(sent) == before
    store.annotations.tag([run], "odd", by="Ada")

    def ran_again() -> bool:
        page.wait_for_timeout(50)  # what the page sends is only noted while Playwright is at work
        return len(sent) > before

    wait_until(ran_again, "the page's script ran again")


def test_data_that_changes_while_the_scripts_load_does_not_stop_live_updates(
    lab: Lab, page: Page, store: Store, run: int
) -> None:
    page.add_init_script(f"({LATE})()")
    page.goto(path_of(lab, run))
    facts = page.locator("[data-slot='facts']")
    facts.wait_for()
    store.annotations.tag([run], "odd", by="Ada")
    page.get_by_role("radio", name="Time", exact=True).click()
    expect(facts).to_contain_text("odd")
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    assert page.locator(LOSS).count() == 0
    page.evaluate("window.load()")
    drawn(page)
    before, strip = points(page), page.locator("[data-slot='strip']")
    basic.record(store, run, steps=100, first=101)
    share = RankBatch(0, phases={"compute": 59.6, "wait": 40.0})  # and 0.4 s that it evaluated
    store.worker.write(run, [share], progress=(9_600, 12_800, "samples"))
    wait_until(lambda: points(page) == before + 100, "the new points were drawn")
    expect(page.locator(LOSS)).to_have_count(1)
    expect(page.get_by_text("75% done")).to_be_visible()
    expect(strip.get_by_role("img", name="trainer1: compute 60 %, communicate 0 %, wait 40 %")).to_be_visible()


def test_the_log_follows_finds_and_offers_its_file(lab: Lab, page: Page, run: int) -> None:
    page.goto(path_of(lab, run, "&section=Log"))
    text = page.locator(".pl-log-text")
    expect(text).to_contain_text("second line")
    with (lab.home.run_folder(run) / "logs" / "worker.log").open("a") as log:
        log.write("third <b>line</b>\n")
    expect(text).to_contain_text("third <b>line</b>")
    page.get_by_role("searchbox", name="Find").fill("THIRD")
    expect(text).not_to_contain_text("second")
    expect(text.locator("mark")).to_have_text("third")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_text() == "first line\nsecond line\nthird <b>line</b>\n"


def test_a_histogram_grows_with_its_run_on_the_same_node(lab: Lab, page: Page, store: Store, run: int) -> None:
    def push(value: int, count: int) -> None:
        points = [Point("perf/staleness", step, float(value), step / 50) for step in range(count)]
        store.worker.write(run, [RankBatch(0, points, histograms={("staleness", value): count})])

    page.goto(path_of(lab, run))
    page.locator(LOSS).locator(".nsewdrag").wait_for()
    expect(page.get_by_role("radio", name="Histograms")).to_have_count(0)
    push(1, 10)
    page.get_by_role("radio", name="Histograms").click()
    bars, heat = page.locator(".pl-figure").first, page.locator(".pl-figure").last
    wait_until(lambda: bars.evaluate("plot => plot.data?.[0].y") == [10], "the bar was drawn")
    settle(page)
    expect(page.locator(".pl-figure:has(.nsewdrag)")).to_have_count(2)
    heat.evaluate("plot => { plot.marked = true; }")
    push(3, 20)
    wait_until(lambda: bars.evaluate("plot => plot.data[0].y") == [10, 20], "the new bar was drawn")
    wait_until(
        lambda: heat.evaluate("plot => plot.data[0].z.flat().reduce((sum, count) => sum + count, 0)") == 30,
        "the heat holds every push",
    )
    assert heat.evaluate("plot => plot.marked === true")
    assert heat.evaluate("plot => plot.data[0].colorscale.length") == 3
    heat.evaluate(
        "plot => { const draw = Plotly.react; Plotly.react = (node, ...more) => { node.redrawn = true; return "
        "draw(node, ...more); }; }"
    )
    store.worker.write(run, [], progress=(9_600, 12_800, "samples"))
    expect(page.get_by_text("75% done")).to_be_visible()
    settle(page)
    assert heat.evaluate("plot => plot.redrawn") is None, "nothing was pushed, so nothing is drawn"


@pytest.mark.parametrize(
    ("path", "button", "field", "typed"),
    [
        ("/runs?show=active", "Columns", "Columns", "accur"),
        ("/runs?show=active", "Filters", "Experiment", "hog"),
        ("/compare?runs={run}", "", "Metrics", "accur"),
        ("/compare?runs={run}", "", "Columns", "accur"),
    ],
)
def test_what_is_typed_to_find_an_option_outlives_updates(
    lab: Lab, page: Page, store: Store, run: int, path: str, button: str, field: str, typed: str
) -> None:
    page.goto(f"{lab.address}{path.format(run=run)}")
    settle(page)
    if button:
        page.get_by_role("button", name=button, exact=True).click()
    search = page.get_by_role("combobox", name=field, exact=True)
    choice = page.get_by_test_id("stMultiSelect").filter(has=search)
    chosen = choice.inner_text()
    search.fill(typed)
    page.evaluate(COUNT_RUNS)
    for part in range(2):
        before = page.evaluate("window.ended")
        basic.record(store, run, steps=20, first=101 + 20 * part)
        page.wait_for_function("before => window.ended > before", arg=before)
        settle(page)
        expect(search).to_have_value(typed)
    assert choice.inner_text() == chosen
