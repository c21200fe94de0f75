"""A published figure as a card: its picture, the verdict and one button, with the details folded."""

import streamlit as st

from app.figures.chart import CARD_PX, picture, x_title
from app.figures.launches import launch_button
from app.figures.provenance import provenance
from app.figures.status import badges, verdict_sentence
from app.ui import components, widgets
from app.ui.html import as_text
from app.ui.store_access import reading
from engine.published import figure
from engine.published.judgement import best_judgement, judge, sweeps_of

EVERY_MS = 2_000


@st.fragment
def card(name: str) -> None:
    """Show one figure; redraw whenever its active sweep changes."""
    found = figure(name)
    with reading() as reader, reader.db.snapshot():
        sweeps = sweeps_of(reader, found)
        newest = next((sweep for sweep in sweeps if sweep.active), sweeps[0] if sweeps else None)
        token = reader.sweeps.token(newest.id) if newest else 0
        judged = best_judgement(reader, found) or (judge(reader, found, newest) if newest else None)
    st.header(as_text(found.title), anchor=found.name.replace("_", "-"))
    with st.container(horizontal=True, gap="small"):
        badges(found, judged, sweeps)
    readings = judged.evidence.readings.get(found.number, ()) if judged else ()
    drawn, colours = picture(found, readings, found.number, x_title(found), height=CARD_PX)
    components.figure(
        f"card-{name}", drawn, alt=f"{found.title}, measured and published", height=CARD_PX, colours=colours
    )
    st.text(f"Published: {found.claim}")
    if judged:
        st.caption(as_text(verdict_sentence(judged)))
        if st.button("View results", key=f"view-{name}"):
            widgets.go_to_figure(name)
    else:
        launch_button(found, "reduced", primary=True, reductions=False)
    with st.expander("Details"):
        provenance(found, judged)
        if not judged:
            launch_button(found, "full")
    if newest:
        components.pulse(token, sweep_id=newest.id, active=newest.active, every_ms=EVERY_MS)
