"""Documentation: the Markdown pages of the folder docs, one by its name (`?page=tour`); without a name, the list."""

from pathlib import Path

import streamlit as st

from app.core.assets import at
from app.ui.documentation import GUIDES, first_sentence, groups, page_body, pages, title_of
from app.ui.html import breadcrumb, link, quiet, stacked
from engine.exercises.catalogue import ExerciseCatalogue
from engine.home import Home

wanted = st.query_params.get("page", "")


def show(name: str, path: Path) -> None:
    """Show one page; of an experiment with exercises also the way to them."""
    st.html(breadcrumb([link("Documentation", at("/docs"))], title_of(path)))
    st.title(title_of(path), anchor=False)
    if (known := name.removeprefix(GUIDES)) != name and any(
        file.exercise and file.exercise.experiment == known for file in ExerciseCatalogue(Home.find()).listed.values()
    ):
        st.html(link("Exercises", at(f"/exercises?experiment={known}")))
    page_body(path)


with st.container(width=820, key="docs"):
    if wanted in pages():
        st.set_page_config(page_title=f"{title_of(pages()[wanted])} · Parallab")
        show(wanted, pages()[wanted])
    else:
        st.title("Documentation", anchor=False)
        if wanted:
            st.text("This page of the documentation doesn't exist. Choose one of these.")
        for group, names in groups().items():
            st.header(group, anchor=False)
            for name in names:
                entry = link(title_of(pages()[name]), at(f"/docs?page={name}"))
                st.html(stacked([entry, quiet(first_sentence(pages()[name]))]))
