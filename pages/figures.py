"""Figures: every published result with its verdict, live while its sweep runs; `?figure=NAME` shows one by itself."""

import streamlit as st

from app import live, parts
from app.asking import reading
from app.launching import carry_out_waiting
from app.published_section import section
from engine.published import FIGURES

carry_out_waiting()
wanted = st.query_params.get("figure", "")
known = [found for found in FIGURES if found.name == wanted]

st.title("Published figures", anchor=False)
with reading() as reader:
    parts.runner_banner(reader)
if wanted and not known:
    st.warning(
        f"No published figure has that name; those that there are: {', '.join(found.name for found in FIGURES)}."
    )
if known:
    st.page_link(parts.PAGES["figures"], label="All figures")
else:
    st.text(
        "What the sources of these experiments published, measured again on this machine. Each verdict stands "
        "beside the rules that led to it."
    )
for found in known or FIGURES:
    with st.container(border=True):
        section(found.name)
live.preload_plotly()
