"""The button that signs out: a form of its own, since only an answer of our route can take a cookie back."""

import streamlit as st

from app.core.static_files import static_text

_form = st.components.v2.component(
    "parallab_sign_out",
    html=static_text("sign_in/signout.html"),
    css=static_text("sign_in/signout.css"),
    isolate_styles=False,
)


def sign_out_form() -> None:
    """Show the button; the browser leaves the page by it."""
    _form(key="sign-out", width="content")
