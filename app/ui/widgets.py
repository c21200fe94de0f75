"""Parts shared by several pages: status badge, runner banner, facts, empty state, cancel with confirmation."""

import time
from collections.abc import Iterable
from typing import Literal
from urllib.parse import urlsplit

import streamlit as st

from app.core.assets import at
from app.core.caches import is_silent
from app.core.formatting import absolute, ago
from app.links import addresses
from app.links.launch import clone_query
from app.ui import components, current_user, dialogs
from app.ui.html import as_text, facts, joined, link, quiet
from app.ui.run_state import outcome
from app.ui.store_access import command, reading
from engine.access.providers import is_of_this_machine
from engine.access.quotas import disturbed_above
from engine.analysis.run_values import kind_in_words, lower_title
from engine.errors import EngineError, WrongStatus
from engine.filter import RUN_FIELDS
from engine.home import ROOT, Home
from engine.registry import experiment_title, known_experiment
from engine.store import QueuedRun, Reader, Store, Sweep
from engine.store.records import ALIVE, ENDED, Run, RunRow, Status
from engine.system.runner_process import ensure_running, is_running, is_separate, lives, runner_process

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
PAGES = {path.stem: path for path in sorted((ROOT / "pages").glob("*.py"))}
"""The script of each page by the last part of its address."""

CANCEL_MS = 2_000
"""Polling interval of the dialog that cancels a run."""
START_S = 10.0
"""Longest wait for a started runner to register."""
HUNG_S = 60.0
"""Silence of a live runner after which pages warn of it."""
WITHHELD = "Explanations appear after the exercise is handed in."
FILTER_EXAMPLE = "trainers >= 4 and test/accuracy.best > 98"
FILTER_HELP = (
    "Conditions on settings, metrics and run fields such as `status`, `owner`, `tags`, `created`:\n\n"
    '`experiment == "hogwild" and trainers in (2, 4)`\n\n`test/accuracy.best > 98 or "thesis" in tags`\n\n'
    '`created > "7d ago" and not starred`\n\n'
    "Run fields: "
    + ", ".join(f"`{name}`" for name in RUN_FIELDS)
    + ". Metrics have `.last`, `.mean`, `.min`, `.max`, `.count`, and `.best` where a direction is better. A name with "
    'spaces: `config["batch size"]`, `metric["val loss"].min`.'
)
"""The example and the help of a filter field."""


def status_badge(run: Run | RunRow) -> None:
    """Show a run's status as a badge; the word carries the meaning, not the colour."""
    status, word = outcome(run)
    st.badge(word, color=COLOURS[status])


def show_facts(pairs: list[tuple[str, str]]) -> None:
    """Show label-over-value pairs in a row that wraps; the values are HTML."""
    st.html(facts(pairs))


def sweep_name(sweep: Sweep) -> str:
    """Return the sweep's name, or its experiment and varied fields."""
    return sweep.name or sweep_kind(sweep)


def sweep_kind(sweep: Sweep) -> str:
    """Return the sweep's experiment and what it is drawn across."""
    return f"{experiment_title(sweep.experiment)} over {' and '.join(map(lower_title, map(sweep.shown, sweep.across)))}"


def title_of(run: Run | RunRow | QueuedRun) -> str:
    """Return the title of a run in lists: its name with what it is, or only this."""
    kind = kind_in_words(run.experiment, run.preset, run.config)
    return f"{run.name} ({kind})" if run.name else kind


def say_withheld(reader: Reader, runs: Iterable[int]) -> None:
    """Say so where an exercise still withholds the explanations of its runs."""
    if reader.exercises.withholds(runs):
        st.caption(WITHHELD)


def runner_banner(reader: Reader) -> None:
    """Show a warning if no runner is alive, with a button that starts one if it was stopped."""
    with st.container():  # keeps its place: as it goes, nothing below is rebuilt, with what is being typed there
        if not (trouble := runner_trouble(reader)):
            return
        is_stopped = reader.runner.current() is None and not is_running(reader.db.home)
        st.warning(f"{trouble} {_how_to_start()}" if is_stopped else trouble)
        if is_stopped and not is_separate():
            allowed = current_user.control("start runner", help="Runs that are queued then start.")
            if st.button("Start the runner", key="start-runner", **allowed) and command(_start_runner):
                st.rerun()


def _start_runner(store: Store) -> bool:
    """Start the runner and wait until it has registered."""
    store.access.permit("start runner", by=current_user.whoever())
    ensure_running(store.db.home)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and runner_process(store.db.home) is None:
        time.sleep(0.1)
    return True


def runner_trouble(reader: Reader) -> str:
    """Return the problem with the runner, as Markdown; empty if it is running."""
    row = reader.runner.current()
    if row is None:
        if is_running(reader.db.home):
            return "The runner is starting. Queued runs wait until it has started."
        stop = next((one for one in reader.audit.entries(command="stop runner") if not one.refused), None)
        last = f" {as_text(stop.who)} stopped it at {absolute(stop.at)}." if stop else ""
        return f"No runner is running, so queued runs wait.{last}"
    if not lives(reader.db.home, row.process):
        return (
            "The runner died, so queued runs wait. The console restarts it within a few seconds; if this message "
            "persists, see the runner's log."
        )
    if row.stopping:
        return "The runner is stopping: it starts no new runs and exits after its last run."
    if is_silent(row, HUNG_S):
        return (
            f"The runner last reported {ago(row.heartbeat_at)}, so queued runs may not start. If this message stays, "
            "stop it with `python -m engine stop`; the console then starts another one."
        )
    return ""


def _how_to_start() -> str:
    if is_separate():
        return "A service of this machine runs it: an admin can start it, such as by `systemctl start parallab-runner`."
    if current_user.may("start runner"):
        return "Start it here, or with `make run` or `python -m engine serve`."
    return "Ask an admin to start it."


def empty(sentence: str, label: str, page: str) -> None:
    """Show an empty state: what will be here, and a link in the form of a button to the page that brings it."""
    with st.container(border=True, key=f"empty-{page}"):
        st.write(sentence)
        st.page_link(PAGES[page], label=label)


def go_to_figure(name: str) -> None:
    """Go to the page of one published figure."""
    addresses.go(PAGES["figures"], {"figure": name})


def page_address(path: str) -> str:
    """Return the absolute URL of a page, as this browser reaches it."""
    here = urlsplit(st.context.url or "")
    return f"{here.scheme}://{here.netloc}{at(path)}" if here.netloc else at(path)


def permalink(path: str, *, newest: tuple[str, str] | None = None) -> None:
    """Show the button with the permalink of a page, and of the page that follows the `newest`, with its words."""
    with st.popover("Link", help="Permalink to this page."):
        st.code(address := page_address(path), language=None, wrap_lines=True)
        if newest:
            st.caption(as_text(newest[0]))
            st.code(page_address(newest[1]), language=None, wrap_lines=True)
        say_reach(address)


def say_reach(address: str) -> None:
    """Show that an address of loopback opens on this machine only, and where the way to others is described."""
    if is_of_this_machine(address):
        guide = link("Deployment", at("/docs?page=deployment"))
        here = "This address opens the console on this machine only. To let others open it: "
        st.html(quiet(joined([here, guide, "."], "")))


def clone(run: Run | RunRow) -> None:
    """Go to the launch form, filled with the settings of a run."""
    addresses.go(PAGES["launch"], clone_query(run))


@st.dialog("Cancel this run?")
def ask_cancel(run: Run | RunRow) -> None:
    """Ask for confirmation, then cancel; for a run that is already stopping, offer to kill it. If the run ends
    meanwhile, say so.
    """
    with reading() as reader:
        token, run = reader.runs.token(run.id), reader.runs.one(run.id)
    if run.status in ENDED:
        close_dialog(f"Run {run.id} has ended: {run.status}. There is nothing to cancel.")
        return
    forced = run.status == "stopping"

    def cancel(store: Store) -> bool:
        try:
            store.runs.cancel(run.id, by=current_user.whoever(), force=forced)
        except WrongStatus as error:  # it has ended, such as while the name was asked for
            st.toast(as_text(str(error)))
        return True

    st.write(f"Run {run.id}, {as_text(title_of(run))}, is {run.status}.")
    st.write(_effect_of_cancel(run))
    with st.container(horizontal=True):
        ordered = command(cancel) if st.button("Kill now" if forced else "Cancel run", type="primary") else None
        if ordered is not None:
            st.rerun()
        if st.button("Wait" if forced else keep_label([run.status])):
            st.rerun()
    components.pulse(token, run_id=run.id, every_ms=CANCEL_MS)


def keep_label(statuses: Iterable[Status], them: str = "it") -> str:
    """Return the label of the button that cancels nothing, by the statuses of what would be cancelled."""
    return "Keep running" if any(status in ALIVE for status in statuses) else f"Keep {them}"


def close_dialog(sentence: str) -> None:
    """Show in a dialog why there is nothing left to confirm."""
    st.write(as_text(sentence))
    if st.button("Close", type="primary"):
        st.rerun()


def _effect_of_cancel(run: Run | RunRow) -> str:
    if run.status == "queued":
        return "It will be removed from the queue."
    if run.status == "stopping":
        return "Its processes are stopping and will be killed automatically in about 6 s. You can also kill them now."
    return "Its processes will stop within seconds. Recorded data is kept."


def cancel_button(run: Run | RunRow) -> None:
    """Show the cancel button of a run that has not ended; while the run stops, it is named Kill and offers that. Not
    for a reported run, whose program is out of reach.
    """
    if run.status in ENDED or run.reported:
        return
    label = "Kill" if run.status == "stopping" else "Cancel"
    if st.button(label, key=f"cancel-{run.id}", **current_user.control("cancel", [run.owner], what=f"Run {run.id}")):
        dialogs.open_soon(ask_cancel, run)


def clone_button(run: Run | RunRow) -> None:
    """Show the button that fills the launch form with a run's settings; not for a run of another program."""
    if known_experiment(run.experiment) is None and run.command_id is None:
        return
    if st.button(
        "Clone",
        key=f"clone-{run.id}",
        **current_user.control("launch", help="Fill the launch form with this run's settings."),
    ):
        try:
            clone(run)
        except EngineError as error:
            st.error(as_text(str(error)))


DISTURBED = "disturbed"
"""The name of the choice in the address."""


def include_disturbed(key: str = "") -> bool:
    """Show the choice to count disturbed runs too; return it. It is kept in the address, unless the page does so under
    a `key`.
    """
    return st.toggle(
        "Include disturbed runs",
        **({"key": key} if key else addresses.kept(DISTURBED, False)),
        help=(
            f"Others took more than {100 * disturbed_above(Home.find()):g} % of the CPU time of these runs. Means and "
            "fits leave them out; they are crosses."
        ),
    )


def offer_disturbed() -> None:
    """Show a button that includes disturbed runs, where there are no others to draw."""

    def include() -> None:
        st.session_state[DISTURBED] = True
        addresses.keep(DISTURBED, False)

    st.button("Include disturbed runs", key="offer-disturbed", on_click=include)
