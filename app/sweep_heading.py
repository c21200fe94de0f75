"""The top of a sweep's page: what varies, whose it is, how far it is, and ending all of it; and its entry in a list."""

from html import escape

import streamlit as st

from app import parts, person
from app.asking import command
from app.markup import as_text, bar, sweep_link, when
from app.sweep_numbers import experiment_of
from engine.store import Store, Sweep
from engine.store.records import ENDED, RunRow, Status
from engine.sweep import value_in_words


def heading(sweep: Sweep, runs: list[RunRow]) -> None:
    """Show the top of the page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(f"Sweep {sweep.id}: {name_of(sweep)}"), anchor=False, width="stretch")
        with st.popover("Link", help="The address of this page, to keep or to send."):
            st.code(parts.page_address(f"/sweep?sweep={sweep.id}"), language=None, wrap_lines=True)
        if any(run.status not in ENDED and run.status != "stopping" for run in runs) and st.button("Cancel all", key=f"cancel-sweep-{sweep.id}"):
            ask_cancel(sweep)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for status, count in sweep.statuses.items():
            st.badge(f"{count} {status}", color=parts.COLOURS[status])
    if sweep.active:
        st.html(bar(share_done(runs), f"Progress of sweep {sweep.id}"))
    known, preset = experiment_of(sweep), next((run.preset for run in runs if run.preset), None)
    parts.show_facts(
        [
            ("Experiment", escape(f"{known.title if known else sweep.experiment}{f', {preset}' if preset else ''}")),
            ("Owner", escape(sweep.owner)),
            ("Launched", when(sweep.created_at)),
            *((f"Values of {field}", escape(_values(sweep.grid[field]))) for field in sweep.fields),
            ("Seeds", escape(_values(sweep.seeds))),
            ("Runs ended", f"{sweep.ended} of {sweep.total}"),
        ]
    )


def entry(sweep: Sweep) -> None:
    """Show one sweep in a list."""
    said = ", ".join(f"{count} {status}" for status, count in sweep.statuses.items())
    facts = (*([escape(_kind(sweep))] if sweep.name else []), f"by {escape(sweep.owner)}", f"launched {when(sweep.created_at)}", escape(said))
    with st.container(border=True, gap="xsmall"):
        st.html(f'{sweep_link(f"{sweep.id}: {name_of(sweep)}", sweep.id)}<div class="pl-row">{"".join(f"<span>{fact}</span>" for fact in facts)}</div>')


def name_of(sweep: Sweep) -> str:
    """Return what a sweep is called: its name, or what varies of which experiment."""
    return sweep.name or _kind(sweep)


def _kind(sweep: Sweep) -> str:
    known = experiment_of(sweep)
    return f"{known.title if known else sweep.experiment} over {' and '.join(sweep.fields)}"


def share_done(runs: list[RunRow]) -> float:
    """Return the share of a sweep's work that is done, a run that ended early counted whole."""
    return sum(1.0 if run.status in ENDED else run.progress for run in runs) / max(1, len(runs))


@st.dialog("Cancel all of this sweep?")
def ask_cancel(sweep: Sweep) -> None:
    """Ask once more, then order the cancel."""

    def cancel(store: Store) -> dict[int, Status]:
        return store.request_cancel_sweep(sweep.id, by=person.whoever())

    left = sweep.total - sweep.ended
    st.write(f"{left} of its {sweep.total} runs {'has' if left == 1 else 'have'} not ended.")
    st.write("Queued ones leave the queue; the processes of running ones are ended within seconds. What was recorded so far is kept.")
    with st.container(horizontal=True):
        ordered = command(cancel) if st.button("Cancel all runs", type="primary") else None
        if ordered is not None:
            st.rerun()
        if st.button("Let them go on"):
            st.rerun()


def _values(values: tuple[object, ...]) -> str:
    """Return values in words, a row of whole numbers as its ends."""
    first = values[0] if values else None
    if len(values) > 3 and isinstance(first, int) and values == tuple(range(first, first + len(values))):
        return f"{first} to {values[-1]}"
    return ", ".join(value_in_words(value) for value in values)
