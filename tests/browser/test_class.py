"""A class: its teacher opens an exercise; six students predict, launch and hand in, each in a browser of their own; the
teacher projects all predictions with the results, exports them and ends the class.
"""

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from engine.exercises.attempts import close_exercise
from engine.home import Home
from engine.store import Reader
from engine.store.exercises import ExerciseAttempt
from tests.browser.conftest import FLAGS, KEPT, Console, Lab, _playwright, chromium
from tests.browser.places import settle
from tests.labs import classes
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.browser
STUDENTS = ("Ada", "Barbara", "Edsger", "Grace", "Leslie", "Margaret")
RUNS_S = 600.0
TRACES = "() => document.querySelector('.pl-figure')?._fullData?.map((trace) => [trace.name, Array.from(trace.y)])"
AT = "/exercises?exercise=accuracy"


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Give a Chromium in which each window has cookies of its own."""
    chromiums = KEPT.get(_playwright).chromium
    with ExitStack() as stack:
        found = chromiums.launch(executable_path=chromium(), args=FLAGS, timeout=PATIENCE_S * 1000)
        stack.callback(found.close)
        yield found


@contextmanager
def window(browser: Browser, address: str, name: str) -> Iterator[Page]:
    """Open the exercise in a window of its own, as a person with this name."""
    with browser.new_context(reduced_motion="reduce", viewport={"width": 1300, "height": 1400}) as opened:
        opened.set_default_timeout(PATIENCE_S * 1000)
        said = opened.request.post(f"{address}/api/name", data={"name": name}, headers={"origin": address})
        assert said.ok, said.text()
        page = opened.new_page()
        page.goto(address + AT)
        yield page


def attempts(home: Home) -> list[ExerciseAttempt]:
    with Reader.open(home) as reader:
        return reader.exercises.attempts()


def hold_class(home: Home, address: str, browser: Browser, run: Callable[[], None]) -> None:
    """Go through a class; `run` brings the launched runs to their end."""
    with ExitStack() as stack:
        teacher, *pages = (stack.enter_context(window(browser, address, name)) for name in ("Teacher", *STUDENTS))
        teacher.get_by_text("Class", exact=True).click()
        expect(teacher.get_by_role("img", name=f"QR code of {address}{AT}")).to_be_visible()
        teacher.get_by_role("button", name="Open for the class").click()
        expect(teacher.get_by_text("Opened by Teacher, without a deadline.")).to_be_visible()

        for at, page in enumerate(pages):
            expect(page.get_by_role("button", name="Launch", exact=True)).to_be_disabled()
            page.get_by_role("textbox", name="Test accuracy").fill(str(70 + 5 * at))
            press = page.get_by_role("button", name="Predict", exact=True)
            launch = page.get_by_role("button", name="Launch", exact=True, disabled=False)
            before = press.bounding_box()
            press.click()
            expect(launch).to_be_visible()
            after = launch.bounding_box()
            assert before and after and before["x"] + before["width"] < after["x"], "a double click does not launch"
            launch.click()
            expect(page.get_by_role("link", name=re.compile(r"^[Rr]un \d")).first).to_be_visible()
        wait_until(lambda: all(each.runs for each in attempts(home)), "all have launched")
        assert [each.people for each in attempts(home)] == [(name,) for name in STUDENTS]

        teacher.wait_for_function(f"() => ({TRACES})()?.[0]?.[1]?.length === 6")  # nobody touched the page
        assert teacher.evaluate(TRACES) == [["Predicted", [70, 75, 80, 85, 90, 95]]]
        run()
        for page in pages:
            expect(page.get_by_text("Measured:", exact=False)).to_be_visible(timeout=RUNS_S * 1000)
            page.get_by_role("textbox", name="Answer 1").fill("One pass is little.")
            page.get_by_role("button", name="Hand in").click()
            expect(page.get_by_text("Handed in by", exact=False)).to_be_visible()

        expect(teacher.locator("tr", has_text="handed in")).to_have_count(6)
        teacher.get_by_text("Reveal results", exact=True).click()
        teacher.wait_for_function(f"() => ({TRACES})()?.length === 2")
        name, heights = teacher.evaluate(TRACES)[1]
        with Reader.open(home) as reader:
            ids = [run_id for each in attempts(home) for run_id in each.runs]
            last = [run.last["test/accuracy"] for run in reader.runs.some(ids)]
        assert name == "Measured, mean of 6" and heights == pytest.approx([sum(last) / 6] * 2)
        teacher.locator(".modebar-btn[data-title^=Present]").click()
        expect(teacher.locator(".pl-present")).to_be_visible()
        teacher.keyboard.press("Escape")
        teacher.goto(f"{address}/exercises")
        with teacher.expect_download() as saved:
            teacher.get_by_role("button", name="Export CSV").click()
        rows = list(csv.DictReader(saved.value.path().read_text("utf-8-sig").splitlines()))
        assert [(row["person"], row["state"], row["answers"]) for row in rows] == [
            (name, "handed in", "1. One pass is little.") for name in STUDENTS
        ]
        teacher.get_by_role("button", name="End the class").click()
        dialog = teacher.get_by_role("dialog")
        dialog.get_by_role("button", name="End the class").click()
        wait_until(lambda: not attempts(home), "the class has ended")


def test_a_class_predicts_runs_and_hands_in_while_its_teacher_watches(still: Home, browser: Browser) -> None:
    """The runs are played."""
    classes.write(still, "accuracy")
    console = Console(still)
    console.start()
    try:
        hold_class(
            still, console.address, browser, lambda: [classes.play(still, each) for each in attempts(still)] and None
        )
    finally:
        console.stop()


def test_a_curve_is_drawn_by_pointer_keys_or_typed_values(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/exercises?exercise=pipeline_bubble")
    points = page.get_by_role("slider", name=re.compile("Bubble share"))
    expect(points).to_have_count(4)
    expect(points.nth(1)).to_have_attribute("aria-valuetext", "not set")
    points.nth(1).focus()
    page.keyboard.press("Home")
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowUp")
    expect(points.nth(1)).to_have_attribute("aria-valuetext", "11 %")
    expect(page.get_by_text("3 of 4 values to set.")).to_be_visible()
    page.get_by_text("Type the values instead").click()
    expect(page.get_by_role("textbox", name="splits 2")).to_have_value("11")
    page.get_by_role("textbox", name="splits 8").fill("40")
    page.keyboard.press("Enter")
    expect(points.nth(3)).to_have_attribute("aria-valuetext", "40 %")
    last = points.nth(3).bounding_box()
    assert last
    page.mouse.move(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2 - 40, steps=4)
    page.mouse.up()
    expect(page.get_by_role("textbox", name="splits 8")).not_to_have_value("40")
    expect(points.nth(1)).to_have_attribute("aria-valuetext", "11 %")
    page.get_by_role("link", name="bubble").first.click()
    expect(page.get_by_role("dialog", name="Definition")).to_contain_text("stages are idle")


def test_the_chart_of_a_closed_exercise_takes_no_prediction(lab: Lab, page: Page) -> None:
    close_exercise(lab.home, "hogwild_trainers", by="Teacher")
    page.goto(f"{lab.address}/exercises?exercise=hogwild_trainers")
    expect(page.get_by_text("so a new attempt is not accepted")).to_be_visible()
    chart = page.locator(".pl-draw")
    expect(chart.locator("circle").first).to_be_visible()
    assert chart.evaluate("chart => chart.inert")


def test_on_a_phone_the_menu_closes_and_keys_scroll_a_fresh_page(lab: Lab, browser: Browser) -> None:
    with browser.new_context(viewport={"width": 390, "height": 700}, reduced_motion="reduce") as phone:
        page = phone.new_page()
        page.goto(lab.address)
        page.get_by_test_id("stExpandSidebarButton").click()
        page.get_by_role("link", name="Exercises", exact=True).click()
        expect(page.get_by_role("heading", name="All exercises")).to_be_visible()
        expect(page.get_by_role("link", name="Machine", exact=True)).not_to_be_in_viewport()
        page.goto(f"{lab.address}/exercises?exercise=pipeline_bubble")
        expect(page.get_by_role("heading", name="1 Predict")).to_be_visible()
        settle(page)
        page.keyboard.press("PageDown")
        page.wait_for_function("() => document.querySelector('.stMain').scrollTop > 0")


@pytest.mark.long  # six real runs, 60 s; they are played above
def test_the_runs_of_a_class_are_carried_out_one_after_the_other(console: Console, browser: Browser) -> None:
    classes.write(console.home, "accuracy")
    hold_class(console.home, console.address, browser, lambda: None)
