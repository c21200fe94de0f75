"""Compare: runs of any session, person and experiment side by side; the whole view stands in its address
(`/compare?runs=1,2,5-9`).
"""

import time
from dataclasses import replace

import streamlit as st

from app import compare_number_tabs, compare_state, live, noting, parts
from app.asking import reading
from app.compare_choosing import choice, chooser, unknown
from app.compare_curve_tab import curves
from app.compare_difference_tab import differences
from app.compare_parts import compared, grouping, legend, said_of
from app.compare_runs import chosen
from app.compare_saved import carry_out_waiting, save_form, saved_views
from app.compare_tables import runs_table
from app.compare_view import TABS, View, address, ids_text
from app.markup import as_text
from app.view_downloads import view_downloads
from engine.store import Reader
from engine.store.records import ENDED, RunRow

st.title("Compare", anchor=False)


@st.fragment
def page() -> None:
    """Show the comparison, and again when a run in it has news."""
    began = time.monotonic()
    view = compare_state.arrive()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view, wrong = choice(view)
        adding, saving, leaving = (st.container(width="content") for _ in range(3))
    told = st.container()
    with reading(lambda: live.pulse(-1)) as reader, noting.keeping() as shown:
        with reader.snapshot():
            token, found = reader.token(), chosen(reader, view)
            if found.runs:
                compare_state.complain(unknown(view, found.runs))
                with adding, st.popover("Add runs", key="compare.add", on_change="rerun") as opened:
                    if opened.open:
                        chooser(reader, view, "compare.more")
                view = comparison(reader, view, found.runs)
            elif reader.count():
                st.write(
                    "No run is chosen. Tick some of the newest, write their ids above, or describe them in the filter."
                )
                chooser(reader, view, "compare.newest")
            else:
                parts.empty("No run has been launched yet, so there is nothing to compare.", "Launch one", "launch")
        compare_state.keep(view)
        if found.runs:
            with saving:
                save_form(view)
            with leaving:
                view_downloads("compare", _title(found.runs), address(view), shown, found.runs, key="compare")
        saved_views(reader, expanded=not found.runs)
    for sentence in (*compare_state.complaints(), *wrong, *found.sentences):
        told.warning(as_text(sentence))
    if found.runs:
        rest_ms = live.rest_ms(time.monotonic() - began)
        live.pulse(token, active=any(run.status not in ENDED for run in found.runs), every_ms=rest_ms, early_ms=rest_ms)


def comparison(reader: Reader, view: View, runs: tuple[RunRow, ...]) -> View:
    """Show the runs as the view asks for; return it as its widgets now say."""
    view = grouping(view, runs)
    key = compare_state.key_of("tab", view.tab)
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
    noting.facts("Shown", said_of(view))
    if view.tab in ("curves", "scatter"):
        legend(shown)
    if view.tab == "curves":
        view = curves(reader, shown, view)
    elif view.tab == "differences":
        view = differences(reader, shown, view)
    else:
        view = {
            "bars": compare_number_tabs.bars,
            "scatter": compare_number_tabs.scatter,
            "parallel": compare_number_tabs.parallel,
        }[view.tab](shown, view)
    with st.expander(f"The {len(runs)} runs compared" if len(runs) > 1 else "The run shown"):
        st.html(runs_table(runs, {run.id: group.name for group in shown.groups for run in group.runs}))
    return view


def _title(runs: tuple[RunRow, ...]) -> str:
    return f"{'Runs' if len(runs) > 1 else 'Run'} {ids_text([run.id for run in runs])} compared"


carry_out_waiting()
page()
