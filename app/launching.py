"""From a filled form to a queued run: the name is asked where it is not known, then the run is queued and its page opened."""

from dataclasses import dataclass

import streamlit as st

from app import person
from app.markup import as_text
from app.parts import go_to_run
from engine.config import Config
from engine.errors import EngineError
from engine.home import Home
from engine.launch import launch

_WAITS = "launch.waits"


@dataclass(frozen=True)
class Order:
    """One launch that was clicked."""

    experiment: str
    preset: str | None
    config: Config
    title: str = ""


def order(wanted: Order) -> None:
    """Carry out a launch, or ask the name first and carry it out in the next script run."""
    if person.name() is None:
        st.session_state[_WAITS] = wanted
        person.ask("It stands beside the runs that you start, so that your lab can tell them apart. You are asked once.", "Save and launch")
    else:
        _launch(wanted)


def carry_out_waiting() -> None:
    """Carry out the launch that waited for a name, once there is one."""
    if person.name() is not None and (wanted := st.session_state.pop(_WAITS, None)):
        _launch(wanted)


def _launch(wanted: Order) -> None:
    try:
        run_id = launch(Home.find(), wanted.experiment, wanted.config, owner=person.whoever(), preset=wanted.preset, title=wanted.title)
    except EngineError as error:
        st.error(as_text(str(error)))
    else:
        go_to_run(run_id)
