"""Figures: every published result with its verdict, live while its sweep runs; `?figure=NAME` shows one by itself."""

import streamlit as st

from app.actions.submit import carry_out_waiting
from app.figures.section import section
from app.ui import components, widgets
from app.ui.store_access import reading
from engine.published import FIGURES

carry_out_waiting()
wanted = st.query_params.get("figure", "")
known = [found for found in FIGURES if found.name == wanted]

st.title("Published figures", anchor=False)
with reading() as reader:
    widgets.runner_banner(reader)
if wanted and not known:
    st.warning(
        f"No published figure has that name; those that there are: {', '.join(found.name for found in FIGURES)}."
    )
if known:
    st.page_link(widgets.PAGES["figures"], label="All figures")
else:
    st.text(
        "What the sources of these experiments published, measured again on this machine. Each verdict stands "
        "beside the rules that led to it."
    )
for found in known or FIGURES:
    with st.container(border=True):
        section(found.name)
components.preload_plotly()
