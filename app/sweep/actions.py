"""Actions on a whole sweep: pause and resume, retry failed cells, extend, cancel."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.charts.sweep_data import experiment_of
from app.ui import current_user, dialogs
from app.ui.config_form import label_of
from app.ui.html import as_text
from app.ui.store_access import command, message_of, reading
from app.ui.widgets import close_dialog, keep_label
from engine.analysis.run_values import newest, to_measure_again
from engine.config_values import read_values, value_in_words
from engine.errors import EngineError
from engine.home import Home
from engine.store import Store, Sweep
from engine.store.records import BAD_ENDS, ENDED, RunRow, Status, reached_budget
from engine.sweep.extend import extend_sweep, plan_more
from engine.sweep.plan import cautions


def actions(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Show a button for each action that the sweep allows now."""

    def control(command: str, help: str | None = None) -> current_user.Control:
        return current_user.control(command, [sweep.owner], what=f"Sweep {sweep.id}", help=help)

    if sweep.paused:
        words = "Resume starting the queued runs, in order."
        if st.button("Resume", key=f"release-sweep-{sweep.id}", type="primary", **control("go on with sweep", words)):
            _order_hold(sweep, hold=False)
    elif "queued" in sweep.statuses:
        words = "Hold the queued runs until you resume the sweep; active runs continue."
        if st.button("Pause", key=f"hold-sweep-{sweep.id}", **control("pause sweep", words)):
            _order_hold(sweep, hold=True)
    ended = {run.status for run in newest(sweep, runs) if not reached_budget(run)}
    words = "Queue another run of each cell that did not finish."
    if ended & {*BAD_ENDS, "cancelled"} and st.button(
        "Retry", key=f"retry-sweep-{sweep.id}", **control("retry sweep", words)
    ):
        dialogs.open_soon(ask_retry, sweep, runs)
    words = "Repeat the disturbed runs, one at a time, alone on the machine. The disturbed runs are kept."
    if (count := len(to_measure_again(sweep, runs))) and st.button(
        f"Measure again ({count})", key=f"remeasure-sweep-{sweep.id}", **control("retry sweep", words)
    ):
        _order_repeats(sweep)
    words = "Add values, seeds or draws to this sweep as new cells."
    if experiment_of(sweep) and st.button("Extend", key=f"extend-sweep-{sweep.id}", **control("extend sweep", words)):
        dialogs.open_soon(ask_extend, sweep, runs)
    can_end = any(run.status not in ENDED and run.status != "stopping" for run in runs)
    if can_end and st.button("Cancel all", key=f"cancel-sweep-{sweep.id}", **control("cancel sweep")):
        dialogs.open_soon(ask_cancel, sweep)


def _order_hold(sweep: Sweep, *, hold: bool) -> None:
    def change(store: Store) -> list[int]:
        return (store.sweeps.hold if hold else store.sweeps.release)(sweep.id, by=current_user.whoever())

    if command(change) is not None:
        st.rerun()


def _order_repeats(sweep: Sweep) -> None:
    if command(lambda store: store.sweeps.remeasure(sweep.id, by=current_user.whoever())) is not None:
        st.rerun()


@st.dialog("Retry failed cells?")
def ask_retry(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Show how many cells are retried, then order it."""
    every = newest(sweep, runs)
    last = [run for run in every if not reached_budget(run)]
    bad, cancelled = (sum(run.status in statuses for run in last) for statuses in (BAD_ENDS, ("cancelled",)))
    st.write(
        f"{bad} of {len(every)} cells failed or {'was' if bad == 1 else 'were'} lost. Each gets a new run at the end "
        "of the queue; the old runs are kept."
    )
    also = bool(cancelled) and st.toggle(
        f"Also retry {cancelled} cancelled",
        value=not bad,
        key="retry-cancelled",
    )
    count = bad + (cancelled if also else 0)
    statuses: tuple[Status, ...] = (*BAD_ENDS, "cancelled") if also else BAD_ENDS

    def retry(store: Store) -> dict[int, int]:
        return store.sweeps.retry(sweep.id, by=current_user.whoever(), statuses=statuses)

    ordered = (
        command(retry)
        if st.button(f"Queue {_runs(count)}", type="primary", disabled=not count, key="retry-order")
        else None
    )
    if ordered is not None:
        st.rerun()


@st.dialog("Extend sweep")
def ask_extend(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Ask what to add, show the number of new runs, then queue them."""
    known = experiment_of(sweep)
    assert known is not None
    draws = int(st.number_input("Additional draws", 0, step=1, key="extend-draws")) if sweep.draw else 0
    texts = {
        field: st.text_input(
            f"Additional values of {label_of(field, known.config.model_fields[field]).lower()}",
            key=f"extend-{field}",
            live="400ms",
            placeholder=f"existing: {', '.join(map(value_in_words, sweep.grid[field]))}",
        )
        for field in (() if sweep.draw else sweep.fields)
    }
    seeds = int(st.number_input("Additional seeds", 0, step=1, key="extend-seeds"))
    count, more = 0, {}
    try:
        more = {field: read_values(known.config, field, text) for field, text in texts.items() if text.strip()}
        if more or seeds or draws:
            planned = plan_more(sweep, runs, more, seeds, draws)[0]
            count = len(planned.cells)
            with reading() as reader:
                limit_s = reader.runs.one(runs[0].id).terms.max_run_time_s
            for caution in cautions(sweep.experiment, planned, limit_s):
                st.markdown(f":orange-badge[Caution] {as_text(caution)}")
    except EngineError as error:
        st.markdown(f":red[{as_text(message_of(error))}]")
    if st.button(f"Add {_runs(count)}" if count else "Add", type="primary", disabled=not count, key="extend-order"):
        _extend(sweep.id, more, seeds, draws)


def _extend(sweep_id: int, more: Mapping[str, Sequence[Any]], seeds: int, draws: int) -> None:
    current_user.require_name(partial(_extend, sweep_id, more, seeds, draws))
    try:
        extend_sweep(Home.find(), sweep_id, more, seeds, draws, owner=current_user.whoever())
    except EngineError as error:
        st.error(as_text(message_of(error)))
    else:
        st.rerun()


@st.dialog("Cancel all runs?")
def ask_cancel(sweep: Sweep) -> None:
    """Ask for confirmation, then cancel."""

    def cancel(store: Store) -> dict[int, Status]:
        return store.sweeps.cancel(sweep.id, by=current_user.whoever())

    with reading() as reader:
        sweep = reader.sweeps.one(sweep.id)
    left = sweep.total - sweep.ended
    if not left:
        close_dialog(f"All runs of sweep {sweep.id} have ended. There is nothing to cancel.")
        return
    st.write(f"{left} of {sweep.total} runs {'has' if left == 1 else 'have'} not ended.")
    st.write(
        "Queued runs are removed from the queue; processes of running ones are stopped within seconds. Data "
        "recorded so far is kept."
    )
    with st.container(horizontal=True):
        ordered = command(cancel) if st.button("Cancel all runs", type="primary") else None
        if ordered is not None:
            st.rerun()
        if st.button(keep_label(sweep.statuses)):
            st.rerun()


def _runs(count: int) -> str:
    return f"{count} {'run' if count == 1 else 'runs'}"
