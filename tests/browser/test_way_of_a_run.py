"""The main path by hand: launch, watch, reload, restart, find again."""

import io
import re
from collections.abc import Callable
from urllib.parse import urljoin

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from engine.experiments.dppo.evaluation import write_gif
from engine.recorder import Point
from engine.rl.kinds import PICTURE
from engine.store import RankBatch, Store
from tests.browser.conftest import Console, Lab
from tests.browser.places import ran, settle
from tests.browser.replay import launch
from tests.labs import basic
from tests.waiting import wait_until

pytestmark = pytest.mark.browser
RUN_MS = 600_000


def test_a_first_visit_launches_hogwild_watches_it_and_finds_it_again_after_a_restart(
    real: Console, page: Page
) -> None:
    page.goto(real.address)
    expect(page.get_by_role("button", name="Run quick Hogwild!")).to_be_visible()
    page.goto(f"{real.address}/launch?experiment=hogwild&preset=quick&set=epochs:3")
    assert launch(page, "Launch", to="run") == 1
    drawn(page, "train/loss|0", "train/loss|1")
    expect(page.get_by_text("finished", exact=True)).to_be_visible()
    expect(page.get_by_text("Completed successfully")).to_be_visible()
    drawn(page, "test/accuracy")

    page.reload()
    expect(page.get_by_text("finished", exact=True)).to_be_visible()
    drawn(page, "test/accuracy")

    real.stop()
    real.start()
    page.goto(f"{real.address}/runs")
    row = page.get_by_role("row", name="Hogwild!")
    expect(row).to_contain_text("finished")
    expect(row).to_contain_text("Ada")
    page.get_by_role("checkbox", name="Select 1:", exact=False).check()
    page.get_by_role("link", name="Open run 1").click()
    page.wait_for_url("**/run?run=1")
    expect(page.get_by_role("heading", name="Run 1: Hogwild!")).to_be_visible()


def test_a_run_is_cloned_its_clone_cancelled_in_the_table_and_retried_as_their_tree_shows(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/run?run={lab.small.stale}&section=Ranks")
    page.get_by_role("button", name="Clone").click()
    expect(page).to_have_url(re.compile("experiment=async_sgd"))
    settle(page)
    epochs = page.get_by_role("spinbutton", name="Epochs")
    epochs.fill("1000")
    with ran(page):
        epochs.press("Enter")
    run = launch(page, "Launch", to="run")
    expect(page.get_by_role("radio", name="Overview")).to_be_checked()  # not the section that the other run was left in
    with Store.open(lab.home) as store:
        basic.drive(store, lab.home, run, "running")
        assert store.read.runs.one(run).config["epochs"] == 1000
        expect(page.get_by_text("running", exact=True).first).to_be_visible()
        page.get_by_test_id("stTopNav").get_by_role("link", name="Runs", exact=True).click()
        page.get_by_role("heading", name="Runs", exact=True).wait_for()
        settle(page)  # the page that is left has such a button too
        page.get_by_role("checkbox", name=f"Select {run}:", exact=False).check()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Cancel 1 run").click()
        expect(page.get_by_role("row", name=f"{run}: ", exact=False)).to_contain_text("stopping")
        store.claims.end(run, "cancelled", "Cancelled by Ada.")
    expect(page.get_by_role("row", name=f"{run}: ", exact=False)).to_contain_text("Cancelled by Ada.")
    page.goto(f"{lab.address}/run?run={run}")
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url(f"**/run?run={run + 1}")
    page.get_by_text("Tree of 3 runs").click()
    tree = page.get_by_role("table", name="Tree of runs")
    expect(tree.get_by_role("row")).to_have_count(4)
    expect(tree).to_contain_text(f"run {run} Asynchronous SGD, quick, epochs 1000, cancelled")
    expect(tree).to_contain_text("→ 1000")
    expect(tree.locator("i.pl-dot.pl-cancelled")).to_have_count(1)


def test_an_agents_run_is_watched_with_its_queue_and_a_drawn_episode_and_cancelled(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/launch?experiment=dppo&preset=quick")
    run = launch(page, "Launch", to="run")
    with Store.open(lab.home) as store:
        basic.drive(store, lab.home, run, "running")
        write_gif(
            lab.home.run_folder(run) / PICTURE, [np.full((80, 120, 3), 9 * number, np.uint8) for number in range(8)], 25
        )
        points = [
            Point(name, step, float(step % 3), step / 5)
            for name in ("charts/episodic_return", "perf/queue_depth")
            for step in range(20)
        ]
        store.worker.write(run, [RankBatch(0, points)])
        drawn(page, "charts/episodic_return", "perf/queue_depth|0")
        episode(page)
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.get_by_role("button", name="Cancel run")).to_be_visible()
        store.worker.write(run, [], progress=(9_600, 12_800, "steps"))
        expect(page.get_by_text("75% done")).to_be_visible()  # behind the dialog
        page.get_by_role("button", name="Cancel run").click()
        expect(page.get_by_text("stopping", exact=True).first).to_be_visible()
        store.claims.end(run, "cancelled", "Cancelled by Ada.")
        expect(page.get_by_text("Cancelled by Ada.")).to_be_visible()


def drawn(page: Page, *curves: str) -> None:
    """Wait until each of these curves has points on the page."""
    page.locator("".join(f"[data-drawn*='{curve}']" for curve in curves)).wait_for(state="attached", timeout=RUN_MS)


def legend(page: Page) -> None:
    expect(page.locator("[data-metric='charts/episodic_return_last_100'] .legend")).to_contain_text(
        "Target: 475", timeout=RUN_MS
    )


def episode(page: Page) -> None:
    """See the drawn episode move."""
    page.get_by_test_id("stButtonGroup").get_by_text("Episode", exact=True).click(timeout=RUN_MS)
    picture = page.get_by_test_id("stImage").locator("img")
    expect(picture).to_be_visible(timeout=RUN_MS)
    taken: list[bytes] = []

    def is_taken() -> bool:
        """Take the picture that is shown; the next one takes its place, and the file away, each second."""
        answer = page.request.get(urljoin(page.url, picture.get_attribute("src")))
        taken.append(answer.body())
        return answer.ok

    wait_until(is_taken, "a picture was taken before the next one came")
    with Image.open(io.BytesIO(taken[-1])) as found:
        assert found.format == "GIF" and found.is_animated


def gantt(page: Page) -> None:
    page.get_by_test_id("stButtonGroup").get_by_text("Pipeline", exact=True).click(timeout=RUN_MS)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.pl-figure')].some(plot => plot.data?.[0]?.name === 'forward' && "
        "plot.data[1]?.name === 'backward')"
    )
    expect(page.get_by_text("Max speed-up here")).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "settings", "curves", "see"),
    [
        ("parameter_server", "epochs:1000", ("train/loss|1", "train/loss|2"), None),
        ("async_sgd", "epochs:1000", ("train/loss|1", "train/loss|2"), None),
        ("sync_sgd", "rounds:10000", ("train/loss|0", "train/loss|1"), None),
        ("batched_reinforce", "episodes:10000", ("charts/episodic_return", "charts/running_length|0"), legend),
        (
            "dppo",
            "stop_when_solved:false&set=total_steps:100000000&set=render_every_s:1",
            ("charts/episodic_return", "perf/queue_depth|0"),
            episode,
        ),
        ("pipeline", "batches:100000", ("train/loss|1", "perf/bubble_share|0"), gantt),
    ],
)
def test_a_run_of_each_method_is_launched_watched_and_cancelled(
    console: Console, page: Page, name: str, settings: str, curves: tuple[str, str], see: Callable[[Page], None] | None
) -> None:
    page.goto(f"{console.address}/launch?experiment={name}&preset=quick&set={settings}")
    launch(page, "Launch", to="run")
    drawn(page, *curves)
    if see:
        see(page)
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("button", name="Cancel run")).to_be_visible()
    behind = page.get_by_text("% done (")
    expect(behind).not_to_have_text(behind.inner_text(), timeout=RUN_MS)  # the page behind the confirmation has news
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_text("Cancelled by Ada.").first).to_be_visible(timeout=RUN_MS)
