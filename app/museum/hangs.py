"""The exhibits of hangs on the page Museum: a card for each cause, with what the hang doctor said in its newest run."""

from dataclasses import dataclass

import streamlit as st

from app.actions.submit import PendingLaunch, order
from app.museum.parts import marked
from app.ui import permissions
from app.ui.html import as_text, block, labelled, paragraph, quiet, run_link, when
from engine.museum.hang_catalogue import HANGS, HangExhibit
from engine.registry import experiment
from engine.store import Reader
from engine.store.records import ENDED, RunRow

TITLE, NAME, MOST = "Why runs hang", "hang_museum", 200
ABOUT = (
    "Three ranks, one of which makes the others wait. They really hang; after 3 s without progress the hang doctor "
    "names the rank and the cause, and ends the run."
)


@dataclass(frozen=True)
class HangRuns:
    """The newest run with the fault of each exhibit by name, and whether any run is active."""

    newest: dict[str, RunRow]
    is_active: bool


def hang_runs(reader: Reader) -> HangRuns:
    """Return the newest runs, of any owner."""
    found = reader.runs.find(experiment=NAME, limit=MOST)
    newest: dict[str, RunRow] = {}
    for run in found:
        if run.config.get("version") == "wrong":
            newest.setdefault(str(run.config.get("cause")), run)
    return HangRuns(newest, any(run.status not in ENDED for run in found))


def hang_cards(found: HangRuns) -> None:
    """Show all exhibits."""
    st.header(TITLE, anchor=False)
    st.text(ABOUT)
    with st.container(key="museum-cards-hangs"):
        for exhibit in HANGS:
            with st.container(border=True):
                _card(exhibit, found.newest.get(exhibit.name))


def _card(exhibit: HangExhibit, run: RunRow | None) -> None:
    st.subheader(as_text(exhibit.title), anchor=exhibit.name.replace("_", "-"))
    is_active = run is not None and run.status not in ENDED
    if run is None or is_active:
        st.badge(run.status if run else "not run yet", color="blue" if run else "gray")
    st.html(paragraph(exhibit.wrong))
    if run and not is_active:
        st.html(block("pl-result", run.cause))
    with st.container(horizontal=True, gap="small"):
        _button(exhibit, "wrong", "Run again" if run else "Run exhibit", disabled=is_active)
        _button(exhibit, "right", "Run without the fault")
    with st.expander("Details"):
        st.html(labelled("Prevention", marked(exhibit.right)))
        if run:
            st.html(quiet(run_link(f"Run {run.id}", run.id) + f" by {run.owner}, " + when(run.created_at)))


def _button(exhibit: HangExhibit, version: str, label: str, *, disabled: bool = False) -> None:
    if st.button(
        label,
        key=f"museum.hang.{version}.{exhibit.name}",
        type="secondary" if version == "wrong" else "tertiary",
        **permissions.control("launch", disabled=disabled),
    ):
        config = experiment(NAME).configure(exhibit.name, {"version": version})
        order(PendingLaunch(NAME, exhibit.name, config, stays=True))
