"""A launch by hand in a lab whose console starts no runner: the test is runner and worker of what was launched, and the
open page follows.
"""

from playwright.sync_api import Page, expect

from engine.store import Reader
from engine.store.records import RunRow
from tests.browser.conftest import Lab


def launch(page: Page, button: str, *, to: str) -> int:
    """Press a button that launches, give the name that is asked for, and return the id of what was launched, whose page
    opens.
    """
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("button", name="Save and launch").click()
    page.wait_for_url(f"**/{to}?{to}=*")
    return int(page.url.rpartition("=")[2])


def launch_sweep(page: Page, address: str, settings: str, values: str, runs: int) -> int:
    """Launch a sweep of quick Hogwild! over numbers of trainers, and return its id."""
    page.goto(f"{address}/launch?experiment=hogwild&preset=quick{settings}")
    page.get_by_text("Run a sweep", exact=True).click()
    page.get_by_role("textbox", name="Values of trainers").fill(values)
    return launch_shown_sweep(page, runs)


def launch_shown_sweep(page: Page, runs: int) -> int:
    """Launch the sweep of the open form once it shows this number of runs, and return its id."""
    expect(page.get_by_text(f"{runs} runs: ")).to_be_visible()
    return launch(page, "Launch sweep", to="sweep")


def runs_of(lab: Lab, sweep: int) -> list[RunRow]:
    with Reader.open(lab.home) as reader:
        return reader.sweeps.runs(sweep)
