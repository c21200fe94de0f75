"""The tour in docs/tour.md, walked: each of its pages shows what the text says in bold. `make tour` takes its pictures anew."""

import io
import os
import re
from collections.abc import Callable

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from engine.home import ROOT, Home
from tests.app import duel_labs, small_labs
from tests.app.small_labs import Lab
from tests.browser.conftest import Console
from tests.browser.places import LAUNCH, settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
TOUR = ROOT / "docs" / "tour.md"
PICTURES = TOUR.parent / "images" / "tour"
WIDTH_PX, TALLEST_PX, COLOURS, MOST_BYTES = 1200, 1300, 256, 2_000_000
RUN_MS = 600_000
ENDS_PX = {"machine": 650}
"""Where a picture ends earlier, above the paths of the machine that it was taken on."""


def launch(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}{LAUNCH}?experiment=hogwild&preset=quick&set=epochs:12")
    page.get_by_role("button", name="Launch", exact=True).wait_for()
    settle(page)
    page.get_by_test_id("stMain").evaluate("(node) => node.scrollTo(0, node.scrollHeight)")


def watch(page: Page, address: str, lab: Lab) -> None:
    page.get_by_role("button", name="Launch", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/run?run=*")
    page.wait_for_function("() => document.querySelector('[data-metric=\"test/accuracy\"]')?._fullData?.[0]?.x?.length >= 4", timeout=RUN_MS)


def results(page: Page, address: str, lab: Lab) -> None:
    expect(page.get_by_text("All ranks ended their work.")).to_be_visible(timeout=RUN_MS)
    page.get_by_text("Table", exact=True).first.click()
    expect(page.get_by_role("table", name=re.compile("Numbers of: ")).first).to_contain_text("trainer1", timeout=RUN_MS)
    page.goto(f"{address}/results?filter=experiment+%3D%3D+%22hogwild%22&group=true")


def compare(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/compare?runs={lab.runs}&group=trainers")


def sweep(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/sweep?sweep={lab.sweep}")


def scaling(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/scaling?runs={lab.runs}")


def time(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/scaling?runs={lab.runs}&view=Where+the+time+went")


def pipeline(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/run?run={lab.pipeline}&section=Pipeline")


def duel(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/duel?duel=1")


def museum(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/museum?exhibit=aliased_weights")
    page.get_by_role("button", name="Run it", exact=True).click()
    expect(page.get_by_text("caught", exact=True).first).to_be_visible(timeout=RUN_MS)


def home(page: Page, address: str, lab: Lab) -> None:
    page.goto(address)


def figures(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/figures?figure=sync_sgd")


def machine(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/machine")


WALK: dict[str, Callable[[Page, str, Lab], None]] = {
    each.__name__: each for each in (launch, watch, results, compare, sweep, scaling, time, duel, pipeline, figures, museum, machine, home)
}
"""The stops by the names of their pictures, in the order of the text. A further one is a function here and a section there."""


@pytest.fixture(name="lab")
def filled(home: Home) -> Lab:
    """Fill the home before its console starts, whose runner would claim what is queued for a moment."""
    duel_labs.whole(home, "hogwild", "parameter_server", amount=8)
    return small_labs.fill(home)


def sections() -> dict[str, list[str]]:
    """Return for each picture of the tour the words in bold of its section: what one sees there."""
    found = {}
    for section in TOUR.read_text().split("\n## ")[1:]:
        if picture := re.search(r"!\[[^\]]+\]\(images/tour/([a-z-]+)\.png\)", section):
            found[picture[1]] = [" ".join(words.split()) for words in re.findall(r"\*\*(.+?)\*\*", section, re.DOTALL)]
    return found


def test_every_stop_of_the_tour_shows_what_its_text_says(lab: Lab, console: Console, page: Page) -> None:
    page.set_viewport_size({"width": WIDTH_PX, "height": TALLEST_PX})
    told = sections()
    assert list(told) == list(WALK)
    for name, walk in WALK.items():
        walk(page, console.address, lab)
        for words in told[name]:
            expect(page.get_by_text(re.compile(re.escape(words))).locator("visible=true").first, f"{words!r} of {name}").to_be_visible(timeout=RUN_MS)
        settle(page)
        if os.environ.get("PARALLAB_WRITE_DOCS"):
            take(page, name)


def test_the_tours_pictures_are_of_one_width_and_small() -> None:
    pictures = [PICTURES / f"{name}.png" for name in sections()]
    assert sorted(PICTURES.iterdir()) == sorted(pictures)
    assert sum(path.stat().st_size for path in pictures) < MOST_BYTES
    for path in pictures:
        with Image.open(path) as picture:
            assert picture.width == WIDTH_PX, path.name


def take(page: Page, name: str) -> None:
    """Save a picture of the page down to its end, or to where a reader would stop, in few colours."""
    height = page.get_by_test_id("stMainBlockContainer").evaluate(
        "(node) => Math.max(...[...node.children].map((each) => each.getBoundingClientRect().bottom)) + 24"
    )
    size = {"x": 0.0, "y": 0.0, "width": float(WIDTH_PX), "height": float(min(height, ENDS_PX.get(name, TALLEST_PX)))}
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Image.open(io.BytesIO(page.screenshot(clip=size, animations="disabled"))) as taken:
        taken.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)
