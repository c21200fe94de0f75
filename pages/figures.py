"""Figures: every published result beside ours, live while its sweep runs; `?figure=NAME` shows only one."""

import streamlit as st

from app.core.assets import at
from app.figures import card, section
from app.ui import components, widgets
from app.ui.html import breadcrumb, link
from app.ui.store_access import reading
from engine.published import FIGURES

wanted = st.query_params.get("figure", "")
known = [found for found in FIGURES if found.name == wanted]

if known:
    st.set_page_config(page_title=f"{known[0].title} · Parallab")
    st.html(breadcrumb([link("Figures", at("/figures"))], known[0].title))
else:
    st.title("Figures", anchor=False)
with reading() as reader:
    widgets.runner_banner(reader)
if wanted and not known:
    st.warning(f"No published figure has this name. Choose from: {', '.join(found.name for found in FIGURES)}.")
if known:
    section(wanted)
else:
    st.text("Published results of these experiments beside the mean and 95 % interval measured on this machine.")
    with st.container(key="figure-cards"):
        for found in FIGURES:
            with st.container(border=True):
                card(found.name)
components.preload_plotly()
