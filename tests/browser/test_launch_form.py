"""The launch form: what a keyboard alone can do, and that nothing of it is cut off."""

import pytest
from playwright.sync_api import Page, expect

from engine.store import Reader
from tests.browser.conftest import Lab
from tests.browser.places import LAUNCH, Place, arrive, launched, ran, settle

pytestmark = pytest.mark.browser
MOST_TABS = 80
"""More than any form has fields."""
CUT_OFF = """() => [...document.querySelectorAll('[data-testid=stMain] *')].filter((node) => {
  const hides = getComputedStyle(node).overflowX !== 'visible';
  return hides && node.clientWidth && node.scrollWidth > node.clientWidth + 2 && node.innerText?.trim();
}).map((node) => node.innerText.slice(0, 60))"""


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on the button of that name."""
    button = page.get_by_role("button", name=name, exact=True)
    for _ in range(MOST_TABS):
        if button.evaluate("(node) => node === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not reach {name}.")


def test_a_keyboard_alone_chooses_an_experiment_and_launches_a_run(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}{LAUNCH}")
    page.get_by_role("radio", name="Hogwild!").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("heading", name="Synchronous parallel SGD")).to_be_visible()
    settle(page)
    tab_to(page, "Launch")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Your name")).to_be_focused()
    run = launched(lab.home, page)
    assert (run.experiment, run.owner) == ("sync_sgd", "Ada")


def test_a_click_on_an_experiments_caption_selects_it(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}{LAUNCH}")
    caption = page.get_by_text("One process: the baseline for speed-up")
    caption.wait_for()
    settle(page)
    box = caption.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("heading", name="Reference")).to_be_visible()
    expect(page.get_by_role("radio", name="Reference")).to_be_checked()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (960, 600), (390, 844)])
def test_nothing_of_the_form_is_cut_off_and_launch_is_above_the_fold_of_a_screen(
    lab: Lab, page: Page, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    for name in ("dppo", "pipeline"):
        page.goto(f"{lab.address}{LAUNCH}?experiment={name}&preset=quick")
        launch = page.get_by_role("button", name="Launch", exact=True)
        launch.wait_for()
        settle(page)
        assert page.evaluate(CUT_OFF) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        if width == 1440:
            assert launch.evaluate("(node) => node.getBoundingClientRect().bottom") < height


def test_a_clone_has_the_runs_settings_each_time_and_back_has_what_was_typed(lab: Lab, page: Page) -> None:
    with Reader.open(lab.home) as reader:
        run = reader.runs.one(lab.compared[0])
    epochs, sweep = page.get_by_role("spinbutton", name="Epochs"), page.get_by_role("switch", name="Run a sweep")
    page.goto(f"{lab.address}{LAUNCH}?experiment={run.experiment}&sweep=learning_rate")
    expect(sweep).to_be_checked()
    arrive(page, Place("run", f"/run?run={run.id}", f"Run {run.id}"))
    for _ in range(2):
        page.get_by_role("button", name="Clone").click()
        expect(epochs).to_have_value(str(run.config["epochs"]))
        expect(sweep).not_to_be_checked()
        settle(page)
        epochs.fill("77")
        with ran(page):
            epochs.press("Enter")
        arrive(page, Place("run", f"/run?run={run.id}", f"Run {run.id}"))
    page.go_back()
    expect(epochs).to_have_value("77")
