"""The queue in the console: why a run waits, the order, what can be done about it, and what a launch would meet."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.actions.queue_actions import takes
from app.actions.sweep_forecast import caveats
from app.core.formatting import size
from app.ui import config_form
from engine.access.quotas import Limits, set_limits
from engine.commands.catalogue import add_environment, remove
from engine.home import Home
from engine.queue.estimates import Estimate, History
from engine.queue.sweep_estimate import Outlay
from engine.store import Demand, Launch, MachineSample, ProcessIdentity, Reader, Store
from engine.store.records import Status
from engine.system.machine import machine
from engine.system.processes import me
from tests.app.reading import html, opened, said
from tests.app.runs.drawn_table import rows_of, tick
from tests.labs import basic
from tests.labs.people import people, sign_in
from tests.labs.small import without_a_runner


def press(test: AppTest, label: str) -> AppTest:
    next(button for button in test.button if button.label == label).click()
    return test.run()


def form(**query: Any) -> AppTest:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick", **query})
    test.session_state["person"] = "Ada"
    return test


def test_a_waiting_run_says_why_on_its_page_and_in_the_list(home: Home, lab: dict[Status, int]) -> None:
    test = opened("run", {"run": str(lab["queued"])})
    assert "Waits for " in said(test)
    assert f"run {lab['starting']} holds" in said(test)
    listed = opened("runs")
    states = {row["key"]: row["Status"] for row in rows_of(listed)}
    assert f"run {lab['starting']} holds" in states[f"run-{lab['queued']}"]["note"]
    assert any(expander.label == "Queue: 1 queued" for expander in listed.expander)


def test_the_estimates_before_a_launch_name_the_load_by_other_programs(home: Home) -> None:
    cores = machine().cores
    for percent, named in ((70.0, True), (5.0, False)):
        with Store.open(home) as store:
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            store.machine.add([MachineSample(at, "host", "cpu_percent", percent)])
        sentence = f"Other programs use {0.7 * cores:.1f} of {cores} cores: it may take longer."
        test = form()
        assert (sentence in said(test)) is named
        test.toggle(key="sweep.on.hogwild").set_value(True)
        assert (sentence in said(test.run())) is named


def test_the_form_says_which_intervals_are_longer_than_the_estimated_run(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "checkpoint_every_s is 30 s, but the run is estimated at {:g} s: it keeps no checkpoint."
    for execution_s, named in ((20.0, True), (31.0, False)):
        found = Estimate(57.0, 57.0, 57.0, 1, execution_s)
        monkeypatch.setattr(History, "estimate", lambda *_, found=found: found)
        assert (note.format(execution_s) in said(form(experiment="sync_sgd").run())) is named


def test_a_run_far_back_is_told_by_its_place_and_one_on_hold_is_never_next(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.queue.forecast.MOST", 0)
    with Store.open(home) as store:
        held, first, second = basic.add(store, "Ada"), basic.add(store, "Ada"), basic.add(store, "Ada")
        store.queue.hold(held, by="Bea")
    assert "On hold." in said(opened("run", {"run": str(held)}))
    assert "Next in the queue." in said(opened("run", {"run": str(first)}))
    assert "Position 2 in the queue." in said(opened("run", {"run": str(second)}))
    notes = {row["key"]: row["Status"]["note"] for row in rows_of(opened("runs"))}
    assert notes == {
        f"run-{held}": "on hold",
        f"run-{first}": "next in the queue",
        f"run-{second}": "position 2 in the queue",
    }


def test_no_queue_is_shown_where_none_waits_and_in_its_order_where_some_do(home: Home) -> None:
    assert not [expander for expander in opened("runs").expander if expander.label.startswith("Queue")]
    with Store.open(home) as store:
        first, second = basic.add(store, "Ada"), basic.add(store, "Grace")
        store.queue.set_priority(second, "high", by="Grace")
        store.queue.hold(first, by="<i>Bea</i>")
    test = opened("runs")
    assert any(expander.label == "Queue: 2 queued, 1 on hold" for expander in test.expander)
    page = html(test)
    table = page[page.index("<table") : page.index("</table>")]
    assert table.index(f"/run?run={second}") < table.index(f"/run?run={first}")
    assert ">Position<" in table and re.findall("<tr><td>(.*?)</td>", table) == ["1", "–"], "one on hold has none"
    assert "held by &lt;i&gt;Bea" in table
    assert "<i>Bea" not in table


def test_a_waiting_run_is_held_released_moved_and_what_became_of_it_is_said(
    home: Home, reader: Reader, store: Store
) -> None:
    first, second = basic.add(store, "Ada"), basic.add(store, "Ada")
    test = opened("run", {"run": str(second)})
    test.session_state["person"] = "Ada"
    test = press(test, "Hold")
    assert not test.exception
    assert "Held by Ada." in said(test)
    test = press(test, "Release")
    test = press(test, "Move to front")
    assert [run.id for run in reader.queue.waiting()] == [second, first]
    test = press(test, "Set priority to low")
    assert (reader.runs.one(second).terms.priority, reader.runs.one(second).held_by) == ("low", None)
    assert [run.id for run in reader.queue.waiting()] == [first, second]
    run_id = basic.add(store, "Ada")
    test = opened("run", {"run": str(run_id)})
    store.claims.claim(run_id, me(), ())
    button = next(button for button in test.button if button.label == "Hold")
    test = button.click().run()
    assert not test.exception
    assert (reader.runs.one(run_id).status, reader.runs.one(run_id).held_by) == ("starting", None)


def test_queued_runs_are_held_moved_and_prioritized_together_where_they_are_listed(
    home: Home, reader: Reader, store: Store
) -> None:
    one, two, three, four = (basic.add(store, "Ada") for _ in range(4))
    test = opened("runs")
    test.session_state["person"] = "Ada"
    assert "select them in the table above and press Queue" in said(test)
    chosen = [f"run-{run_id}" for run_id in (four, two, three)]
    for label, order in (
        ("Move to front", [two, three, four, one]),
        ("Move to back", [one, two, three, four]),
        ("Set priority to low", [one, two, three, four]),
        ("Set priority to high", [two, three, four, one]),
    ):
        test = press(tick(test, *chosen), label)
        assert not test.exception
        assert [run.id for run in reader.queue.waiting()] == order, label
    test = press(tick(test, *chosen), "Hold")
    assert "Undo" not in " ".join(button.label for button in test.button)
    test = press(tick(test, *chosen[:1]), "Release")
    assert [run.id for run in reader.queue.waiting() if run.held_by == "Ada"] == [two, three]
    test = tick(test, *chosen)
    store.queue.release(two, by="Ada")
    store.claims.claim(two, me(), ())
    test = press(test, "Hold")
    assert not test.exception and "is not queued" not in said(test)
    assert [run.id for run in reader.queue.waiting() if run.held_by] == [three, four], "one that began is left out"
    test = tick(test, f"run-{two}")
    assert "Move to front" not in [button.label for button in test.button]


def test_the_form_says_what_a_run_would_wait_for_and_priority_and_sharing_go_with_it(
    home: Home, reader: Reader
) -> None:
    without_a_runner(home)
    test = form().run()
    assert "No estimate yet (first run of this kind)" in html(test)
    assert "at once" in html(test)
    test.button_group(key="launch.priority").set_value("high").run()
    test.toggle(key="launch.oversubscribe").set_value(True).run()
    test.button(key="once.launch").click().run()
    run = reader.runs.one(1)
    assert (run.terms.priority, run.terms.oversubscribe, run.owner) == ("high", True, "Ada")


def test_the_form_says_what_a_run_would_wait_for(home: Home) -> None:
    without_a_runner(home)
    here = machine()
    with Store.open(home) as store:
        on = store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(here.cores, 0, 1, 1)))
        store.claims.claim(on, me(), (), here.core_ids)
    test = form().run()
    assert f"run {on} holds {here.cores}" in said(test)
    assert "unknown" in html(test)
    test.toggle(key="launch.oversubscribe").set_value(True).run()
    assert "at once" in html(test)
    set_limits(home, Limits(1))
    assert "Ada has 1 running run, and the limit per person is 1" in said(test.run())


@pytest.mark.parametrize("status", ["running", "finished"])
def test_a_run_that_does_not_wait_has_no_place_to_change(home: Home, lab: dict[Status, int], status: Status) -> None:
    test = opened("run", {"run": str(lab[status])})
    assert not {"Hold", "Move to front"} & {button.label for button in test.button}


@pytest.fixture(autouse=True)
def _browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the browser no cookies; AppTest has none of its own."""
    monkeypatch.setattr("app.ui.current_user._cookies", dict)


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sit at a browser whose name is Ada."""
    monkeypatch.setattr("app.ui.current_user._given", lambda: "Ada")


def launch(test: AppTest) -> bool:
    return not next(button for button in test.button if button.key == "once.launch").disabled


def test_the_form_says_what_is_held_and_offers_no_launch_past_it(home: Home, lab: dict[Status, int], ada: None) -> None:
    set_limits(home, Limits(max_queued_per_person=4, max_cores_per_person=64, max_run_time_s=3600))
    test = opened("launch")
    shown = said(test)
    assert "Quota: 1 of 4 queued runs" in shown and "Time limit per run: 1 h" in shown and launch(test)
    set_limits(home, Limits(max_queued_per_person=1))
    test.run()
    assert not launch(test)
    assert "Quota of Ada: 1 of 1 queued runs; another one can't be queued." in test.error[0].value.replace("\\", "")
    home.limits.unlink()
    test.run()
    assert launch(test) and "Quota" not in said(test)


def test_the_machine_page_shows_what_everyone_holds(home: Home, lab: dict[Status, int]) -> None:
    own = {"Zoe without runs": {"max_running_per_person": 1}}
    set_limits(home, Limits(max_running_per_person=2, max_disk_gb=5, people=own))
    with Store.open(home) as store, Reader.open(home) as reader:
        store.disk.note([(run, 3_000_000) for run in store.disk.unmeasured(100)])
        held = {each.person: each for each in reader.quotas.all_held()}
        shown = html(opened("machine"))
    assert "Zoe without runs" in shown, "a person with a quota of their own"
    assert "Usage by person" in shown and "Grace &lt;b&gt;H&lt;/b&gt;" in shown
    assert f"<td>{held['Ada'].running} of 2</td>" in shown and f"<td>{held['Ada'].cores:,}</td>" in shown
    assert f"<td>{size(held['Ada'].disk_bytes)} of 5.0 GB</td>" in shown and held["Ada"].disk_bytes < 1e9


def test_an_environment_of_the_catalogue_can_be_chosen_and_one_that_has_gone_is_pointed_at(home: Home) -> None:
    def field(test: AppTest) -> object:
        return next(box for box in test.selectbox if box.key == "form.dppo.environment")

    add_environment(home, "CliffWalking-v1", by="ada")
    test = opened("launch", {"experiment": "dppo", "preset": "quick", "set": "environment:CliffWalking-v1"})
    assert not test.exception and "CliffWalking-v1" in field(test).options and field(test).value == "CliffWalking-v1"  # type: ignore[attr-defined]
    remove(home, "CliffWalking-v1", by="ada")
    test.run()
    assert not test.exception and field(test).value == "CliffWalking-v1"  # type: ignore[attr-defined]
    assert "environment must be one of" in said(test)


RUNNER = ProcessIdentity("boot", 4243, 78)
ASKED = {"experiment": "parameter_server", "preset": "quick"}


@pytest.fixture
def member(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sit at the browser of a member, in a lab whose runner can make no network namespace."""
    people(home)
    with Store.open(home) as store:
        store.runner.register(RUNNER, cores=2, gpus=0, network="host")
    sign_in(home, monkeypatch, "mo")


def transport(test: AppTest, experiment: str) -> str:
    return str(test.session_state[config_form.key_of(experiment, "transport")])


def can_launch(test: AppTest) -> bool:
    return not next(button for button in test.button if button.key == "once.launch").disabled


def test_the_form_begins_with_a_transport_that_can_be_used_and_refuses_others_with_the_cure(
    member: None, home: Home
) -> None:
    test = opened("launch", ASKED)
    assert transport(test, "parameter_server") == "shared_memory" and can_launch(test)
    test = opened("launch", {**ASKED, "set": "transport:rpc"})
    assert transport(test, "parameter_server") == "rpc" and not can_launch(test)
    assert "Choose transport shared_memory" in test.error[0].value.replace("\\", "")
    with Store.open(home) as store:
        store.runner.register(RUNNER, cores=2, gpus=0, network="namespace")
    test = opened("launch", ASKED)
    assert transport(test, "parameter_server") == "rpc" and can_launch(test)


def test_an_estimate_from_disturbed_runs_alone_says_so() -> None:
    assert takes(Estimate(57.0, 57.0, 57.0, 1, disturbed=True)) == (
        "about 57 s in total, from 1 similar run, disturbed by other programs"
    )
    outlay = Outlay(3, 3, None, 0, 0.1, 0.0, None, 120.0, is_disturbed=True)
    assert "so these times are of a busy machine; on an idle one they are shorter." in " ".join(caveats(outlay))
