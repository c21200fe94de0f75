"""What a sweep takes, in words: before its launch, and on its page what is left of it."""

from collections.abc import Iterator
from html import escape

import streamlit as st

from app.core.formatting import duration
from app.ui import current_user
from app.ui.html import as_text, number
from app.ui.store_access import reading
from app.ui.widgets import show_facts
from engine.home import Home
from engine.launch_options import USUAL, Terms
from engine.queue import sweep_estimate
from engine.queue.forecast import clock
from engine.queue.sweep_estimate import Outlay
from engine.store import Reader, Sweep
from engine.store.sweeps.sweeps import SEED
from engine.sweep.plan import Plan
from engine.system.machine import demand, machine

FRESH_S = 5.0
"""How old what is left of a sweep may be told; all who look at its page share the answer."""


def before_launch(experiment: str, planned: Plan, exclusive: bool, asked: Terms) -> None:
    """Say how many runs there are, what they hold and when the last should end, were they launched now."""
    found = _planned(experiment, planned, exclusive, asked)
    show_facts([(label, escape(words)) for label, words in facts(found)])
    for sentence in caveats(found):
        st.caption(as_text(sentence))


def in_a_line(experiment: str, planned: Plan, exclusive: bool) -> str:
    """Return the same in a line; raises DeviceError for a run that could never run here."""
    found = _planned(experiment, planned, exclusive, USUAL)
    held, ends = hours(found), _end(found.ends_in_s)
    told = [f"About {held}{f'; launched now, it ends {ends}' if ends else ''}."] if held else []
    return " ".join([*told, *caveats(found)])


def _planned(experiment: str, planned: Plan, exclusive: bool, asked: Terms) -> Outlay:
    here = machine()
    cells = [(cell.config.model_dump(mode="json"), demand(cell.config, here)) for cell in planned.cells]
    fields = [field for field in planned.grid if field != SEED]
    with reading() as reader:
        return sweep_estimate.before_launch(
            reader,
            Home.find(),
            experiment,
            cells,
            fields,
            owner=current_user.whoever(),
            terms=asked,
            exclusive=exclusive,
        )


def what_is_left(sweep: Sweep) -> None:
    """Say what the runs of a sweep that have not ended still take, in a line."""
    with reading() as reader:
        found = _left(str(Home.find().path), sweep.id, sweep.fields, reader)
    st.caption(as_text(" ".join(left(found, sweep))))


@st.cache_data(ttl=FRESH_S, max_entries=200, show_spinner=False)
def _left(home: str, sweep_id: int, fields: tuple[str, ...], _reader: Reader) -> Outlay:
    return sweep_estimate.what_is_left(_reader, Home.find(), sweep_id, fields)


def facts(found: Outlay) -> list[tuple[str, str]]:
    """Return label and value of what a sweep takes."""
    return [
        ("Runs", f"{found.runs:,}"),
        ("They hold", hours(found) or "not known"),
        ("On an idle machine", "not known" if found.idle_s is None else f"about {duration(found.idle_s)}"),
        ("Launched now, it ends", _end(found.ends_in_s) or "not known when"),
    ]


def caveats(found: Outlay) -> Iterator[str]:
    """Yield what the numbers are told from, and what is not known."""
    if found.core_hours is None:
        yield "No like run has finished on this machine yet, so nothing tells how long these take."
        return
    yield _source(found)
    if found.ends_in_s is None:
        yield "When it ends is not known: nothing tells how long the runs take that are on, or that wait before these."


def left(found: Outlay, sweep: Sweep) -> Iterator[str]:
    """Yield sentences on what is left of a sweep."""
    count = sweep.total - sweep.ended
    runs = f"{count:,} {'run is' if count == 1 else 'runs are'} left"
    if found.runs < count:
        yield f"{runs}, more than is looked ahead."
        return
    held = hours(found)
    yield f"{runs}{f', about {held}' if held else '; how long they take is not known yet'}."
    if sweep.paused:
        yield (
            f"Let go on now, it would end {_end(found.ends_in_s)}." if found.ends_in_s is not None else "It is paused."
        )
    elif found.ends_in_s is not None and found.held < count:
        yield f"It should end {_end(found.ends_in_s)}{', without those on hold' if found.held else ''}."
    elif held and found.held < count:
        yield "When it ends is not known: nothing tells how long the runs take that are on, or that wait before these."
    if found.held:
        yield f"{found.held:,} {'is' if found.held == 1 else 'are'} on hold."
    if held:
        yield _source(found)


def hours(found: Outlay) -> str:
    """Return the slot-hours in words, empty where they are not known."""
    if found.core_hours is None:
        return ""
    return f"{number(found.core_hours, 2)} core-hours" + (
        f" and {number(found.gpu_hours, 2)} GPU-hours" if found.gpu_hours else ""
    )


def _source(found: Outlay) -> str:
    """Return what the times are told from."""
    if found.assumed_s is None:
        return "Told from like runs of this machine." if found.runs > 1 else "Told from like runs."
    others = "each of the others" if found.like else "each"
    from_what = f"the median of the {_runs(found.near)} that differ only in what varies" if found.near else "their mean"
    have = (
        f"{found.like} of {found.runs} cells {'has' if found.like == 1 else 'have'} like runs"
        if found.like
        else "No cell has like runs"
    )
    return f"{have}; {others} is taken to last {duration(found.assumed_s)}, {from_what}."


def _end(in_s: float | None) -> str:
    """Return when something ends: `in about 40 s`, `at about 14:20 (in 3 h)`; empty where nothing tells."""
    if in_s is None:
        return ""
    return f"in about {in_s:.0f} s" if in_s < 90 else f"at about {clock(in_s)} (in {duration(in_s)})"


def _runs(count: int) -> str:
    return "run" if count == 1 else f"{count:,} runs"
