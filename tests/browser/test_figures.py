"""The cards of the published figures: each has a picture and one button, and leads to the page of its figure."""

import pytest
from playwright.sync_api import Page, expect

from engine.published import FIGURES
from engine.published.comparison import sweeps_of
from engine.store import Reader
from tests.browser.conftest import Lab
from tests.browser.places import settle

pytestmark = pytest.mark.browser
TRACES = """() => Object.fromEntries([...document.querySelectorAll('.st-key-figure-cards .pl-figure')].map((each) =>
  [each.getAttribute('aria-label').split(', measured')[0], each._fullData.map((trace) => trace.name)]))"""


def test_each_card_has_a_picture_and_one_button_and_leads_to_its_figure(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/figures")
    buttons = page.locator(".st-key-figure-cards [data-testid^=stBaseButton]").locator("visible=true")
    expect(buttons).to_have_count(len(FIGURES))
    settle(page)
    drawn = page.evaluate(TRACES)
    assert len(drawn) == len(FIGURES)
    assert drawn["Batched RPC: time by observers"] == [], "neither published as numbers nor measured"
    assert drawn["Hogwild! on MNIST: 98.98 %"] == ["published"]
    assert {"measured", "published, at the actual splits"} <= set(drawn["Pipeline: time by splits, as actually run"])
    labels = buttons.all_inner_texts()
    with Reader.open(lab.home) as reader:  # other tests may have launched a figure's sweep in this lab
        measured = sum(bool(sweeps_of(reader, each)) for each in FIGURES)
    assert labels.count("View results") == measured >= 2
    assert sum(label.startswith("Launch reduced") for label in labels) == len(FIGURES) - measured
    page.locator(".st-key-view-sync_sgd").get_by_role("button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Synchronous SGD on MNIST: 97.34, 97.94, 97.96 %")
    expect(page).to_have_url(f"{lab.address}/figures?figure=sync_sgd")
    expect(page.get_by_role("table", name="Published values of Synchronous SGD")).to_be_visible()
    page.get_by_role("link", name="Figures", exact=True).last.click()
    expect(page.get_by_role("heading", name="Figures", level=1)).to_be_visible()
