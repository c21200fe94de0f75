"""Pages offer a person what the rules allow and nothing else; what is given all the same is refused with a sentence,
and a sign-out ends it all.
"""

import os
import time
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.access.rules import PersonStanding
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import key_of
from tests.app.reading import html, opened, said
from tests.app.runs.drawn_table import rows_of, tick
from tests.labs import people
from tests.labs.people import PEOPLE, SETUP, Lab, sign_in
from tests.waiting import PATIENCE_S

OWNERS = ("mo", "mia")
QUEUE = {
    "Hold": "hold",
    "Move to front": "prefer",
    "Move to back": "yield",
    "Set priority to high": "prefer",
    "Set priority to low": "yield",
}
MARKS = {"Star": "star", "Pin as baseline": "pin", "Archive": "archive"}
SWEEP = {"Pause": "pause sweep", "Extend": "extend sweep", "Cancel all": "cancel sweep"}
FORMS = {"home": "Launch a run", "museum": "Run all exhibits", "runs": "Import"}


@pytest.fixture
def roles(home: Home) -> Lab:
    """Fill a home that has accounts."""
    return people.fill(home)


def offered(test: AppTest) -> dict[str, bool]:
    """Return by label whether a button can be pressed; of several with one label whether each can."""
    assert not test.exception
    found: dict[str, bool] = {}
    for button in test.button:
        found[button.label] = found.get(button.label, True) and not button.disabled
    return found


def boxes(test: AppTest) -> dict[str, bool]:
    """Return by label whether a box of buttons can be opened."""
    found: dict[str, bool] = {}
    nodes: list[Any] = [test.main]
    while nodes:
        node = nodes.pop()
        nodes += getattr(node, "children", {}).values()
        if node.type == "popover":
            found[node.proto.popover.label] = not node.proto.popover.disabled
    return found


def within(test: AppTest, box: str, labels: dict[str, str]) -> dict[str, bool]:
    """Return by label what can be pressed in a box."""
    buttons, can_open = offered(test), boxes(test)[box]
    return {label: can_open and buttons[label] for label in labels}


@pytest.mark.parametrize("name", ["vera", "mo", "ada"])
def test_every_page_offers_what_the_rules_allow(
    home: Home, roles: Lab, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sign_in(home, monkeypatch, name)
    here = PersonStanding(name, PEOPLE[name])

    def may(commands: dict[str, str], owner: str) -> dict[str, bool]:
        return {label: here.may(command, [owner]) for label, command in commands.items()}

    for owner in OWNERS:
        waits, failed = (
            opened("run", {"run": str(ids[owner]), "section": "Notes"}) for ids in (roles.queued, roles.failed)
        )
        assert within(waits, "Queue", QUEUE) == may(QUEUE, owner)
        assert within(failed, "Marks", MARKS) == may(MARKS, owner)
        assert offered(waits)["Cancel"] == here.may("cancel", [owner])
        assert (offered(failed)["Retry"], offered(failed)["Clone"]) == (here.may("retry", [owner]), here.may("launch"))
        assert bool(failed.text_area) == here.may("note", [owner])
        assert ("can stop, retry or edit" in said(failed)) != here.may("note", [owner])
        sweep = offered(opened("sweep", {"sweep": str(roles.sweeps[owner])}))
        assert {label: sweep[label] for label in SWEEP} == may(SWEEP, owner)
    for owner in OWNERS:
        ticked = tick(opened("runs", {"fold": "false"}), f"run-{roles.running[owner]}")
        assert ticked.button(key="runs.cancel").disabled != here.may("cancel", [owner])
        assert ("Clone" in [link.label for link in ticked.get("page_link")]) == here.may("launch")
        waits = tick(opened("runs", {"fold": "false"}), f"run-{roles.queued[owner]}")
        assert within(waits, "Queue", QUEUE) == may(QUEUE, owner)
    ended = tick(opened("runs", {"fold": "false"}), f"run-{roles.failed[OWNERS[0]]}")
    assert ("runs.delete" in [button.key for button in ended.button]) == here.may("delete", OWNERS[:1])
    assert [f"view.change.{roles.views[owner]}" in _changed(home, monkeypatch) for owner in OWNERS] == [
        here.may("rename view", [owner]) for owner in OWNERS
    ]
    assert {page: offered(opened(page))[label] for page, label in FORMS.items()} == dict.fromkeys(
        FORMS, here.may("launch")
    )
    assert boxes(opened("compare", {"runs": "1"}))["Save view"] == here.may("save view")
    left = home.run_folder(9_999)  # which no run has, so there is something to clean up
    left.mkdir(parents=True)
    os.utime(left, (time.time() - 3600,) * 2)
    assert offered(opened("machine")).get("Clean up", False) == here.may("clean up")
    launches(here)


def launches(here: PersonStanding) -> None:
    """Hold that the forms stand there for those who may send them, and for others who may instead."""
    launch = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    for form, key in ((launch, "once.launch"), (opened("duel"), "once.duel.launch")):
        assert any(button.key == key for button in form.button) == here.may("launch")
        assert ("Ask an admin for the member role: ada" in said(form)) != here.may("launch")
    priorities = [list(group.options) for group in launch.button_group if group.key == "launch.priority"]
    assert priorities == (
        [] if not here.may("launch") else [["low", "normal", "high"]] if here.may("prefer") else [["low", "normal"]]
    )


def _changed(home: Home, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the keys of the boxes that change saved views on the Home page."""
    found: set[str] = set()
    with monkeypatch.context() as patch:
        patch.setattr("app.actions.annotations._change", lambda view: found.add(f"view.change.{view.id}"))
        opened("home")
    return found


def test_runs_of_several_people_are_marked_by_who_may_for_all(
    home: Home, roles: Lab, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    def script(ids: list[int]) -> None:
        from app.actions.annotations import baseline_beside, mark_selected
        from engine.home import Home
        from engine.store import Reader

        with Reader.open(Home.find()) as reader:
            runs = reader.runs.some(ids)
            one = runs[0] if len(runs) == 1 else None
            mark_selected(runs, one, baseline_beside(reader, runs[0].experiment) if one else None)

    def marks(*ids: int) -> tuple[AppTest, dict[str, bool]]:
        test = AppTest.from_function(script, kwargs={"ids": list(ids)}, default_timeout=PATIENCE_S).run()
        return test, offered(test) | boxes(test)

    mine, others = roles.failed["mo"], roles.failed["mia"]
    sign_in(home, monkeypatch, "mo")
    test, found = marks(mine, others)
    assert not any(found[label] for label in ("Star", "Tag", "Archive"))
    assert (
        test.button(key="mark.star")
        .help.replace("\\", "")
        .startswith("One of these 2 runs is mia's; members can star a run only")
    )
    assert marks(mine)[1]["Pin as baseline"]
    store.annotations.pin(others, by="mia")
    assert not marks(mine)[1]["Pin as baseline"], "it would take the mark off mia's"
    sign_in(home, monkeypatch, "ada")
    assert all(marks(mine, others)[1].values())


def test_what_slips_through_is_a_sentence_and_a_sign_out_ends_the_next_script_run(
    home: Home, roles: Lab, monkeypatch: pytest.MonkeyPatch, reader: Reader, store: Store
) -> None:
    secret = sign_in(home, monkeypatch, "mo")
    test = opened("runs")
    store.sign_ins.end(key_of(secret))
    test.run()
    assert [title.value for title in test.title] == ["Signed out"]
    assert not test.get("html") or "mia" not in html(test)
    assert not rows_of(test)
    sign_in(home, monkeypatch, "mo")
    test = opened("run", {"run": str(roles.queued["mo"])})
    store.people.set_role("mo", "viewer", by=SETUP)
    monkeypatch.setattr("app.ui.current_user.why_not", lambda *_: None)
    next(button for button in test.button if button.label == "Hold").click().run()
    assert not test.exception
    assert "Only members and admins can put a run on hold; mo is a viewer." in said(test)
    assert reader.runs.one(roles.queued["mo"]).held_by is None
    assert reader.audit.entries(refused=True)[0].command == "hold"
