"""Duel: strategies on one budget; `?duel=ID` shows one, live while its runs are on; without a number the form for
another one and those that there are.
"""

import streamlit as st

from app.actions.submit import carry_out_waiting
from app.duel.form import form
from app.duel.list_entry import entry
from app.duel.view import page
from app.ui import components, widgets
from app.ui.access_notice import form_is_closed
from app.ui.store_access import reading

NEWEST = 30
carry_out_waiting()
wanted = st.query_params.get("duel", "")

if wanted.isdecimal() and len(wanted) < 18:
    page(int(wanted))
else:
    st.title("Duel", anchor=False)
    if wanted:
        st.warning("A link to a duel ends in its number, such as /duel?duel=3.")
    st.text(
        "Strategies on one budget, from the same first weights and seeds, each with a learning rate tuned by "
        "the same grid: who gets further with it?"
    )
    with reading() as reader:
        widgets.runner_banner(reader)
        newest = reader.duels.recent(limit=NEWEST)
    if not form_is_closed("launch duel"):
        form()
    st.header("Duels so far", anchor=False)
    if not newest:
        st.text("None yet. The first one stands here as soon as it is launched.")
    for one in newest:
        entry(one)
components.preload_plotly()
