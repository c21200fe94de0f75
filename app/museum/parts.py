"""Parts that the cards of the museum and the pages of its exhibits share: badges, run button, provenance."""

import streamlit as st
from markupsafe import Markup

from app.actions.submit import PendingLaunch, order
from app.ui import permissions
from app.ui.html import as_text, code, joined, labelled, quiet, run_link, when
from engine.museum.latest_runs import NAME, Visit
from engine.registry import experiment
from engine.signs.sign import Sign
from engine.store.records import RunRow


def badges(visit: Visit | None, coming: RunRow | None) -> None:
    """Show the status of an exhibit."""
    if visit and visit.caught:
        st.badge(
            "caught", color="green", help="The invariant holds for the corrected code and fails for the published code."
        )
    elif visit:
        st.badge("fault not seen", color="orange", help=as_text(visit.unseen))
    if coming:
        st.badge("queued" if coming.status == "queued" else "running", color="blue")
    elif not visit:
        st.badge("not run yet", color="gray")


def launch_button(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show the button that runs an exhibit, disabled while a run of it is active."""
    if st.button(
        "Run again" if visit else "Run exhibit",
        key=f"museum.run.{sign.name}",
        **permissions.control("launch", disabled=coming is not None),
    ):
        launch(sign.name)


def launch(exhibit: str) -> None:
    """Queue a run of one exhibit or all, and stay on the page."""
    found = experiment(NAME)
    preset = exhibit if exhibit in found.presets else None
    order(PendingLaunch(NAME, preset, found.configure(changes={"exhibit": exhibit}), stays=True))


def engine_test(sign: Sign) -> Markup:
    """Return the engine test of the same rule."""
    path, _, name = sign.guard.partition("::")
    return labelled("Test of the engine", f"{name} " + quiet(f"in {path}"))


def results_of(visit: Visit) -> Markup:
    """Return the run that an exhibit's results are from."""
    shown = run_link(f"run {visit.run.id}", visit.run.id)
    return quiet("Results of " + shown + f" by {visit.run.owner}, " + when(visit.run.created_at))


def marked(words: str) -> Markup:
    """Return a sentence as HTML, with backquoted parts as code."""
    return joined((code(part) if place % 2 else part for place, part in enumerate(words.split("`"))), "")
