"""What the Compare page answers in words: which run or group is best, first and fastest, and what limits that."""

from dataclasses import replace

import streamlit as st

from app.compare import lines, session_state
from app.compare.curve_tab import first_curves, first_in_words
from app.compare.number_tabs import numeric_names
from app.compare.selection import only_setting, short_names, swept, telling
from app.compare.tab_widgets import show_note
from app.core.caches import VersionedCache
from app.links.compare import CompareView
from app.report import page_capture
from app.ui import widgets
from app.ui.html import as_text
from app.ui.time_difference import complete, disturbed_choice, show_caution, time_difference
from engine.analysis.differences import may_explain
from engine.analysis.result import compared as compared_values
from engine.analysis.result import not_learned_of, ranked, reached_most
from engine.analysis.run_values import is_timed
from engine.analysis.total_work import unequal_steps_of, unequal_work_of
from engine.filter.tree import metric_written
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import RunRow

_said = VersionedCache[tuple[list[str], list[str], str]]()
"""The sentences of views, at the version of the store: they stay while columns, pins and what is shown alone change."""


def answer(reader: Reader, token: int, whole: lines.Compared, view: CompareView) -> CompareView:
    """Show which run or group is best and fastest, and what limits the comparison; also while one is shown alone, so
    that a second press is where the first was.
    """
    runs = whole.runs
    groups = {group.name: group.runs for group in whole.groups} or {
        name: (run,) for name, run in zip(short_names(runs), runs, strict=True)
    }
    ended = {name: own for name, own in complete(groups).items() if own}
    is_judged, names = view.tab in ("curves", "bars"), _asked_for(view, runs)
    timed = is_judged and (not names or any(map(is_timed, names)))
    first = st.container()
    if timed:
        key = session_state.key_of("disturbed", view.disturbed)
        view = replace(view, disturbed=disturbed_choice(ended, reader, key=key))

    def found() -> tuple[list[str], list[str], str]:
        cautions = [unequal_work_of(groups, reader) or unequal_steps_of(ended, reader), not_learned_of(runs)]
        if not is_judged:
            return cautions, [], ""
        values = [compared_values(groups, name, with_disturbed=view.disturbed) for name in names]
        best = [*(values or [_of_default(reader, view, groups, runs)]), first_in_words(reader, ended, view)]
        named = () if any(run.name for run in runs) else telling(runs)
        apart = {*(whole.fields or named), *swept(reader, runs), *only_setting(runs)}
        return cautions, best, may_explain(groups, apart)

    shown_as = {(run.ranked_by, run.better, repr(run.metric_settings), run.disturbed_above) for run in runs}
    about = whole.ids, [*groups], shown_as, view.tab, names, view.metrics, view.x, view.disturbed
    cautions, best, explains = _said.get((str(reader.db.home.path), repr(about)), token, found)
    with first:
        for said in cautions:
            show_caution(said)
    for said in filter(None, best):
        st.markdown(f"**{as_text(said)}**")
        page_capture.words([said])
    if timed:
        widgets.say_withheld(reader, [run.id for runs in ended.values() for run in runs])
        time_difference(ended, reader, whole=view.disturbed)
    show_note(explains)
    return view


def _asked_for(view: CompareView, runs: tuple[RunRow, ...]) -> list[str]:
    """Return the names of the values that were selected below; empty for the default ones."""
    if view.tab == "curves":
        return [metric_written(name, "last") for name in session_state.current(view, "metrics")]
    name, usual = session_state.current(view, "number"), numeric_names(runs)[:1]
    return [name] if name and (view.number or [name] != usual) else []


def _of_default(
    reader: Reader, view: CompareView, groups: dict[str, tuple[RunRow, ...]], runs: tuple[RunRow, ...]
) -> str:
    """Return which group is best by the default value below: with runs of other programs it may be none that ranks
    them.
    """
    shown = (
        [metric_written(name, "last") for name in first_curves(runs)] if view.tab == "curves" else numeric_names(runs)
    )
    results = {metric_written(each.result.metric, each.result.of) for run in runs if (each := ranked(run))}
    if not shown or results == {shown[0]} or all(known_experiment(run.experiment) for run in runs):
        return reached_most(groups)
    return compared_values(groups, shown[0], with_disturbed=view.disturbed)
