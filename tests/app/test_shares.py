"""What a person holds of what they may is said before a launch; the catalogue's entries can be chosen in the form at once."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.access.cataloguing import add_environment, remove
from engine.home import Home
from engine.limits import Limits, set_limits
from engine.store import Reader, Store
from engine.store.records import Status
from tests.app.test_pages import opened, said


def html(test: AppTest) -> str:
    return " ".join(str(element.proto.body) for element in test.get("html"))


@pytest.fixture(autouse=True)
def _browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the browser no cookies; AppTest has none of its own."""
    monkeypatch.setattr("app.person._cookies", dict)


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sit at a browser whose name is Ada."""
    monkeypatch.setattr("app.person._given", lambda: "Ada")


def launch(test: AppTest) -> bool:
    return not next(button for button in test.button if button.key == "launch").disabled


def test_the_form_says_what_is_held_and_offers_no_launch_past_it(home: Home, lab: dict[Status, int], ada: None) -> None:
    set_limits(home, Limits(max_queued_per_person=4, max_cores_per_person=64, max_run_time_s=3600))
    test = opened("launch")
    assert "You hold 1 of 4 queued runs" in said(test) and "A run may be on for 1 h at most" in said(test) and launch(test)
    set_limits(home, Limits(max_queued_per_person=1))
    test.run()
    assert not launch(test)
    assert "Ada holds 1 of 1 queued runs, so another one can't be queued." in test.error[0].value.replace("\\", "")
    home.limits.unlink()
    test.run()
    assert launch(test) and "You hold" not in said(test)


def test_the_machine_page_shows_what_everyone_holds(home: Home, lab: dict[Status, int]) -> None:
    set_limits(home, Limits(max_running_per_person=2))
    with Store.open(home) as store, Reader.open(home) as reader:
        store.note_disk([(run, 3_000_000) for run in store.unmeasured(100)])
        held = {each.person: each for each in reader.all_held()}
        shown = html(opened("machine"))
    assert "What each person holds" in shown and "Grace &lt;b&gt;H&lt;/b&gt;" in shown
    assert f"<td>{held['Ada'].running} of 2</td>" in shown and f"<td>{held['Ada'].cores:,}</td>" in shown


def test_an_environment_of_the_catalogue_can_be_chosen_and_one_that_has_gone_is_pointed_at(home: Home) -> None:
    def field(test: AppTest) -> object:
        return next(box for box in test.selectbox if box.key == "form.dppo.environment")

    add_environment(home, "CliffWalking-v1", by="ada")
    test = opened("launch", {"experiment": "dppo", "preset": "quick", "set": "environment:CliffWalking-v1"})
    assert not test.exception and "CliffWalking-v1" in field(test).options and field(test).value == "CliffWalking-v1"  # type: ignore[attr-defined]
    remove(home, "CliffWalking-v1", by="ada")
    test.run()
    assert not test.exception and field(test).value == "CliffWalking-v1"  # type: ignore[attr-defined]
    assert "environment must be one of" in said(test).replace("\\", "")
