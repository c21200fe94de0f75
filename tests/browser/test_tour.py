"""The tour in docs/tour.md, walked: each of its pages shows what the text says in bold. `make tour` takes its pictures
anew.
"""

import io
import os
import re
from collections.abc import Callable

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from engine.home import ROOT, Home
from engine.store import Reader
from tests.browser import consoles
from tests.browser.places import LAUNCH, settle
from tests.browser.replay import launch as by_hand
from tests.labs import duel, small
from tests.labs.small import Lab

pytestmark = pytest.mark.browser
TOUR = ROOT / "docs" / "tour.md"
PICTURES = TOUR.parent / "images" / "tour"
WIDTH_PX, TALLEST_PX, COLOURS, MOST_BYTES = 1200, 1300, 256, 2_000_000
RUN_MS = 600_000
FOR_PICTURES = bool(os.environ.get("PARALLAB_WRITE_DOCS"))
"""Whether pictures are taken: only then the runs of the tour are really carried out."""
ENDS_PX = {"machine": 650}
"""Where a picture ends earlier, above the paths of the machine that it was taken on."""


def launch(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}{LAUNCH}?experiment=hogwild&preset=quick&set=epochs:12")
    page.get_by_role("button", name="Launch", exact=True).wait_for()
    settle(page)
    page.get_by_test_id("stMain").evaluate("(node) => node.scrollTo(0, node.scrollHeight)")


def watch(page: Page, address: str, lab: Lab) -> None:
    run = by_hand(page, "Launch", to="run")
    if not FOR_PICTURES:
        with Reader.open(Home.find()) as reader:
            small.finish(reader.db.home, reader.runs.entry(run), work=20_000, time_s=4.0)
    page.wait_for_function(
        "() => document.querySelector('[data-metric=\"test/accuracy\"]')?._fullData?.[0]?.x?.length >= 4",
        timeout=RUN_MS,
    )


def runs(page: Page, address: str, lab: Lab) -> None:
    expect(page.get_by_text("Completed successfully")).to_be_visible(timeout=RUN_MS)
    page.get_by_text("Table", exact=True).first.click()
    expect(page.get_by_role("table", name=re.compile("Data: ")).first).to_contain_text("trainer1", timeout=RUN_MS)
    page.goto(f"{address}/runs?filter=experiment+%3D%3D+%22hogwild%22&group=true")


def museum(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/museum?exhibit=aliased_weights")
    if FOR_PICTURES:
        page.get_by_role("button", name=re.compile("^Run( again| exhibit)?$")).click()
    expect(page.get_by_text("fault seen", exact=True).first).to_be_visible(timeout=RUN_MS)


def exercise(page: Page, address: str, lab: Lab) -> None:
    page.goto(f"{address}/exercises?exercise=pipeline_bubble")
    box = page.get_by_role("group", name=re.compile("Empty chart")).bounding_box()
    assert box
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.7 * box["height"], steps=5)
    page.mouse.up()
    expect(page.get_by_text("4 of 4 values to set.")).to_have_count(0)


WALK: dict[str, str | Callable[[Page, str, Lab], None]] = {
    "launch": launch,
    "watch": watch,
    "runs": runs,
    "compare": "/compare?runs={lab.runs}&group=trainers",
    "sweep": "/sweep?sweep={lab.sweep}",
    "scaling": "/scaling?runs={lab.runs}",
    "time": "/scaling?runs={lab.runs}&view=Time+breakdown",
    "duel": "/duel?duel=1",
    "pipeline": "/run?run={lab.pipeline}&section=Pipeline",
    "figures": "/figures?figure=sync_sgd",
    "museum": museum,
    "exercise": exercise,
    "machine": "/machine",
    "home": "/",
}
"""The stops by the names of their pictures, in the order of the text: an address, or what is done there. A further one
is a line here and a section there.
"""


@pytest.fixture
def toured(request: pytest.FixtureRequest) -> tuple[str, Lab]:
    """Give the address of a lab and what is in it: the shared one, where runs are played, or for the pictures one of
    its own, which carries them out.
    """
    if not FOR_PICTURES:
        shared: consoles.Lab = request.getfixturevalue("lab")
        return shared.address, shared.small
    home: Home = request.getfixturevalue("home")
    duel.whole(home, "hogwild", "parameter_server", amount=8)
    found = small.fill(home)  # before the console starts, whose runner would claim what is queued for a moment
    return request.getfixturevalue("console").address, found


def sections() -> dict[str, list[str]]:
    """Return for each picture of the tour the words in bold of its section: what one sees there."""
    found = {}
    for section in TOUR.read_text().split("\n## ")[1:]:
        if picture := re.search(r"!\[[^\]]+\]\(images/tour/([a-z-]+)\.png\)", section):
            found[picture[1]] = [" ".join(words.split()) for words in re.findall(r"\*\*(.+?)\*\*", section, re.DOTALL)]
    return found


def test_every_stop_of_the_tour_shows_what_its_text_says(toured: tuple[str, Lab], page: Page) -> None:
    page.set_viewport_size({"width": WIDTH_PX, "height": TALLEST_PX})
    (address, lab), told = toured, sections()
    assert list(told) == list(WALK)
    for name, walk in WALK.items():
        if isinstance(walk, str):
            page.goto(address + walk.format(lab=lab))
        else:
            walk(page, address, lab)
        for words in told[name]:
            expect(
                page.get_by_text(re.compile(re.escape(words))).locator("visible=true").first, f"{words!r} of {name}"
            ).to_be_visible(timeout=RUN_MS)
        settle(page)
        if FOR_PICTURES:
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
        taken.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            PICTURES / f"{name}.png", optimize=True
        )
