"""The frame round every page: it names the console, lists the pages, and holds nothing else."""

import streamlit as st

from app.core.static_files import STATIC
from app.ui import current_user, dialogs
from app.ui.widgets import PAGES
from engine.home import ROOT

IMAGES = ROOT / "app" / "images"

st.set_page_config(page_title="Parallab", page_icon=str(IMAGES / "icon.png"), layout="wide")
st.logo(str(IMAGES / "logo.svg"), size="large")
st.html(STATIC / "page" / "console.css")
current_user.let_in()
has_account = current_user.has_account()
page = st.navigation(
    [
        st.Page(PAGES["home"], title="Home", default=True),
        st.Page(PAGES["launch"], title="Launch"),
        st.Page(PAGES["runs"], title="Runs"),
        st.Page(PAGES["run"], title="Run"),
        st.Page(PAGES["results"], title="Results"),
        st.Page(PAGES["compare"], title="Compare"),
        st.Page(PAGES["scaling"], title="Scaling"),
        st.Page(PAGES["duel"], title="Duel"),
        st.Page(PAGES["figures"], title="Figures"),
        st.Page(PAGES["museum"], title="Museum"),
        st.Page(PAGES["machine"], title="Machine"),
        st.Page(PAGES["notifications"], title="Notifications"),
        st.Page(
            PAGES["sweep"], title="Sweep", visibility="hidden"
        ),  # reached from its runs, a launch and the Runs page
        st.Page(
            PAGES["people"],
            title="People",
            visibility="visible" if has_account and current_user.may("add person") else "hidden",
        ),
        st.Page(PAGES["account"], title="Account", visibility="visible" if has_account else "hidden"),
    ],
    position="top",
)
dialogs.open_asked()  # before the page, which may end the script early
page.run()
