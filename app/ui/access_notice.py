"""The notice shown in place of a form to a person without the permission for it."""

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import reading
from app.ui.widgets import PAGES


def form_is_closed(command: str) -> bool:
    """Return whether the person lacks the permission for a command; then show why, whom to ask, and other pages."""
    if (refusal := current_user.why_not(command)) is None:
        return False
    with reading() as reader:
        admins = [each.name for each in reader.people.everyone() if each.role == "admin" and each.active]
    with st.container(border=True):
        st.write(as_text(refusal))
        st.write(as_text(f"Ask an admin for the member role: {', '.join(admins)}."))
        st.page_link(PAGES["runs"], label="View runs")
    return True
