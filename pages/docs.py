"""Documentation: the Markdown pages of the folder docs, one by its name (`?page=tour`); without a name, the list."""

from pathlib import Path

import streamlit as st

from app.core.assets import at
from app.ui.documentation import groups, page_body, pages, title_of
from app.ui.html import breadcrumb, link

wanted = st.query_params.get("page", "")


def show(path: Path) -> None:
    """Show one page."""
    st.html(breadcrumb([link("Documentation", at("/docs"))], title_of(path)))
    st.title(title_of(path), anchor=False)
    page_body(path)


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
