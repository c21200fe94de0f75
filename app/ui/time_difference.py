"""Why the fastest of some runs was faster than the slowest, as a sentence on a page."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app.report import page_capture
from app.ui.html import as_text
from engine.analysis.disturbance import MOST_NAMED
from engine.analysis.scaling.targets import Goal
from engine.analysis.scaling.time_difference import Compares, is_work_unequal, not_comparable, time_spent, why_faster
from engine.store import Reader
from engine.store.records import RunRow, is_complete


def complete(groups: Mapping[str, Sequence[RunRow]]) -> dict[str, list[RunRow]]:
    """Return the groups with their complete runs only."""
    return {name: [run for run in runs if is_complete(run)] for name, runs in groups.items()}


def time_difference(
    groups: Mapping[str, Sequence[RunRow]],
    reader: Reader,
    *,
    by_median: bool = False,
    whole: bool | None = None,
    goal: Callable[[Mapping[str, Sequence[RunRow]]], Goal | None] | None = None,
) -> Compares:
    """Show which group of complete runs was fastest and what explains it; return what compares. Disturbed runs count
    only with `whole`, None on a page without that choice; where fewer than two groups have others, none is named.
    `goal` returns how the groups that count reached a target, for pages that say which was first.
    """
    calm = {name: own for name, runs in groups.items() if (own := [run for run in runs if not run.disturbed])}
    advice = "Measure again." if whole is None else "Measure again, or include disturbed runs."
    forced = not whole and len(calm) < 2 and len(groups) > 1
    whole = whole or forced
    counted = groups if whole else calm
    runs = [run for own in counted.values() for run in own]
    ids = [run.id for run in runs]
    around, phases = reader.studies.surroundings(ids), reader.studies.phases_of(ids)
    spent = time_spent(counted, around, phases, by_median=by_median)
    obstacle = not_comparable(runs, around)
    said = obstacle or why_faster(spent, goal(counted) if goal else None)
    apart = [] if whole else [str(run.id) for own in groups.values() for run in own if run.disturbed]
    if said and apart:
        more = f" and {len(apart) - MOST_NAMED} more" if len(apart) > MOST_NAMED else ""
        said += f" Disturbed runs ({', '.join(apart[:MOST_NAMED])}{more}) are left out."
    if said and not obstacle and forced and any(run.disturbed for run in runs):
        said = f"Speed can't be compared: other programs disturbed the runs. {advice}"
    if said:
        st.markdown(as_text(said))
        page_capture.words([said])
    return "neither" if obstacle else "rate" if is_work_unequal(spent) else "time"
