"""The estimates of a sweep in words: before its launch, and for its remaining runs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic

import streamlit as st

from app.core.caches import VersionedCache, slowed_by_others
from app.core.formatting import duration
from app.ui import current_user
from app.ui.html import as_text, number
from app.ui.store_access import reading
from app.ui.widgets import show_facts
from engine.errors import counted
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.queue import sweep_estimate
from engine.queue.forecast import clock
from engine.queue.sweep_estimate import Outlay
from engine.store import Launch, Sweep, SweepLaunch
from engine.store.launches import Timing
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED
from engine.sweep.launch import new_runs
from engine.sweep.plan import Plan, SweepCell
from engine.system.machine import machine

_UNKNOWN_FINISH = "Estimated finish unknown: running runs, or runs ahead in the queue, have no estimate."
FRESH_S = 5.0
"""Greatest age of the estimate of a sweep's remaining runs, which all visitors of its page share."""
_LEFT: VersionedCache[Outlay] = VersionedCache(most=200)


def before_launch(sweep: SweepLaunch, planned: Plan, asked: LaunchOptions, run_s: float | None = None) -> None:
    """Show the number of runs of a sweep, their estimated usage, and the estimated finish if launched now; `run_s` is
    what a run is stated to take, for a sweep without similar runs.
    """
    timing, seeds, shared = sweep.timing, sweep.seeds, replace(sweep.shared, terms=asked)
    cells = with_warm_up(planned, timing)
    if asked.target:
        show_facts([("To launch", count_of(planned, timing))])
        return
    found = _planned(shared, planned, cells, timing is not None, run_s)
    grows = timing is not None and timing.most > seeds
    shown = facts(found, planned, timing, grows=grows)
    if timing and grows:
        repeats = list(planned.cells[: len(planned.cells) // seeds]) * (timing.most - seeds)
        most = _planned(shared, planned, [*cells, *repeats], True, run_s)
        took = "" if most.idle_s is None else f", about {duration(most.idle_s)} and {hours(most)}"
        shown.append(("With all repeats", f"{counted(len(planned.cells) + len(repeats), 'run')}{took}"))
    show_facts(shown)
    with reading() as reader:
        slowed = slowed_by_others(reader)
    for sentence in filter(None, [*caveats(found), slowed]):
        st.caption(as_text(sentence))


def in_a_line(experiment: str, planned: Plan, exclusive: bool) -> str:
    """Return the same in a line. Raises DeviceError for a run that could never run here."""
    found = _planned(Launch(experiment, {}, current_user.whoever()), planned, planned.cells, exclusive)
    held, ends = hours(found), _end(found.ends_in_s)
    known = [f"About {held}{f'; estimated finish {ends}' if ends else ''}."] if held else []
    return " ".join([*known, *caveats(found)])


def count_of(planned: Plan, timing: Timing | None = None) -> str:
    """Return the number of runs of a plan, in words: `12 runs and 1 warm-up run`."""
    count = len(planned.cells)
    return f"{count:,} {'run' if count == 1 else 'runs'}{' and 1 warm-up run' if timing else ''}"


def with_warm_up(planned: Plan, timing: Timing | None) -> list[SweepCell]:
    """Return the runs of a plan, a sweep for timing with its warm-up run, which lasts as long as the first one."""
    return [*planned.cells[: int(timing is not None)], *planned.cells]


def _planned(
    shared: Launch, planned: Plan, runs: Sequence[SweepCell], exclusive: bool, run_s: float | None = None
) -> Outlay:
    fields = [field for field in planned.grid if field != SEED]
    with reading() as reader:
        launches = new_runs(runs, shared, machine())
        return sweep_estimate.before_launch(reader, Home.find(), launches, fields, exclusive=exclusive, stated_s=run_s)


def what_is_left(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Show the estimates of a sweep's remaining runs, in a line; without estimates if a cluster runs them."""
    if target := next((run.target for run in runs), ""):
        count = sweep.total - sweep.ended
        st.caption(as_text(f"{count:,} {'run' if count == 1 else 'runs'} left, on {target}."))
        return
    with reading() as reader:
        found = _LEFT.get(
            (Home.find(), sweep.id, sweep.fields),
            monotonic() // FRESH_S,
            lambda: sweep_estimate.what_is_left(reader, Home.find(), sweep.id, sweep.fields),
        )
    st.caption(as_text(" ".join(left(found, sweep))))


def facts(found: Outlay, planned: Plan, timing: Timing | None, *, grows: bool = False) -> list[tuple[str, str]]:
    """Return label and value of each estimate of a sweep; of one that `grows` by repeats, the least."""
    about, least, earliest = ("at least", "at least ", ", at the earliest") if grows else ("about", "", "")
    held, end = hours(found), _end(found.ends_in_s)
    return [
        ("To launch", count_of(planned, timing)),
        ("Estimated usage", f"{least}{held}" if held else "unknown"),
        ("On an idle machine", "unknown" if found.idle_s is None else f"{about} {duration(found.idle_s)}"),
        ("Estimated finish", f"{end}{earliest}" if end else "unknown"),
    ]


def caveats(found: Outlay) -> Iterator[str]:
    """Yield the basis of the estimates, and the unknowns."""
    if found.core_hours is None:
        yield "No estimate yet: no similar run has finished on this machine."
        return
    yield _source(found)
    if found.is_disturbed:
        yield (
            "Other programs disturbed the similar runs, so these times are of a busy machine; on an idle one they are "
            "shorter."
        )
    yield from _cut(found)
    if found.ends_in_s is None:
        yield _UNKNOWN_FINISH


def left(found: Outlay, sweep: Sweep) -> Iterator[str]:
    """Yield sentences on the remaining runs of a sweep."""
    count = sweep.total - sweep.ended
    grows = sweep.timing is not None and len(sweep.seeds) < sweep.timing.most
    least, about, earliest = ("At least ", "at least", ", at the earliest") if grows else ("", "about", "")
    runs = f"{least}{count:,} {'run' if count == 1 else 'runs'} left"
    if found.runs < count:
        yield f"{runs}, too many for an estimate."
        return
    held = hours(found)
    yield f"{runs}{f', {about} {held}' if held else '; no estimate yet'}."
    if sweep.paused:
        yield (
            f"Paused; if resumed now, estimated finish {_end(found.ends_in_s)}{earliest}."
            if found.ends_in_s is not None
            else "Paused."
        )
    elif found.ends_in_s is not None and found.held < count:
        yield f"Estimated finish {_end(found.ends_in_s)}{earliest}{', excluding runs on hold' if found.held else ''}."
    elif held and found.held < count:
        yield _UNKNOWN_FINISH
    if found.held:
        yield f"{found.held:,} on hold."
    if grows:
        yield "Repeats are added until the medians are known."
    if held:
        yield _source(found)
        yield from _cut(found)


def _cut(found: Outlay) -> Iterator[str]:
    """Yield that runs end at their time limit, if some do."""
    if found.cut:
        yield (
            f"The time limit ends {found.cut:,} of {found.runs:,} {'run' if found.runs == 1 else 'runs'} before "
            f"{'its' if found.cut == 1 else 'their'} work is done."
        )


def hours(found: Outlay) -> str:
    """Return the core-hours and GPU-hours in words, empty if unknown."""
    if found.core_hours is None:
        return ""
    return f"{number(found.core_hours, 2)} core-hours" + (
        f" and {number(found.gpu_hours, 2)} GPU-hours" if found.gpu_hours else ""
    )


def _source(found: Outlay) -> str:
    """Return the basis of the estimates."""
    if found.assumed_s is None:
        work = ", scaled by their work" if found.are_scaled else ""
        return f"Estimated from the total times of similar runs on this machine{work}."
    if not found.like and not found.near:
        took = duration(found.assumed_s)
        return f"No similar run has finished on this machine; each is assumed to take {took}, as on two idle cores."
    others = "each of the others" if found.like else "each"
    basis = {0: "their mean", 1: "the time of the run that differs only in the varied settings"}.get(
        found.near, f"the median of the {counted(found.near, 'run')} that differ only in the varied settings"
    )
    have = (
        f"{found.like} of {counted(found.runs, 'run')} {'has' if found.like == 1 else 'have'} similar ones"
        if found.like
        else "None of the runs has similar ones"
    )
    return f"{have}; {others} is assumed to take {duration(found.assumed_s)}, {basis}."


def _end(in_s: float | None) -> str:
    """Return the time of an end: `in about 40 s`, `at about 14:20 (in 3 h)`; empty if unknown."""
    if in_s is None:
        return ""
    return f"in about {in_s:.0f} s" if in_s < 90 else f"at about {clock(in_s)} (in {duration(in_s)})"
