"""Documentation: the Markdown pages of the folder docs, one by its name (`?page=tour`); without a name, the list."""

import re
from pathlib import Path

import streamlit as st

from app.core.assets import at
from app.ui.documentation import DOCS, groups, pages, title_of
from app.ui.html import breadcrumb, link
from app.ui.widgets import page_address

PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<path>[^)]+)\)$", re.M)
LINK = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<path>(?!https?:)[^)]*)\)")
PORT = re.compile(r"http://127\.0\.0\.1:8501\b")
wanted = st.query_params.get("page", "")


def show(path: Path) -> None:
    """Show one page with its pictures; links to other pages stay in the console, links to other files become text.
    Addresses of the console are those at which it is open here.
    """

    def linked(found: re.Match[str]) -> str:
        file, _, place = found["path"].partition("#")
        target = (path.parent / file).resolve().with_suffix("") if file else path.with_suffix("")
        name = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else ""
        address = at(f"/docs?page={name}") + (f"#{place}" if place else "")
        return f"[{found['words']}]({address})" if name in pages() else found["words"]

    st.html(breadcrumb([link("Documentation", at("/docs"))], title_of(path)))
    st.title(title_of(path), anchor=False)
    end = 0
    body = PORT.sub(page_address("").rstrip("/"), path.read_text().partition("\n")[2])
    for picture in PICTURE.finditer(body):
        st.markdown(LINK.sub(linked, body[end : picture.start()]))
        st.image(path.parent / picture["path"], caption=picture["alt"])
        end = picture.end()
    st.markdown(LINK.sub(linked, body[end:]))


with st.container(width=820, key="docs"):
    if wanted in pages():
        st.set_page_config(page_title=f"{title_of(pages()[wanted])} · Parallab")
        show(pages()[wanted])
    else:
        st.title("Documentation", anchor=False)
        if wanted:
            st.text("This page of the documentation doesn't exist. Choose one of these.")
        for group, names in groups().items():
            st.header(group, anchor=False)
            for name in names:
                st.html(link(title_of(pages()[name]), at(f"/docs?page={name}")))
