"""Why the fastest of some runs was faster than the slowest, as a sentence on a page."""

import re
from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app.report import page_capture
from app.ui import widgets
from app.ui.html import as_text
from engine.analysis.chance_level import not_learned_of
from engine.analysis.disturbance import MOST_NAMED, in_words
from engine.analysis.scaling.targets import Goal
from engine.analysis.scaling.time_difference import Compares, is_work_unequal, not_comparable, time_spent, why_faster
from engine.analysis.total_work import unequal_work_of
from engine.store import Reader
from engine.store.records import RunRow, is_complete


def complete(groups: Mapping[str, Sequence[RunRow]]) -> dict[str, list[RunRow]]:
    """Return the groups with their complete runs only."""
    return {name: [run for run in runs if is_complete(run)] for name, runs in groups.items()}


VERDICTS = ("Fastest", "No clear difference", "All ")
"""How the sentence begins that stands on a line of its own."""
DISTURBED = "Speed can't be compared: other programs disturbed the runs. Measure again"


def disturbed_choice(groups: Mapping[str, Sequence[RunRow]], reader: Reader) -> bool:
    """Show the choice to count disturbed runs if there are any, beside it what that means: that the other runs can't be
    compared, or how many are disturbed; return the choice.
    """
    done = complete(groups)
    runs = [run for own in done.values() for run in own]
    disturbed = [run for run in runs if run.disturbed]
    if not any(run.disturbed for own in groups.values() for run in own):
        return False
    with st.container(horizontal=True, vertical_alignment="center"):
        said = ""
        if whole := widgets.include_disturbed():
            most = in_words(max((run.disturbance or 0.0 for run in disturbed), default=0.0))
            said = (
                f"Other programs took up to {most} of the CPU time of {len(disturbed)} of {len(runs)} runs: their "
                "times, and differences between them, are not reliable."
            )
        elif _are_too_few(done) and not not_comparable(runs, reader.studies.surroundings([run.id for run in runs])):
            said = f"{DISTURBED}, or include disturbed runs."
        if said:
            st.markdown(as_text(said), width="content")
            page_capture.words([said])
    return whole


def show_unequal_work(groups: Mapping[str, Sequence[RunRow]], reader: Reader) -> None:
    """Show that the compared groups of runs do unequal total work, whatever metric is shown; nothing if they don't."""
    if said := unequal_work_of(groups, reader):
        st.markdown(f":orange-badge[Caution] {as_text(said)}")
        page_capture.words([said])


def show_not_learned(groups: Mapping[str, Sequence[RunRow]]) -> None:
    """Show which of the compared runs did not learn; nothing if all did."""
    if said := not_learned_of(run for own in groups.values() for run in own):
        st.markdown(f":orange-badge[Caution] {as_text(said)}")
        page_capture.words([said])


def _are_too_few(groups: Mapping[str, Sequence[RunRow]]) -> bool:
    """Return whether fewer than two of several groups have undisturbed runs."""
    known = [runs for runs in groups.values() if runs]
    return len(known) > 1 and sum(not all(run.disturbed for run in runs) for runs in known) < 2


def time_difference(
    groups: Mapping[str, Sequence[RunRow]],
    reader: Reader,
    *,
    by_median: bool = False,
    whole: bool | None = None,
    goal: Callable[[Mapping[str, Sequence[RunRow]]], Goal | None] | None = None,
) -> Compares:
    """Show which group of complete runs was fastest and what explains it; return what compares. Disturbed runs count
    only with `whole`, None on a page without that choice; where fewer than two groups have others, none is named
    (disturbed_choice says so beside the choice).
    `goal` returns how the groups that count reached a target, for pages that say which was first.
    """
    calm = {name: own for name, runs in groups.items() if (own := [run for run in runs if not run.disturbed])}
    forced = not whole and _are_too_few(groups)
    counted = groups if whole or forced else calm
    runs = [run for own in counted.values() for run in own]
    ids = [run.id for run in runs]
    around, phases = reader.studies.surroundings(ids), reader.studies.phases_of(ids)
    spent = time_spent(counted, around, phases, by_median=by_median)
    obstacle = not_comparable(runs, around)
    said = obstacle or why_faster(spent, goal(counted) if goal else None)
    apart = [] if whole or forced else [str(run.id) for own in groups.values() for run in own if run.disturbed]
    if said and apart:
        more = f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else ""
        said += f" Left out as disturbed: {'run' if len(apart) == 1 else 'runs'} {', '.join(apart[:MOST_NAMED])}{more}."
    if said and not obstacle and forced:
        said = f"{DISTURBED}." if whole is None else ""
    if said:
        sentences = re.split(r"(?<=\.) (?=[A-Z])", said)  # numbers have no space after their point
        verdict = next((each for each in sentences if each.startswith(VERDICTS)), sentences[0])
        reasons = " ".join(each for each in sentences if each != verdict)
        st.markdown(f"**{as_text(verdict)}**  \n{as_text(reasons)}")
        page_capture.words([said])
    return "neither" if obstacle else "rate" if is_work_unequal(spent) else "time"
