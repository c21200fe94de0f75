"""The frame of every page: title, logo and navigation."""

import streamlit as st

from app.links import addresses
from app.ui import current_user, dialogs
from app.ui.navigation import TITLES, offered
from app.ui.widgets import PAGES
from engine.home import ROOT

IMAGES = ROOT / "app" / "images"

st.set_page_config(page_title="Parallab", page_icon=str(IMAGES / "icon.png"), layout="wide")
st.logo(str(IMAGES / "logo.svg"), size="large")
current_user.require_sign_in()
sections = offered(current_user.standing(), has_account=current_user.has_account())
linked = [name for name in PAGES if not any(name in pages for pages in sections.values())]
page = st.navigation(
    {
        section: [st.Page(PAGES[name], title=TITLES[name], default=name == "home") for name in pages]
        + [st.Page(PAGES[name], title=TITLES[name], visibility="hidden") for name in linked if not section]
        for section, pages in sections.items()
    },
    position="top",
)
st.set_page_config(page_title=f"{page.title} · Parallab")  # pages of one run, sweep or duel set their own
addresses.begin(page.url_path)
current_user.carry_out_waiting()
dialogs.open_asked()  # before the page, which may stop the script
page.run()
