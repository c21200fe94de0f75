"""Parts that several pages show: a status, the runner's banner, facts, an empty page, a cancel that asks first."""

from typing import Literal
from urllib.parse import urlsplit

import streamlit as st

from app.core.base_path import at
from app.links.launch import launch_query
from app.ui import current_user, dialogs, permissions
from app.ui.html import as_text, facts
from app.ui.store_access import command
from engine.errors import EngineError
from engine.home import ROOT
from engine.registry import experiment
from engine.store import QueuedRun, Reader, Store
from engine.store.records import ENDED, Run, RunRow, Status
from engine.system.liveness_lock import lives

Colour = Literal["gray", "blue", "orange", "green", "red", "violet", "yellow"]
COLOURS: dict[Status, Colour] = {
    "queued": "gray",
    "starting": "blue",
    "running": "blue",
    "stopping": "orange",
    "finished": "green",
    "failed": "red",
    "cancelled": "yellow",
    "lost": "violet",
}
_NAMES = (
    *(
        "home",
        "launch",
        "runs",
        "run",
        "sweep",
        "results",
        "compare",
        "scaling",
        "duel",
        "figures",
        "museum",
        "machine",
    ),
    *("notifications", "account", "people"),
)
PAGES = {name: ROOT / "pages" / f"{name}.py" for name in _NAMES}


def status_badge(status: Status) -> None:
    """Show a status: its word carries the meaning, its colour only helps."""
    st.badge(status, color=COLOURS[status])


def show_facts(pairs: list[tuple[str, str]]) -> None:
    """Show label-over-value pairs in a row that wraps; the values are HTML."""
    st.html(facts(pairs))


def title_of(run: Run | RunRow | QueuedRun) -> str:
    """Return what a run is called in lists: its name, or its experiment and preset."""
    try:
        kind = experiment(run.experiment).title
    except EngineError:
        kind = run.experiment
    kind = f"{kind}, {run.preset}" if run.preset else kind
    return f"{run.name} ({kind})" if run.name else kind


def runner_banner(reader: Reader) -> None:
    """Say so where no runner is alive; the console itself starts it again, never a page."""
    if sentence := runner_trouble(reader):
        st.warning(sentence)


def runner_trouble(reader: Reader) -> str:
    """Return what is wrong with the runner, as Markdown; empty where it serves."""
    row = reader.runner.current()
    if row is None:
        return (
            "No runner serves this lab: it is starting, or was stopped. Queued runs wait until the console or "
            "`python -m engine serve` starts one."
        )
    if not lives(reader.db.home, row.process):
        return (
            "The runner died, so queued runs wait. The console starts it again within a few seconds; if this "
            "stays, its log says why."
        )
    return (
        "The runner was asked to stop: it takes no new runs and ends once its last run has ended."
        if row.stopping
        else ""
    )


def empty(sentence: str, label: str, page: str) -> None:
    """Show an empty state: what is missing, and where to go for it."""
    with st.container(border=True):
        st.write(sentence)
        st.page_link(PAGES[page], label=label)


def go_to_run(run_id: int) -> None:
    """Go to the page of one run."""
    st.switch_page(PAGES["run"], query_params={"run": str(run_id)})


def go_to_sweep(sweep_id: int) -> None:
    """Go to the page of one sweep."""
    st.switch_page(PAGES["sweep"], query_params={"sweep": str(sweep_id)})


def go_to_figure(name: str) -> None:
    """Go to a published figure by itself."""
    st.switch_page(PAGES["figures"], query_params={"figure": name})


def go_to_duel(duel_id: int) -> None:
    """Go to the page of one duel."""
    st.switch_page(PAGES["duel"], query_params={"duel": str(duel_id)})


def page_address(path: str) -> str:
    """Return the whole address of a page of ours, as this browser reaches it."""
    here = urlsplit(st.context.url or "")
    return f"{here.scheme}://{here.netloc}{at(path)}" if here.netloc else at(path)


def clone(run: Run | RunRow) -> None:
    """Go to the launch form, filled with the settings of a run."""
    st.switch_page(PAGES["launch"], query_params=launch_query(experiment(run.experiment), run.preset, run.config))


@st.dialog("Cancel this run?")
def ask_cancel(run: Run | RunRow) -> None:
    """Ask once more, then order the cancel; of a run that is stopping already, offer to end it by force."""
    forced = run.status == "stopping"

    def cancel(store: Store) -> Status:
        return store.runs.cancel(run.id, by=current_user.whoever(), force=forced)

    st.write(f"Run {run.id}, {as_text(title_of(run))}, is {run.status}.")
    st.write(_what_a_cancel_does(run))
    with st.container(horizontal=True):
        ordered = (
            command(cancel)
            if st.button("Kill its processes now" if forced else "Cancel the run", type="primary")
            else None
        )
        if ordered is not None:
            st.rerun()
        if st.button("Wait for it" if forced else "Let it go on"):
            st.rerun()


def _what_a_cancel_does(run: Run | RunRow) -> str:
    if run.status == "queued":
        return "It leaves the queue."
    if run.status == "stopping":
        return (
            "Its processes were asked to end, and are killed by themselves about 6 s later. You can have them "
            "killed at once."
        )
    return "Its processes are ended within seconds. What it has recorded so far is kept."


def cancel_button(run: Run | RunRow) -> None:
    """Show the button that cancels, for a run that has not ended; a second click offers force."""
    if run.status in ENDED:
        return
    if st.button("Cancel", key=f"cancel-{run.id}", **permissions.control("cancel", [run.owner], what=f"Run {run.id}")):
        dialogs.open_soon(ask_cancel, run)


def clone_button(run: Run | RunRow) -> None:
    """Show the button that fills the launch form with a run's settings."""
    if st.button(
        "Clone",
        key=f"clone-{run.id}",
        **permissions.control("launch", help="Fill the launch form with this run's settings."),
    ):
        try:
            clone(run)
        except EngineError as error:
            st.error(as_text(str(error)))
