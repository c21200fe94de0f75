"""Not found: what the server shows for an unknown address (`?path=ADDRESS`), with links to pages that exist."""

from difflib import get_close_matches

import streamlit as st

from app.ui.navigation import SECTIONS, TITLES
from app.ui.widgets import PAGES

LONGEST = 100
wanted = st.query_params.get("path", "/not_found")[:LONGEST]
named = wanted.strip("/").rpartition("/")[2].lower()
close = get_close_matches(named, [page for pages in SECTIONS.values() for page in pages], n=3, cutoff=0.6)

st.title("Page not found", anchor=False)
st.text(f"There is no page at {wanted}. Choose a page, or search with Ctrl-K.")
with st.container(horizontal=True):
    for page in dict.fromkeys((*close, "home", "launch", "runs")):
        st.page_link(PAGES[page], label=TITLES[page])
