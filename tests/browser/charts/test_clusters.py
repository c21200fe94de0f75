"""A sweep on a cluster by hand, on a real Slurm: launched from the form, watched until its curve is whole."""

import pytest
from playwright.sync_api import Page, expect

from engine.access.quotas import Limits, set_limits
from engine.home import Home
from tests.browser.conftest import Console
from tests.browser.replay import launch_shown_sweep
from tests.cluster.conftest import shared_slurm, slurm, slurm_installed
from tests.cluster.slurm import SlurmLab
from tests.labs import clusters

__all__ = ["shared_slurm", "slurm", "slurm_installed"]
pytestmark = [pytest.mark.browser, pytest.mark.cluster]
RUNS_MS = 300_000
POINTS = (
    "() => document.querySelector('.pl-figure')?._fullData?.some(trace => trace.name === 'measured' && "
    "trace.x.length === 2)"
)


def test_a_sweep_is_launched_on_a_cluster_and_its_curve_seen(
    home: Home, slurm: SlurmLab, page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clusters.write(home, shared=tmp_path_factory.mktemp("shared"))
    set_limits(home, Limits(disturbed_above_percent=100))  # the curve is of undisturbed runs
    served = Console(home)
    served.settings |= slurm.environment
    served.start()
    try:
        page.goto(f"{served.address}/launch?experiment=hogwild&preset=quick&set=epochs:2")
        page.get_by_role("radio", name="lab", exact=True).click()
        page.get_by_text("Run a sweep", exact=True).click()
        page.get_by_role("textbox", name="Values of trainers").fill("1, 2")
        sweep = launch_shown_sweep(page, 2)
        expect(page.get_by_text("Runs on", exact=True)).to_be_visible()
        expect(page.locator("a.pl-cell.pl-finished")).to_have_count(2, timeout=RUNS_MS)  # nobody touched the page
        page.wait_for_function(POINTS)
        page.locator("a.pl-cell").first.click()
        page.wait_for_url("**/run?run=*")
        expect(page.get_by_text("on lab").first).to_be_visible()
        page.get_by_role("link", name=f"sweep {sweep}", exact=True).click()
        page.wait_for_url(f"**/sweep?sweep={sweep}")
    finally:
        served.stop()
