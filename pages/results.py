"""Results: the lab's shared table over all people and all times; its address holds the whole view."""

import streamlit as st

from app import results_table, results_view
from app.asking import reading
from app.importing import import_button

st.title("Results", anchor=False)
with reading() as reader:
    view = results_view.choose(reader)
    if view.matching is None:
        st.caption("The table is back once the filter can be read.")
        st.stop()
    found = results_table.find(reader, view)
    if found.lines:
        results_table.show(reader, view, found)
    else:
        results_table.nothing(reader, view)
        import_button()
