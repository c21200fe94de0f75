"""What stands in place of a form for somebody who may not send it: who may, and whom to ask."""

import streamlit as st

from app.ui import current_user
from app.ui.html import as_text
from app.ui.store_access import reading
from app.ui.widgets import PAGES


def form_is_closed(command: str) -> bool:
    """Where the person may not give a command, say so, who may, and what is open to them instead; return whether that
    is so.
    """
    if (refusal := current_user.why_not(command)) is None:
        return False
    with reading() as reader:
        admins = [each.name for each in reader.people.everyone() if each.role == "admin" and each.active]
    with st.container(border=True):
        st.write(as_text(refusal))
        st.write(
            as_text(
                f"{'The admin here is' if len(admins) == 1 else 'The admins here are'} {', '.join(admins)}; "
                "one can give you the role of a member."
            )
        )
        with st.container(horizontal=True):
            st.page_link(PAGES["runs"], label="Look at the runs of this lab")
            st.page_link(PAGES["results"], label="Look at the results")
    return True
