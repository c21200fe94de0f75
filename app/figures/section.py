"""One published figure on its page: verdict, chart with the published values, rules, missing runs, and launch."""

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.figures.chart import HEIGHT_PX, numbers, picture, points, x_title
from app.figures.export import facts_of, leave
from app.figures.launches import launch_button
from app.figures.provenance import provenance
from app.figures.reasons import reasons, rules
from app.figures.status import badges
from app.report import page_capture
from app.ui import components
from app.ui.html import as_text
from app.ui.store_access import reading
from engine.published import EXECUTION, WHOLE, Figure, figure
from engine.published.judgement import Judgement, judge, size_of, sweeps_of
from engine.store import Sweep

EVERY_MS = 2_000
STARTUP = "Show execution time only. The published timings include start-up."
ALONE = "Published times include start-up, so they are hidden here."


@st.fragment
def section(name: str) -> None:
    """Show one figure; redraw whenever its sweep changes."""
    found = figure(name)
    with reading() as reader, reader.db.snapshot():
        sweeps = sweeps_of(reader, found)
        top = st.container()
        sweep = _chosen(found, sweeps)
        token = reader.sweeps.token(sweep.id) if sweep else 0
        judged = judge(reader, found, sweep) if sweep else None
        runs = reader.sweeps.runs(sweep.id) if sweep else []
    with top:
        leaving = _heading(found, judged)
    with page_capture.keeping() as shown:
        page_capture.facts("Figure", facts_of(found, judged))
        left, right = st.columns([5, 3], gap="large")
        with left:
            _picture(found, judged)
        with right:
            if judged:
                reasons(judged)
            launch_button(found, "reduced", primary=judged is None)
            with st.expander("Details"):
                provenance(found, judged)
                launch_button(found, "full")
        if judged:
            rules(judged)
    with leaving:
        leave(found, judged, runs, shown)
    if sweep:
        components.pulse(token, sweep_id=sweep.id, active=sweep.active, every_ms=EVERY_MS)


def _chosen(found: Figure, sweeps: Sequence[Sweep]) -> Sweep | None:
    """Return the selected sweep, by default the newest; a link selects one with `sweep` and `figure`."""
    if len(sweeps) < 2:
        return sweeps[0] if sweeps else None
    names = {sweep.id: f"{sweep.id}: {size_of(sweep, found)}, by {sweep.owner}" for sweep in sweeps}
    linked = st.query_params.get("sweep", "") if st.query_params.get("figure") == found.name else ""
    start = next((place for place, sweep_id in enumerate(names) if str(sweep_id) == linked), 0)
    wanted = st.selectbox(
        "Sweep", list(names), start, format_func=names.__getitem__, key=f"sweep-of-{found.name}", width=420
    )
    return next((sweep for sweep in sweeps if sweep.id == wanted), sweeps[0])


def _heading(found: Figure, judged: Judgement | None) -> DeltaGenerator:
    """Show the title and the status badges; return the container for downloads."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(found.title), anchor=False, width="content")
        badges(found, judged, [judged.sweep] if judged else [])
        beside = st.container(width="content")
    st.text(f"Published: {found.claim}")
    return beside


def _picture(found: Figure, judged: Judgement | None) -> None:
    name = found.number
    if name == WHOLE and st.toggle(
        "Exclude start-up", key=f"execution-{found.name}", bind="query-params", help=STARTUP
    ):
        name = EXECUTION
    readings = judged.evidence.readings.get(name, ()) if judged else ()
    drawn, colours = picture(found, readings, name, x_title(found))
    components.figure(
        f"figure-{found.name}-{name}",
        drawn,
        alt=f"{found.title}, measured and published",
        height=HEIGHT_PX,
        colours=colours,
    )
    if name == EXECUTION and found.published:
        st.caption(ALONE)
        page_capture.words([ALONE])
    if not readings and not found.published:
        return
    with st.expander("Values"):
        st.html(numbers(found, readings, name))
    page_capture.table("Values", points(found, readings, name))
