"""Compare: runs of any session, person and experiment side by side; the whole view stands in its address
(`/compare?runs=1,2,5-9`).
"""

import time
from dataclasses import replace

import streamlit as st

from app.compare import number_tabs, session_state
from app.compare.curve_tab import curves
from app.compare.difference_tab import differences
from app.compare.run_picker import choice, chooser, unknown
from app.compare.saved_views import carry_out_waiting, save_form, saved_views
from app.compare.selection import chosen
from app.compare.tab_widgets import compared, grouping, legend, said_of
from app.compare.tables import runs_table
from app.export.view_downloads import view_downloads
from app.links.compare import TABS, CompareView, address, ids_text
from app.report import page_capture
from app.ui import components, widgets
from app.ui.html import as_text
from app.ui.store_access import reading
from engine.store import Reader
from engine.store.records import ENDED, RunRow

st.title("Compare", anchor=False)


@st.fragment
def page() -> None:
    """Show the comparison, and again when a run in it has news."""
    began = time.monotonic()
    view = session_state.arrive()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view, wrong = choice(view)
        adding, saving, leaving = (st.container(width="content") for _ in range(3))
    told = st.container()
    with reading(lambda: components.pulse(-1)) as reader, page_capture.keeping() as shown:
        with reader.db.snapshot():
            token, found = reader.runs.token(), chosen(reader, view)
            if found.runs:
                session_state.complain(unknown(view, found.runs))
                with adding, st.popover("Add runs", key="compare.add", on_change="rerun") as opened:
                    if opened.open:
                        chooser(reader, view, "compare.more")
                view = comparison(reader, view, found.runs)
            elif reader.runs.count():
                st.write(
                    "No run is chosen. Tick some of the newest, write their ids above, or describe them in the filter."
                )
                chooser(reader, view, "compare.newest")
            else:
                widgets.empty("No run has been launched yet, so there is nothing to compare.", "Launch one", "launch")
        session_state.keep(view)
        if found.runs:
            with saving:
                save_form(view)
            with leaving:
                view_downloads("compare", _title(found.runs), address(view), shown, found.runs, key="compare")
        saved_views(reader, expanded=not found.runs)
    for sentence in (*session_state.complaints(), *wrong, *found.sentences):
        told.warning(as_text(sentence))
    if found.runs:
        rest_ms = components.rest_ms(time.monotonic() - began)
        components.pulse(
            token, active=any(run.status not in ENDED for run in found.runs), every_ms=rest_ms, early_ms=rest_ms
        )


def comparison(reader: Reader, view: CompareView, runs: tuple[RunRow, ...]) -> CompareView:
    """Show the runs as the view asks for; return it as its widgets now say."""
    view = grouping(view, runs)
    key = session_state.key_of("tab", view.tab)
    tab = st.segmented_control(
        "Shown as",
        list(TABS),
        key=key,
        required=True,
        format_func=lambda name: TABS[name],
        label_visibility="collapsed",
        wrap=True,
    )
    view, shown = replace(view, tab=tab or view.tab), compared(runs, view)
    page_capture.facts("Shown", said_of(view))
    if view.tab in ("curves", "scatter"):
        legend(shown)
    if view.tab == "curves":
        view = curves(reader, shown, view)
    elif view.tab == "differences":
        view = differences(reader, shown, view)
    else:
        view = {
            "bars": number_tabs.bars,
            "scatter": number_tabs.scatter,
            "parallel": number_tabs.parallel,
        }[view.tab](shown, view)
    with st.expander(f"The {len(runs)} runs compared" if len(runs) > 1 else "The run shown"):
        st.html(runs_table(runs, {run.id: group.name for group in shown.groups for run in group.runs}))
    return view


def _title(runs: tuple[RunRow, ...]) -> str:
    return f"{'Runs' if len(runs) > 1 else 'Run'} {ids_text([run.id for run in runs])} compared"


carry_out_waiting()
page()
