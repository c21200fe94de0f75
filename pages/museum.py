"""Museum: faults of the published code as cards; `?system=TITLE` shows those of one system, `?exhibit=NAME` one exhibit
with a switch between both versions, its chart and its code, `&by=NAME` with the newest result of that person's runs.
"""

from typing import Literal

import streamlit as st

from app.actions import submit
from app.core.assets import at
from app.links import addresses
from app.museum import card, launch, section
from app.ui import components, current_user, widgets
from app.ui.html import as_text, breadcrumb, link
from app.ui.store_access import reading
from engine.errors import counted
from engine.museum.exhibit import SIGNS, SYSTEMS
from engine.museum.latest_runs import Museum, museum
from engine.registry import experiment

SOON_MS, LATER_MS = 1_000, 10_000
TAKES = "One run of about 30 s on two idle cores. Results appear one by one."

wanted = st.query_params.get("exhibit", "")
by = st.query_params.get("by") or None
alone = next((sign for sign in SIGNS if sign.name == wanted), None)
if alone:
    st.set_page_config(page_title=f"{alone.title} · Parallab")
    st.html(breadcrumb([link("Museum", at("/museum"))], alone.title))
else:
    st.title("Museum", anchor=False)
    if wanted:
        st.warning(f"No exhibit has this name. Choose from: {', '.join(sign.name for sign in SIGNS)}.")
    st.text(
        "Faults of the published code, each reproduced in a few lines next to the corrected code. "
        "Both versions run, and both are checked against the invariant that the engine's tests use."
    )
    st.html(link("Guide to the museum", at("/docs?page=museum")))


def cards(found: Museum) -> None:
    """Show the button that runs all exhibits, and the exhibits of the selected system or of all."""
    titles = {experiment(name).title: name for name in SYSTEMS}
    chosen = st.segmented_control(
        "System", ["All", *titles], key="system", default="All", required=True, bind="query-params", wrap=True
    )
    control = current_user.control("launch", disabled=found.shows("all") is not None, help=TAKES)
    kind: Literal["primary", "secondary"] = "secondary" if found.visits else "primary"
    with st.container(horizontal=True, vertical_alignment="center"):
        if submit.button("Run all exhibits", "museum.run.all", type=kind, **control):
            launch("all")
        st.caption(f"{len(found.visits)} of {counted(len(SIGNS), 'exhibit')} have results.", width="content")
    for title, name in titles.items():
        if chosen in (None, "All", title):
            st.header(title, anchor=False)
            with st.container(key=f"museum-cards-{name}"):
                for sign in (each for each in SIGNS if each.system == name):
                    with st.container(border=True):
                        card(sign, found.visits.get(sign.name), found.shows(sign.name))


@addresses.fragment
def page() -> None:
    """Show the exhibits; redraw when a run of the museum changes."""
    with reading(lambda: components.pulse(-1)) as reader, reader.db.snapshot():
        token, found = reader.runs.token(), museum(reader, by if alone else None)
        widgets.runner_banner(reader)
    if alone:
        if by:
            st.caption(as_text(f"The newest result of {by}; the museum has that of everyone."))
        section(alone, found.visits.get(alone.name), found.shows(alone.name))
    else:
        cards(found)
    components.pulse(token, every_ms=SOON_MS if found.under_way else LATER_MS, early_ms=SOON_MS)


page()
components.preload_plotly()
