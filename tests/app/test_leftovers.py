"""What is left over stands on the Machine page; Clean up asks first, takes it away, and says what became of it."""

import os
import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from streamlit.testing.v1 import AppTest

from engine.home import Home
from engine.runtime.processes import identity
from engine.store import Demand, ProcessIdentity, Reader, Store
from tests.app.test_pages import opened, said
from tests.app.test_sweeps import html

HOUR_AGO = time.time() - 3600


@pytest.fixture
def lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """Give the home a lost run whose worker is still there, a live one with a worker too, and a folder without a run."""
    for name, seconds in {"GRACE_S": 0.0, "TERMINATE_S": 60.0, "KILL_S": 60.0}.items():
        monkeypatch.setattr(f"engine.upkeep.leftovers.{name}", seconds)
    monkeypatch.setattr("engine.upkeep.leftovers.left_segments", lambda *_: iter(()))  # other tests have theirs in the same shared memory
    processes = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
    with Store.open(home) as store:
        for process in processes:
            run_id = store.add_run("hogwild", {}, owner="Ada", demand=Demand(1, 0, 1, 1))
            worker = identity(process.pid)
            assert isinstance(worker, ProcessIdentity)
            store.claim(run_id, worker, ())
        store.end(1, "lost", "The worker is gone.")
    home.run_folder(77).mkdir(parents=True)
    os.utime(home.run_folder(77), (HOUR_AGO, HOUR_AGO))
    yield processes[0]
    assert processes[1].poll() is None, "the live run's worker is not touched"
    for process in processes:
        process.kill()
        process.wait()


def asked() -> AppTest:
    """Open the dialog with what is left over now, above the section: a click in it reruns the whole script here, not only the dialog as in a browser."""

    def script() -> None:
        import streamlit as st

        from app.leftovers import ask_clean, section
        from engine.home import Home
        from engine.store import Reader
        from engine.upkeep.leftovers import leftovers

        with Reader.open(Home.find()) as reader:
            found = leftovers(Home.find(), reader)
        if "listed" not in st.session_state:
            st.session_state["listed"] = found
        if not st.session_state.get("machine.cleaned"):
            ask_clean(st.session_state["listed"])
        section(found)

    test = AppTest.from_function(script, default_timeout=120)
    test.session_state["person"] = "Ada"
    return test.run()


def clean_now(test: AppTest) -> AppTest:
    test.button(key="clean-up-now").click().run()
    assert not test.exception
    return test


def test_what_is_left_over_is_listed_with_the_run_that_it_was_of(home: Home, lost: "subprocess.Popen[bytes]") -> None:
    shown = html(opened("machine"))
    assert f">{lost.pid}</div>" in shown
    assert 'Started for <a href="/run?run=1">run 1</a>, which has ended: sleep 600' in shown
    assert f">{home.run_folder(77)}</div>" in shown
    assert "No run of this store has this folder." in shown


def test_clean_up_asks_first_then_cleans_and_says_so(home: Home, lost: "subprocess.Popen[bytes]") -> None:
    test = opened("machine").button(key="clean-up").click().run()
    assert re.search(r"1 process \(.* [KM]B\) is ended\.", said(test).replace("\\", ""))
    assert f"1 folder is moved to {home.aside}." in said(test).replace("\\", "")
    assert lost.poll() is None
    test = clean_now(asked())
    assert lost.wait(timeout=60) == -15
    assert not home.run_folder(77).exists()
    (done,) = (str(box.value).replace("\\", "") for box in test.success)
    assert done.startswith(f"Cleaned up: process {lost.pid} of run 1, folder {home.run_folder(77)}.")
    assert "Nothing is left over" in said(opened("machine"))
    assert not [button for button in opened("machine").button if button.label == "Clean up"]
    with Reader.open(home) as reader:
        assert [(event.kind, event.who) for event in reader.events(1)][-1] == ("cleaned up", "Ada")
    assert "Ada cleaned up: process" in home.runner_log.read_text()


def test_what_went_by_itself_meanwhile_is_said_to_be_gone(home: Home, lost: "subprocess.Popen[bytes]") -> None:
    home.run_folder(77).rmdir()
    test = asked()
    lost.kill()
    lost.wait()
    test = clean_now(test)
    assert "nothing to clean up any more" in said(test)


def test_what_may_be_another_programs_is_shown_and_has_no_button(home: Home) -> None:
    with Store.open(home):
        folder = home.path / "runs" / "notes"
        folder.mkdir(parents=True)
        os.utime(folder, (HOUR_AGO, HOUR_AGO))
    test = opened("machine")
    assert "It may be another program&#x27;s." in html(test) or "It may be another program's." in html(test)
    assert "is only shown" in said(test)
    assert not [button for button in test.button if button.label == "Clean up"]


def test_many_of_a_kind_are_counted(home: Home) -> None:
    with Store.open(home):
        for number in range(100, 130):
            home.run_folder(number).mkdir(parents=True)
            os.utime(home.run_folder(number), (HOUR_AGO, HOUR_AGO))
    assert "10 more folders" in html(opened("machine"))
