"""The button that signs out: a form of its own, since only an answer of our route can take a cookie back."""

from pathlib import Path

import streamlit as st

FOLDER = Path(__file__).parent / "browser"
_form = st.components.v2.component(
    "parallab_sign_out",
    html=(FOLDER / "signout.html").read_text(),
    css=(FOLDER / "signout.css").read_text(),
    isolate_styles=False,
)


def sign_out_form() -> None:
    """Show the button; the browser leaves the page by it."""
    _form(key="sign-out", width="content")
