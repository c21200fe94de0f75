"""Duel: strategies on one budget. `?duel=ID` shows one duel, live while its runs are active; without it, the launch
form and the list of duels.
"""

import streamlit as st

from app.actions.submit import form_is_closed
from app.duel.form import form
from app.duel.header import entry
from app.duel.view import page
from app.ui import components, widgets
from app.ui.store_access import invalid_link, reading

NEWEST = 30
wanted = st.query_params.get("duel", "")

if wanted.isdecimal() and len(wanted) < 18:
    page(int(wanted))
elif wanted:
    invalid_link("duel", wanted)
else:
    st.title("Duels", anchor=False)
    st.text(
        "Compare strategies on one budget, with the same initial weights and seeds and learning rates tuned on the "
        "same grid."
    )
    with reading() as reader:
        widgets.runner_banner(reader)
        newest = reader.duels.recent(limit=NEWEST)
    if not form_is_closed("launch duel"):
        form()
    st.header("Recent duels", anchor=False)
    if not newest:
        st.text("No duels yet. Launch the one above: its ranking appears here.")
    for one in newest:
        entry(one)
components.preload_plotly()
