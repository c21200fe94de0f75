"""Museum: the faults of the published code, each with a switch and its effect; `?system=TITLE` shows those of one
system, `?exhibit=NAME` one.
"""

import streamlit as st

from app.actions.submit import carry_out_waiting
from app.museum.exhibit_table import exhibits
from app.museum.section import launch, section
from app.ui import components, permissions, widgets
from app.ui.store_access import reading
from engine.museum.latest_runs import Museum, museum
from engine.registry import experiment
from engine.signs.catalogue import SIGNS, systems

SOON_MS, LATER_MS = 1_000, 10_000
TAKES = "One run of about 30 s on two idle cores; results come in one by one."

carry_out_waiting()
st.title("Fault museum", anchor=False)
wanted = st.query_params.get("exhibit", "")
alone = [sign for sign in SIGNS if sign.name == wanted]
if wanted and not alone:
    st.warning(f"No exhibit has that name; those that there are: {', '.join(sign.name for sign in SIGNS)}.")
if alone:
    st.page_link(widgets.PAGES["museum"], label="All exhibits")
else:
    st.text(
        "Faults of the published code, rebuilt in a few lines each, beside the right way. "
        "Both really run, and the rule that our engine is held to is tried on both."
    )


def chosen_system() -> str | None:
    """Ask for a system; return the name of its experiment, None for all."""
    names = {"All": None} | {experiment(name).title: name for name in systems()}
    chosen = st.segmented_control(
        "System", list(names), key="system", default="All", required=True, bind="query-params", wrap=True
    )
    return names[chosen or "All"]


def all_of_them(found: Museum) -> None:
    """Offer one run of all exhibits."""
    on = found.shows("all") is not None
    stands = permissions.control("launch", disabled=on, help=TAKES)
    if st.button("Run all exhibits", key="museum.run.all", type="secondary" if found.visits else "primary", **stands):
        launch("all")


@st.fragment
def page() -> None:
    """Show the exhibits, and again when a run of the museum has news."""
    system = None if alone else chosen_system()
    with reading(lambda: components.pulse(-1)) as reader, reader.db.snapshot():
        token, found = reader.runs.token(), museum(reader)
        widgets.runner_banner(reader)
    if not alone:
        all_of_them(found)
    if system is None and not alone:
        exhibits(found)
    for sign in alone or [sign for sign in SIGNS if sign.system == system]:
        with st.container(border=True):
            section(sign, found.visits.get(sign.name), found.shows(sign.name))
    components.pulse(token, every_ms=SOON_MS if found.under_way else LATER_MS, early_ms=SOON_MS)


page()
components.preload_plotly()
