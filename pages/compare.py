"""Compare: runs of any session, person and experiment side by side; the address holds the complete view
(`/compare?runs=1,2,5-9`).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from app.actions.annotations import saved_views, view_menu
from app.compare import answers, lines, number_tabs, session_state
from app.compare.curve_tab import curves, first_curves
from app.compare.number_tabs import differences, numeric_names, runs_table, timelines
from app.compare.selection import choice, chooser, chosen, with_known_names
from app.compare.session_state import several_of
from app.compare.tab_widgets import grouping, show_note, view_facts
from app.export.view_report import view_downloads
from app.links import addresses
from app.links.compare import TABS, CompareView, address, ids_text, query_of, with_query
from app.report import page_capture
from app.ui import components, widgets
from app.ui.html import as_text
from app.ui.store_access import reading
from engine.filter.tree import metric_written
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ENDED, RunRow

st.title("Compare", anchor=False)


@addresses.fragment
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
                view = comparison(reader, token, view, found.runs)
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


def comparison(reader: Reader, token: int, view: CompareView, runs: tuple[RunRow, ...]) -> CompareView:
    """Show the runs as the view specifies; return the view updated by its widgets. `token` is that of the store."""
    view, usual = grouping(view, runs)
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
    whole = lines.compared(runs, view, usual)
    runs = whole.runs
    shown = lines.alone(whole, view) if view.tab in lines.TABS else whole
    page_capture.facts("Shown", view_facts(view, shown))
    view = answers.answer(reader, token, whole, view)
    if view.tab in lines.TABS:
        view = _beside_lines(reader, whole, shown, view)
    elif view.tab == "differences":
        view = differences(reader, shown, view)
    elif view.tab == "timelines":
        timelines(runs, reader)
    elif view.tab == "files":
        view = number_tabs.files(reader, shown, view)
    else:
        view = number_tabs.parallel(shown, view)
    with st.expander(f"{len(runs)} compared runs" if len(runs) > 1 else "1 compared run"):
        st.html(runs_table(runs, {run.id: group.name for group in whole.groups for run in group.runs}))
    return view


def _beside_lines(reader: Reader, whole: lines.Compared, shown: lines.Compared, view: CompareView) -> CompareView:
    """Show a tab of the runs `shown`, with the table of all lines beside it."""
    known = lines.known_columns(whole.runs)
    usual = _usual_columns(whole, view, known)
    known += [name for name in usual if name not in known]
    if view.columns and not {*view.columns} & {*known}:
        view = replace(view, columns=None)
    key = session_state.key_of("columns", [*(usual if view.columns is None else view.columns)])
    before = session_state.key_of("columns.usual", usual)
    if view.columns is None and st.session_state[key] == st.session_state[before] != usual:
        st.session_state[key] = usual  # the tab or its metrics may be others than before
    st.session_state[before] = usual
    above = st.container()
    left, right = st.columns([3, 4] if st.session_state[key] else [2, 4], gap="medium")
    with left, st.container(key="compare-lines"):
        chosen = several_of(
            view, "columns", "Columns", known, lines.column_title, placeholder="No columns", help=lines.COLUMNS_HELP
        )
        if view.columns is not None or list(chosen.columns or ()) != usual:
            view = chosen
        columns = list(chosen.columns or ())
        beside = st.container()
    fewer: Mapping[str, Sequence[str]] = {}
    with right:
        show_note(lines.alone_in_words(whole, shown))
        if view.tab == "curves":
            view, fewer = curves(reader, shown, view, above)
        else:
            view = (number_tabs.bars if view.tab == "bars" else number_tabs.scatter)(shown, view, above)
    if view.tab == "bars":  # its value and what it is apart from the baseline's come before all else
        columns = list(dict.fromkeys([*usual, *columns]))
    with beside:
        lines.table(reader, whole, view, columns, fewer)
    return view


def _usual_columns(whole: lines.Compared, view: CompareView, known: Sequence[str]) -> list[str]:
    """Return the columns unless others are selected: the chosen metrics or value, else the result; of the curves of
    other programs that of the first chart, of which the sentence on the best speaks.
    """
    asked = session_state.current(view, "metrics") if view.tab == "curves" else ()
    last, numeric = [metric_written(name, "last") for name in asked], numeric_names(whole.runs)
    if view.tab == "curves" and not all(known_experiment(run.experiment) for run in whole.runs):
        numeric = [*(metric_written(name, "last") for name in first_curves(whole.runs)[:1]), *numeric]
    number = session_state.current(view, "number") if view.tab == "bars" else ""
    return [name for name in last if name in known] or ([number] if number in numeric else numeric[:1])


def _title(runs: tuple[RunRow, ...]) -> str:
    return f"Comparison of {'runs' if len(runs) > 1 else 'run'} {ids_text([run.id for run in runs])}"


page()
