"""Results: the lab's shared table over all people and all times; its address holds the whole view."""

import streamlit as st

from app.runs import page_table, query
from app.runs.import_dialog import import_button
from app.ui.store_access import reading

st.title("Results", anchor=False)
with reading() as reader:
    view = query.choose(reader)
    if view.matching is None:
        st.caption("The table is back once the filter can be read.")
        st.stop()
    found = page_table.find(reader, view)
    if found.lines:
        page_table.show(reader, view, found)
    else:
        page_table.nothing(reader, view)
        import_button()
