"""Compare: runs of any session, person and experiment side by side; the address holds the complete view
(`/compare?runs=1,2,5-9`).
"""

import time
from dataclasses import replace

import streamlit as st

from app.actions.annotations import saved_views, view_menu
from app.compare import number_tabs, session_state
from app.compare.curve_tab import curves, first_curves, first_in_words
from app.compare.number_tabs import differences, numeric_names, runs_table, timelines
from app.compare.selection import choice, chooser, chosen, only_setting, short_names, swept, telling, with_known_names
from app.compare.tab_widgets import compared, grouping, legend, show_note, view_facts
from app.export.view_report import view_downloads
from app.links.compare import TABS, CompareView, address, ids_text, query_of, with_query
from app.report import page_capture
from app.ui import components, widgets
from app.ui.html import as_text
from app.ui.store_access import reading
from app.ui.time_difference import complete, disturbed_choice, show_not_learned, show_unequal_work, time_difference
from engine.analysis.differences import may_explain
from engine.analysis.result import compared as compared_values
from engine.analysis.result import ranked_or_telling, reached_most
from engine.analysis.run_values import is_timed
from engine.filter.tree import metric_written
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ENDED, RunRow

st.title("Compare", anchor=False)


@st.fragment
def page() -> None:
    """Show the comparison, and rerun when one of its runs changes."""
    began = time.monotonic()
    view = session_state.arrive()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view, wrong = choice(view)
        adding, saving, linking, leaving = (
            st.container(horizontal=True, vertical_alignment="center", width="content") for _ in range(4)
        )
    told = st.container()
    with reading(lambda: components.pulse(-1)) as reader, page_capture.keeping() as shown:
        with reader.db.snapshot():
            token, found = reader.runs.token(), chosen(reader, view)
            if found.runs:
                view, unknown = with_known_names(view, found.runs)
                session_state.complain(unknown)
                with adding, st.popover("Add runs", key="compare.add", on_change="rerun") as opened:
                    if opened.open:
                        chooser(reader, view, "compare.more")
                view = comparison(reader, view, found.runs)
            elif reader.runs.count():
                st.write("No runs selected. Select from the newest runs, enter ids above, or write a filter.")
                chooser(reader, view, "compare.newest")
            else:
                widgets.empty(
                    "No runs to compare yet. Curves and tables of the runs that you select appear here.",
                    "Launch a run",
                    "launch",
                )
        session_state.keep(view)
        if found.runs:
            with saving:
                view_menu(reader, "compare", with_query(query_of(view)).partition("?")[2])
            with linking:
                widgets.permalink(address(view))
            with leaving:
                view_downloads("compare", _title(found.runs), address(view), shown, found.runs, key="compare")
        else:
            saved_views(reader, "compare")
    for sentence in (*session_state.complaints(), *wrong, *found.sentences):
        told.warning(as_text(sentence))
    if found.runs:
        rest_ms = components.rest_ms(time.monotonic() - began)
        components.pulse(
            token,
            active=bool(view.newest) or any(run.status not in ENDED for run in found.runs),
            every_ms=rest_ms,
            early_ms=rest_ms,
        )


def comparison(reader: Reader, view: CompareView, runs: tuple[RunRow, ...]) -> CompareView:
    """Show the runs as the view specifies; return the view updated by its widgets."""
    view = grouping(view, runs)
    key = session_state.key_of("tab", view.tab)
    tab = st.segmented_control(
        "View",
        list(TABS),
        key=key,
        required=True,
        format_func=lambda name: TABS[name],
        label_visibility="collapsed",
        wrap=True,
    )
    if tab and tab != view.tab:
        view = session_state.turned_to(view, tab)
    shown = compared(runs, view)
    page_capture.facts("Shown", view_facts(view, shown))
    if view.tab in ("curves", "scatter"):
        legend(shown)
    groups = {group.name: group.runs for group in shown.groups} or {
        name: (run,) for name, run in zip(short_names(runs), runs, strict=True)
    }
    show_unequal_work(groups, reader)
    show_not_learned(groups)
    if view.tab in ("curves", "bars"):
        ended = {name: own for name, own in complete(groups).items() if own}
        names = _asked_for(view, runs)
        timed = not names or any(map(is_timed, names))
        if timed:
            key = session_state.key_of("disturbed", view.disturbed)
            view = replace(view, disturbed=disturbed_choice(ended, reader, key=key))
        values = [compared_values(ended, name, with_disturbed=view.disturbed) for name in names]
        first = first_in_words(reader, ended, view)
        for said in filter(None, [*(values or [_of_default(reader, view, groups, runs)]), first]):
            st.markdown(f"**{as_text(said)}**")
            page_capture.words([said])
        if timed:
            time_difference(ended, reader, whole=view.disturbed)
        named = () if any(run.name for run in runs) else telling(runs)
        show_note(may_explain(groups, {*(shown.fields or named), *swept(reader, runs), *only_setting(runs)}))
    if view.tab == "curves":
        view = curves(reader, shown, view)
    elif view.tab == "differences":
        view = differences(reader, shown, view)
    elif view.tab == "timelines":
        timelines(runs, reader)
    else:
        view = {
            "bars": number_tabs.bars,
            "scatter": number_tabs.scatter,
            "parallel": number_tabs.parallel,
        }[view.tab](shown, view)
    with st.expander(f"{len(runs)} compared runs" if len(runs) > 1 else "1 compared run"):
        st.html(runs_table(runs, {run.id: group.name for group in shown.groups for run in group.runs}))
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
    results = {metric_written(each.result.metric, each.result.of) for run in runs if (each := ranked_or_telling(run))}
    if not shown or results == {shown[0]} or all(known_experiment(run.experiment) for run in runs):
        return reached_most(groups)
    return compared_values(complete(groups), shown[0], with_disturbed=view.disturbed)


def _title(runs: tuple[RunRow, ...]) -> str:
    return f"Comparison of {'runs' if len(runs) > 1 else 'run'} {ids_text([run.id for run in runs])}"


page()
