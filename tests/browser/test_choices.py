"""What a person chooses is what the charts draw: plotly is asked for the plotted points after each choice, on every
page that offers one.

On the way each chart's bar is read: none may offer to send the chart anywhere.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page

from engine.home import Home
from engine.store import Reader
from tests.browser.conftest import Lab
from tests.browser.places import Place, go, settle
from tests.labs import small
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.browser
CHARTS = "[...document.querySelectorAll('.pl-plot, .pl-figure, figure .plot')].filter((plot) => plot._fullData)"
DRAWN = f"""() => {{
  const flat = (value) => (Array.isArray(value) || ArrayBuffer.isView(value) ? [...value].map(flat) : value ?? null);
  return {CHARTS}.map((plot) => ({{
    name: plot.dataset.metric ?? plot.getAttribute('aria-label'),
    title: plot._fullLayout.xaxis.title?.text,
    along: plot.calcdata.map((trace) => trace.flatMap((point) => flat(point.x)).filter((x) => x !== undefined)),
    points: JSON.stringify(plot.calcdata.map((trace) => trace.map(({{ x, y, z, b, s0, s1 }}) => [x, y, z, b, s0, s1].map(flat)))),
    file: plot.dataset.file ?? '',
    ranges: ['xaxis', 'yaxis'].flatMap((axis) => plot._fullLayout[axis].range),
  }}));
}}"""  # noqa: E501
"""Returns what each chart has on the screen, not what it was handed: `calcdata` is what plotly paints from."""
REDRAW = f"() => Promise.all({CHARTS}.map((plot) => window.Plotly.redraw(plot))).then(() => {{}})"
OFFERED = f"""() => {CHARTS}.flatMap((plot) => [
  ...[...plot.querySelectorAll('.modebar-btn')].map((button) => button.dataset.title ?? button.getAttribute('aria-label') ?? '')
    .filter((title) => !/^(Save|Zoom|Pan|Reset|Download|Log y-axis|Dashes and markers|Present)/.test(title)),
  ...(plot._context.showSendToCloud || plot._context.plotlyServerURL ? ['an upload, by its config'] : []),
]).filter((offer, at, all) => all.indexOf(offer) === at)"""  # noqa: E501
"""Returns every button that neither saves nor changes how the chart is shown, and whether the config would let plotly
send a chart.
"""
NOTE_RUNS = """() => {
  window.hasRun = false;
  const app = document.querySelector('[data-testid=stApp]');
  new MutationObserver(() => { window.hasRun = true; }).observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""  # noqa: E501
"""Notes in `window.hasRun` whether the page's script runs from now on: then the choice has reached the console, and
counts.
"""
AXES = {"Step": "steps", "Passes": "passes", "Time": "times_s"}
"""The choices of a curve's axis, and where the store has what is plotted then."""
EACH_KIND = ("run", "run of many points", "compare")
"""Places that together have each way from a choice to a chart: in the browser, by a request, by a script run."""
Chart = dict[str, Any]
Recorded = dict[str, dict[str, list[list[float]]]]


@dataclass(frozen=True)
class Choice:
    """Something that a person chooses on a page."""

    words: str
    make: Callable[[Page], object]
    every: bool = False
    """Whether all charts of the page go by it."""
    axis: str = ""
    """The axis that is chosen by it, where that is one of AXES."""


def radio(name: str, *, every: bool = False) -> Choice:
    return Choice(
        name, lambda page: page.get_by_role("radio", name=name, exact=True).click(), every, name if name in AXES else ""
    )


def toggle(name: str) -> Choice:
    return Choice(name, lambda page: page.get_by_text(name, exact=True).first.click())


def pick(label: str, option: str, *, every: bool = False) -> Choice:
    def make(page: Page) -> None:
        box = page.get_by_role("combobox", name=label).first
        for _ in range(5):  # a browser that was stopped may close the list and ask the console for nothing
            page.evaluate(NOTE_RUNS)
            box.click()
            page.get_by_role("option", name=option, exact=True).click()
            page.keyboard.press("Escape")
            settle(page)
            if page.evaluate("window.hasRun") or box.input_value() in (
                "",
                option,
            ):  # several choices stand beside the box
                return

    return Choice(f"{label} {option}", make, every, option if option in AXES else "")


def target(value: float) -> Choice:
    def make(page: Page) -> None:
        page.get_by_role("spinbutton", name="Target").fill(str(value))
        page.keyboard.press("Enter")

    return Choice(f"Target {value}", make)


def unsmoothed(page: Page) -> None:
    page.get_by_role("slider", name="Smoothing").press("Home")


def choices(lab: small.Lab, curves: int, loss: str) -> Iterator[tuple[Place, Sequence[Choice]]]:
    """Yield each place that has a chart, and what there is to choose that changes it."""
    run = f"/run?run={lab.stale}&axis=Step"
    axes = [radio(name) for name in ("Passes", "Time", "Step")]
    yield Place("run", run, "How old do gradients get?"), axes
    yield Place("run, Histograms", f"{run}&section=Histograms", "Over time, all ranks"), ()
    yield (
        Place("run of many points", f"/run?run={curves}", loss),
        [Choice("Smoothing 0", unsmoothed), radio("Time", every=True)],
    )
    yield (
        Place("run, Pipeline", f"/run?run={lab.pipeline}&section=Pipeline", "Max speed-up here"),
        [pick("Batch", "1"), radio("Without waiting")],
    )
    compare = f"/compare?runs={lab.runs}&group=none"
    along = [pick("X-axis", name, every=True) for name in ("Time", "Updates", "Step", "Passes")]
    grouped = [pick("Group by", "Trainers", every=True), pick("Statistic", "Median"), pick("Band", "min to max")]
    yield Place("compare", compare, "12 compared runs"), [*along, toggle("Log x-axis"), *grouped]
    yield (
        Place("compare of many points", f"/compare?runs={curves}&metrics=train/loss", loss),
        [Choice("Smoothing 0", unsmoothed), pick("X-axis", "Time")],
    )
    yield (
        Place("compare, bars", f"{compare}&tab=bars", "12 compared runs"),
        [pick("Value", "Seed"), pick("Group by", "Trainers")],
    )
    yield (
        Place("compare, scatter", f"{compare}&tab=scatter", "12 compared runs"),
        [pick("X-axis", "Training loss, last"), pick("Y-axis", "Execution time (s)")],
    )
    yield Place("compare, parallel", f"{compare}&tab=parallel", "12 compared runs"), [pick("Colour by", "Seed")]
    measures = [radio(name) for name in ("Efficiency", "Throughput", "Execution time")]
    yield Place("scaling", f"/scaling?runs={lab.runs}", "Fitted laws"), [*measures, target(95)]
    yield (
        Place("time breakdown", f"/scaling?runs={lab.runs}&view=Time+breakdown", "Each bar is the mean"),
        [radio("Every rank")],
    )
    yield Place("staleness", f"/scaling?runs={lab.stale}&view=Staleness", "Mean against N - 1"), ()
    yield (
        Place("sweep", f"/sweep?sweep={lab.sweep}", "Runs counted"),
        [pick("Metric", "Test accuracy (%)"), radio("Scaling"), radio("Time breakdown")],
    )
    yield Place("duel", "/duel?duel=1", "Uncontrolled differences"), [radio("seconds")]
    yield Place("a figure", "/figures?figure=pipeline_as_run", "Exclude start-up"), [toggle("Exclude start-up")]
    yield Place("an exhibit", "/museum?exhibit=aliased_weights", "It <must> be 7."), ()
    yield Place("machine", "/machine", "Last hour"), ()


def recorded(home: Home, run_id: int) -> Recorded:
    """Return where along each axis a run's points lie, by metric and axis, a list for each rank; by steps where passes
    are not counted.
    """
    found: Recorded = {}
    with Reader.open(home) as reader:
        for series in reader.curves.series(run_id, [summary.metric for summary in reader.details.summaries(run_id)]):
            for axis, column in AXES.items():
                along = getattr(series, column)
                found.setdefault(series.metric, {}).setdefault(axis, []).append(
                    list(along if None not in along else series.steps)
                )
    return found


def wrong(before: Sequence[Chart], drawn: Sequence[Chart], choice: Choice, known: Recorded) -> list[str]:
    """Return what of the charts does not follow a choice."""
    if known:
        where = [(chart, known[chart["name"]][choice.axis]) for chart in drawn if chart["name"] in known]
        return [
            f"{chart['name']} is not plotted where it was recorded"
            for chart, along in where
            if chart["along"] != [pytest.approx(xs, abs=1e-3) for xs in along]
        ]
    same = [
        (one["points"], one["ranges"]) == (other["points"], other["ranges"])
        for one, other in zip(before, drawn, strict=False)
    ]
    return (
        ["the plotted points did not change"]
        if len(before) == len(drawn) and (any if choice.every else all)(same)
        else []
    )


def followed(page: Page, choice: Choice, known: Recorded) -> list[str]:
    """Make a choice, and return what of the charts has not followed it before long, or is not drawn as it is held."""
    before = page.evaluate(DRAWN)
    choice.make(page)
    end = time.monotonic() + PATIENCE_S
    while (found := wrong(before, drawn := page.evaluate(DRAWN), choice, known)) and time.monotonic() < end:
        page.wait_for_timeout(50)
    settle(page)
    drawn = page.evaluate(DRAWN)
    page.evaluate(REDRAW)
    whole = page.evaluate(DRAWN)
    found += [
        f"{chart['name']} would be saved as {chart['file']}"
        for chart in drawn
        if not chart["file"].endswith(file_name(chart["name"]))
    ]
    return found + [
        f"{one['name']} against '{one['title']}' shows other points than it holds"
        for one, other in zip(drawn, whole, strict=True)
        if is_other(one, other)
    ]


def file_name(words: str) -> str:
    return "-".join(re.findall("[a-z0-9]+", words.lower())[:8])


def is_other(one: Chart, redrawn: Chart) -> bool:
    """Say whether a chart shows something else once all of it is drawn anew; the room around its points may be a pixel
    more or less.
    """
    (left, right, low, high) = redrawn["ranges"]
    rooms = [abs(right - left)] * 2 + [abs(high - low)] * 2
    moved = [
        abs(end - other) > 0.01 * room for end, other, room in zip(one["ranges"], redrawn["ranges"], rooms, strict=True)
    ]
    return one["points"] != redrawn["points"] or any(moved)


def followed_at(lab: Lab, page: Page, places: Iterable[tuple[Place, Sequence[Choice]]]) -> list[str]:
    """Make the choices of some places, and return what has not followed them, and what offers to send a chart away."""
    found = []
    for place, made in places:
        go(page, lab.address, place)
        known = recorded(lab.home, lab.small.stale) if place.name == "run" else {}
        wait_until(lambda: page.evaluate(DRAWN), f"{place.name} has a chart")
        for choice in made:
            found += [f"{place.name}, {choice.words}: {each}" for each in followed(page, choice, known)]
        found += [f"{place.name} offers {offer}" for offer in page.evaluate(OFFERED)]
    return found


def test_a_choice_of_each_kind_of_page_is_drawn_by_its_charts(lab: Lab, page: Page) -> None:
    every = choices(lab.small, lab.compared[3], "Training loss")
    found = followed_at(lab, page, [(place, made[:2]) for place, made in every if place.name in EACH_KIND])
    assert not found, "\n".join(found)


@pytest.mark.long  # 30 s of processor time; the shorter test above takes each way from a choice to a chart
def test_every_choice_is_drawn_by_its_charts_and_none_of_them_offers_an_upload(lab: Lab, page: Page) -> None:
    found = followed_at(lab, page, choices(lab.small, lab.compared[3], "Training loss"))
    assert not found, "\n".join(found)
