"""The queue in the console: why a run waits, the order, what can be done about it, and what a launch would meet."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.home import Home
from engine.limits import Limits, set_limits
from engine.runtime.machine import machine
from engine.runtime.processes import me
from engine.store import Demand, Reader, Store
from engine.store.records import Status
from tests.app import labs
from tests.app.test_pages import opened
from tests.app.test_sweeps import html, words


def press(test: AppTest, label: str) -> AppTest:
    next(button for button in test.button if button.label == label).click()
    return test.run()


def form(**query: Any) -> AppTest:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick", **query})
    test.session_state["person"] = "Ada"
    return test


def test_a_waiting_run_says_why_on_its_page_and_in_the_list(home: Home, lab: dict[Status, int]) -> None:
    test = opened("run", {"run": str(lab["queued"])})
    assert "Waits for " in words(test)
    assert f"run {lab['starting']} holds" in words(test)
    listed = opened("runs")
    assert f"run {lab['starting']} holds" in html(listed)
    assert any(expander.label == "Queue: 1 run waits" for expander in listed.expander)


def test_the_queue_stands_on_the_runs_page_in_its_order(home: Home) -> None:
    with Store.open(home) as store:
        first, second = labs.add(store, "Ada"), labs.add(store, "Grace")
        store.set_priority(second, "high", by="Grace")
        store.hold(first, by="<i>Bea</i>")
    test = opened("runs")
    assert any(expander.label == "Queue: 2 runs wait, 1 of them on hold" for expander in test.expander)
    page = html(test)
    table = page[page.index("<table") : page.index("</table>")]
    assert table.index(f"/run?run={second}") < table.index(f"/run?run={first}")
    assert "held by &lt;i&gt;Bea" in table
    assert "<i>Bea" not in table


def test_a_run_far_back_is_told_by_its_place_and_one_on_hold_is_never_next(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.queue.outlook.MOST", 0)
    with Store.open(home) as store:
        held, first, second = labs.add(store, "Ada"), labs.add(store, "Ada"), labs.add(store, "Ada")
        store.hold(held, by="Bea")
    assert "On hold." in words(opened("run", {"run": str(held)}))
    assert "Next in the queue." in words(opened("run", {"run": str(first)}))
    assert "1 run before it in the queue." in words(opened("run", {"run": str(second)}))
    listed = html(opened("runs"))
    for said in ("<span>on hold</span>", "<span>next in the queue</span>", "<span>1 before it in the queue</span>"):
        assert listed.count(said) == 1


def test_no_queue_is_shown_where_no_run_waits(home: Home) -> None:
    assert not [expander for expander in opened("runs").expander if expander.label.startswith("Queue")]


def test_a_waiting_run_is_held_released_moved_and_given_a_priority(home: Home) -> None:
    with Store.open(home) as store:
        first, second = labs.add(store, "Ada"), labs.add(store, "Ada")
    test = opened("run", {"run": str(second)})
    test.session_state["person"] = "Ada"
    test = press(test, "Hold")
    assert not test.exception
    assert "Held by Ada." in words(test)
    test = press(test, "Release")
    test = press(test, "Move to the front")
    with Reader.open(home) as reader:
        assert [run.id for run in reader.queue()] == [second, first]
    test = press(test, "Make its priority low")
    with Reader.open(home) as reader:
        assert (reader.run(second).terms.priority, reader.run(second).held_by) == ("low", None)
        assert [run.id for run in reader.queue()] == [first, second]


def test_what_became_of_a_run_meanwhile_is_said_by_the_store(home: Home) -> None:
    with Store.open(home) as store:
        run_id = labs.add(store, "Ada")
        test = opened("run", {"run": str(run_id)})
        store.claim(run_id, me(), ())
    button = next(button for button in test.button if button.label == "Hold")
    test = button.click().run()
    assert not test.exception
    with Reader.open(home) as reader:
        assert (reader.run(run_id).status, reader.run(run_id).held_by) == ("starting", None)


def test_the_form_says_how_long_like_runs_took_and_that_this_one_would_start_at_once(home: Home) -> None:
    test = form().run()
    assert "not known: no like run has finished here" in html(test)
    assert "at once" in html(test)


def test_the_form_says_what_a_run_would_wait_for(home: Home) -> None:
    here = machine()
    with Store.open(home) as store:
        on = store.add_run("hogwild", {}, owner="Ada", demand=Demand(here.cores, 0, 1, 1))
        store.claim(on, me(), (), here.core_ids)
    test = form().run()
    assert f"run {on} holds {here.cores}" in words(test)
    assert "not known when" in html(test)
    test.toggle(key="launch.oversubscribe").set_value(True).run()
    assert "at once" in html(test)
    set_limits(home, Limits(1))
    assert "Ada has 1 run on, the most a person may have" in words(test.run())


def test_priority_and_sharing_go_with_the_run(home: Home) -> None:
    test = form().run()
    test.button_group(key="launch.priority").set_value("high").run()
    test.toggle(key="launch.oversubscribe").set_value(True).run()
    test.button(key="launch").click().run()
    with Reader.open(home) as reader:
        run = reader.run(1)
    assert (run.terms.priority, run.terms.oversubscribe, run.owner) == ("high", True, "Ada")


@pytest.mark.parametrize("status", ["running", "finished"])
def test_a_run_that_does_not_wait_has_no_place_to_change(home: Home, lab: dict[Status, int], status: Status) -> None:
    test = opened("run", {"run": str(lab[status])})
    assert not {"Hold", "Move to the front"} & {button.label for button in test.button}
