"""From a press to a queued run: one press, one launch, and its page."""

from typing import Any

import pytest
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.actions import submit
from engine.home import Home
from engine.museum.exhibit import SIGNS
from engine.store import Reader
from tests.app.reading import opened

FIRST, SECOND = (f"museum.run.{sign.name}" for sign in SIGNS[:2])


def test_a_launch_changes_only_the_button_that_was_pressed(home: Home, reader: Reader) -> None:
    test = opened("museum")
    test.session_state["person"] = "Ada"
    test.button(key=f"once.{FIRST}").click().run()
    assert not test.exception
    assert test.button(key=f"once.{FIRST}.1").disabled
    test.button(key=f"once.{SECOND}").click().run()  # as a browser sends it that lacks the answer to the first
    assert [reader.runs.one(run_id).config["exhibit"] for run_id in (1, 2)] == [sign.name for sign in SIGNS[:2]]


def test_the_page_of_a_launch_opens_though_the_browser_has_asked_for_another_run_of_the_page(
    home: Home, monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> None:
    queue = submit._queued

    def slowly(*asked: Any) -> int:
        made = queue(*asked)
        context = get_script_run_ctx()
        assert context and context.script_requests
        context.script_requests.request_stop()  # so the console ends a run of a page for a newer one
        return made

    monkeypatch.setattr(submit, "_queued", slowly)
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    test.session_state["person"] = "Ada"
    test.button(key="once.launch").click().run()
    assert test.title[0].value == "Launch"
    test.run()
    assert test.title[0].value.startswith("Run 1")
    assert reader.runs.count() == 1
