"""Sweep: one sweep by its permalink (`?sweep=ID`), live while its runs are on; without a number the newest ones."""

import streamlit as st

from app import live, parts
from app.asking import reading
from app.breakdown_view import where_time_went
from app.scaling_view import scaling, to_a_target
from app.studying import of_sweep
from app.sweep_chart import results
from app.sweep_heading import entry, heading
from app.sweep_matrix import matrix

NEWEST = 50
EVERY_MS = 2_000
VIEWS = ("Results", "Scaling", "Where the time went")
wanted = st.query_params.get("sweep", "")


@st.fragment
def page(sweep_id: int) -> None:
    """Show the sweep, and again whenever one of its runs has news."""
    with reading(lambda: live.pulse(-1, sweep_id=sweep_id)) as reader:
        with reader.snapshot():
            token, sweep, runs = reader.sweep_token(sweep_id), reader.sweep(sweep_id), reader.sweep_runs(sweep_id)
        if "queued" in sweep.statuses:
            parts.runner_banner(reader)
        heading(sweep, runs)
        st.header("Runs", anchor=False)
        st.html(matrix(sweep, runs))
        view = st.segmented_control("View", VIEWS, key="view", default=VIEWS[0], required=True, bind="query-params", label_visibility="collapsed")
        found = of_sweep(sweep, runs, reader) if view != VIEWS[0] else ""
        if view == VIEWS[0]:
            results(sweep, runs, reader)
        elif isinstance(found, str):
            st.write(found)
        elif view == VIEWS[1]:
            scaling(found, runs, str(sweep_id))
            to_a_target(found, runs, reader)
        else:
            where_time_went(found, reader, str(sweep_id))
    live.pulse(token, sweep_id=sweep_id, active=sweep.active, every_ms=EVERY_MS)


if wanted.isdecimal() and len(wanted) < 18:
    page(int(wanted))
else:
    st.title("Sweeps", anchor=False)
    if wanted:
        st.warning("A link to a sweep ends in its number, such as /sweep?sweep=3.")
    with reading() as reader:
        newest, count = reader.sweeps(limit=NEWEST), reader.count_sweeps()
    if not newest:
        parts.empty("No sweep has been launched yet. The launch form has a switch for it: several runs over values of a setting.", "Launch one", "launch")
    for one in newest:
        entry(one)
    if count > len(newest):
        st.caption(f"The newest {len(newest)} of {count:,} sweeps.")
