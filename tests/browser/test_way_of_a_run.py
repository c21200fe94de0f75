"""The main path by hand: launch, watch, reload, restart, find again."""

import io
import re
from urllib.parse import urljoin

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, wait_until
from tests.browser.places import settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_800)]
RUN_MS = 600_000


def test_a_first_visit_launches_quick_hogwild_watches_it_and_finds_it_again_after_a_restart(console: Console, page: Page) -> None:
    page.goto(console.address)
    page.get_by_role("button", name="Run quick Hogwild!").click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()

    page.wait_for_url("**/run?run=1")
    page.locator("[data-drawn*='train/loss|0'][data-drawn*='train/loss|1']").wait_for(state="attached", timeout=RUN_MS)
    expect(page.get_by_text("finished", exact=True)).to_be_visible(timeout=RUN_MS)
    expect(page.get_by_text("All ranks ended their work.")).to_be_visible()
    page.locator("[data-drawn*='test/accuracy']").wait_for(state="attached")

    page.reload()
    expect(page.get_by_text("finished", exact=True)).to_be_visible()
    page.locator("[data-drawn*='test/accuracy']").wait_for(state="attached")

    console.stop()
    console.start()
    page.goto(f"{console.address}/results")
    cells = page.get_by_test_id("stDataFrame").locator("table")
    expect(cells).to_contain_text("finished")
    expect(cells).to_contain_text("Ada")
    settle(page)
    box = page.get_by_test_id("stDataFrame").locator("canvas").first.bounding_box()
    assert box
    page.mouse.click(box["x"] + 16, box["y"] + 35 + 17)
    page.get_by_role("link", name="Open run 1").click()
    page.wait_for_url("**/run?run=1")
    expect(page.get_by_role("heading", name="Run 1: Hogwild!, quick")).to_be_visible()

    page.get_by_role("button", name="Clone").click()
    expect(page.get_by_text("Launches as Ada.")).to_be_visible()
    expect(page).to_have_url(re.compile("experiment=hogwild"))


def test_a_running_run_is_cancelled_after_a_confirmation(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=hogwild&preset=quick&set=epochs:1000")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    expect(page.get_by_text("running", exact=True).first).to_be_visible(timeout=RUN_MS)
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible(timeout=RUN_MS)
    expect(page.get_by_text("Cancelled by Ada.")).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize(("name", "length"), [("parameter_server", "epochs:1000"), ("async_sgd", "epochs:1000"), ("sync_sgd", "rounds:10000")])
def test_a_data_parallel_run_is_launched_watched_and_cancelled(console: Console, page: Page, name: str, length: str) -> None:
    page.goto(f"{console.address}/launch?experiment={name}&preset=quick&set={length}")
    launch_as_ada(page)
    first = 0 if name == "sync_sgd" else 1
    page.locator(f"[data-drawn*='train/loss|{first}'][data-drawn*='train/loss|{first + 1}']").wait_for(state="attached", timeout=RUN_MS)
    cancel(page)


@pytest.mark.long
def test_reinforce_is_launched_watched_and_cancelled(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=batched_reinforce&preset=quick&set=episodes:10000")
    launch_as_ada(page)
    page.locator("[data-drawn*='charts/episodic_return'][data-drawn*='charts/running_length|0']").wait_for(state="attached", timeout=RUN_MS)
    expect(page.locator("[data-metric='charts/episodic_return'] .legend")).to_contain_text("Solved at 475", timeout=RUN_MS)
    cancel(page)


def test_dppo_is_launched_watched_with_its_queue_and_a_drawn_episode_and_cancelled(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=dppo&preset=quick&set=stop_when_solved:false&set=total_steps:100000000&set=render_every_s:1")
    launch_as_ada(page)
    page.locator("[data-drawn*='charts/episodic_return'][data-drawn*='perf/queue_depth|0']").wait_for(state="attached", timeout=RUN_MS)
    page.get_by_test_id("stButtonGroup").get_by_text("Episode", exact=True).click(timeout=RUN_MS)
    picture = page.get_by_test_id("stImage").locator("img")
    expect(picture).to_be_visible(timeout=RUN_MS)
    taken: list[bytes] = []

    def is_taken() -> bool:
        """Take the picture that is shown; the next one takes its place, and the file away, each second."""
        answer = page.request.get(urljoin(page.url, picture.get_attribute("src")))
        taken.append(answer.body())
        return answer.ok

    wait_until(is_taken, 60, "a picture was taken before the next one came")
    with Image.open(io.BytesIO(taken[-1])) as drawn:
        assert drawn.format == "GIF" and drawn.is_animated
    cancel(page)


def launch_as_ada(page: Page) -> None:
    """Launch what the form holds and follow the run."""
    page.get_by_role("button", name="Launch", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url("**/run?run=1")


def cancel(page: Page) -> None:
    """Cancel the run that is shown, taking time over the confirmation so that the page behind it has news, and see the run end."""
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()
    behind = page.get_by_text("% done (")
    expect(behind).not_to_have_text(behind.inner_text(), timeout=RUN_MS)
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("Cancelled by Ada.")).to_be_visible(timeout=RUN_MS)


@pytest.mark.long
def test_a_pipeline_is_launched_watched_with_its_gantt_chart_and_cancelled(console: Console, page: Page) -> None:
    page.goto(f"{console.address}/launch?experiment=pipeline&preset=quick&set=batches:100000")
    launch_as_ada(page)
    page.locator("[data-drawn*='train/loss|1'][data-drawn*='perf/bubble_share|0']").wait_for(state="attached", timeout=RUN_MS)
    page.get_by_test_id("stButtonGroup").get_by_text("Pipeline", exact=True).click(timeout=RUN_MS)
    bars = "() => [...document.querySelectorAll('.pl-figure')].some(plot => plot.data?.[0]?.name === 'forward' && plot.data[1]?.name === 'backward')"
    page.wait_for_function(bars, timeout=RUN_MS)
    expect(page.get_by_text("Best speed-up here")).to_be_visible()
    cancel(page)
