"""The header of a sweep's page (what varies, owner, progress, actions) and its list entry."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.actions import submit, sweep_forecast
from app.charts.sweep_data import experiment_of, is_for_learning
from app.core.assets import at
from app.core.formatting import absolute
from app.export.rerun_commands import sweep_again
from app.export.view_report import Environments, here, view_downloads
from app.links import addresses
from app.links.launch import sweep_query
from app.report.page_capture import Noted
from app.ui import current_user, dialogs, widgets
from app.ui.config_form import label_of
from app.ui.html import (
    as_text,
    bar,
    breadcrumb,
    exercise_link,
    fact_row,
    figure_link,
    link,
    run_link,
    sweep_link,
    table,
    when,
)
from app.ui.run_state import place_in_words, status_counts
from app.ui.store_access import command, message_of, reading
from app.ui.widgets import close_dialog, keep_label, sweep_kind, sweep_name
from engine.analysis.comparability import mixture
from engine.analysis.run_values import is_warm_up, lower_title, measured, newest, to_measure_again
from engine.analysis.scaling.scaling_data import count_fields
from engine.analysis.total_work import declared
from engine.config_values import read_values, value_in_words
from engine.errors import EngineError, counted, enumeration
from engine.home import Home
from engine.registry import definition
from engine.store import Store, Sweep
from engine.store.records import BAD_ENDS, ENDED, RunRow, Status, is_complete, reached_budget
from engine.store.sweeps.sweeps import SEED
from engine.sweep.extend import combinations, extend_sweep, missing, plan_more
from engine.sweep.plan import cautions

# ---- Actions on a whole sweep: pause and resume, retry failed cells, extend, cancel --------------------------------


def actions(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Show a button for each action that the sweep allows now."""

    def control(command: str, help: str | None = None) -> current_user.Control:
        runs_command = sweep.command is not None and command in ("retry sweep", "extend sweep")
        what = f"Sweep {sweep.id}"
        return current_user.control(command, [sweep.owner], what=what, help=help, runs_command=runs_command)

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
    count = 0 if is_for_learning(sweep) else len(to_measure_again(sweep, runs))
    if count and st.button(
        f"Measure again ({count})", key=f"remeasure-sweep-{sweep.id}", **control("retry sweep", words)
    ):
        _order_repeats(sweep)
    words = f"Add values, {sweep.shown(SEED)}s or draws to this sweep as new cells."
    is_known = sweep.command is not None or experiment_of(sweep) is not None
    if is_known and st.button("Extend", key=f"extend-sweep-{sweep.id}", **control("extend sweep", words)):
        dialogs.open_soon(ask_extend, sweep, runs)
    can_end = any(run.status not in ENDED and run.status != "stopping" for run in runs)
    if can_end and st.button("Cancel all", key=f"cancel-sweep-{sweep.id}", **control("cancel sweep")):
        dialogs.open_soon(ask_cancel, sweep)


def clone(sweep: Sweep, runs: Sequence[RunRow]) -> None:
    """Show the button that opens the launch form with the settings of a sweep, also of someone else's."""
    words = "Open the launch form with the settings of this sweep."
    control = current_user.control("launch sweep", help=words)
    if (
        (experiment_of(sweep) or sweep.command)
        and runs
        and st.button("Clone", key=f"clone-sweep-{sweep.id}", **control)
    ):
        addresses.go(widgets.PAGES["launch"], sweep_query(sweep, runs[0]))


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
        f"{bad} of {counted(len(every), 'cell')} failed or {'was' if bad == 1 else 'were'} lost. "
        "Each gets a new run at the end of the queue; the old runs are kept."
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
    known = definition(sweep)
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
    seeds = int(st.number_input(f"Additional {sweep.shown(SEED)}s", 0, step=1, key="extend-seeds"))
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
    label = f"Add {_runs(count)}" if count else "Add"
    if submit.button(label, "extend-order", type="primary", disabled=not count):
        _extend(sweep.id, more, seeds, draws)


def _extend(sweep_id: int, more: Mapping[str, Sequence[Any]], seeds: int, draws: int) -> None:
    current_user.require_name(partial(_extend, sweep_id, more, seeds, draws))
    session = submit.launches()
    try:
        extend_sweep(Home.find(), sweep_id, more, seeds, draws, owner=current_user.whoever())
    except EngineError as error:
        st.error(as_text(message_of(error)))
    else:
        session.count()
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
    st.write(f"{left} of {counted(sweep.total, 'run')} {'has' if left == 1 else 'have'} not ended.")
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


# ---- The header of a sweep's page (what varies, owner, progress, actions) and its list entry -----------------------


def heading(sweep: Sweep, runs: list[RunRow]) -> None:
    """Show the header."""
    st.set_page_config(page_title=f"Sweep {sweep.id} · {sweep_name(sweep)}")
    links = [link("Runs", at("/runs")), link("Sweeps", at("/sweep"))]
    with reading() as reader:
        if runs and (attempt := reader.exercises.of_run(runs[0].id)):
            links.append(exercise_link(attempt.title, attempt.exercise))
    st.html(breadcrumb(links, f"Sweep {sweep.id}"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(f"Sweep {sweep.id}: {sweep_name(sweep)}"), anchor=False, width="stretch")
        widgets.permalink(f"/sweep?sweep={sweep.id}")
        clone(sweep, runs)
        actions(sweep, runs)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for status, words in status_counts(sweep.statuses, sum(map(reached_budget, runs))):
            st.badge(words, color=widgets.COLOURS[status])
        if sweep.paused:
            st.badge("paused", color="orange")
            st.text("Queued runs wait until someone resumes the sweep.")
    current_user.say_whose(f"Sweep {sweep.id}", sweep.owner)
    if mixed := mixture(runs):
        st.warning(as_text(f"{mixed} Means over seeds mix these rules."))
    if said := _unknown_medians(sweep, runs):
        st.warning(as_text(said))
    if sweep.active:
        st.html(bar(share_done(newest(sweep, runs)), f"Progress of sweep {sweep.id}"))
        sweep_forecast.what_is_left(sweep, runs)
    known, preset = experiment_of(sweep), next((run.preset for run in runs if run.preset), None)
    widgets.show_facts(
        [
            ("Experiment", f"{known.title if known else sweep.experiment}{f', {preset}' if preset else ''}"),
            ("Owner", sweep.owner),
            *([("Runs on", place_in_words(runs[0]))] if runs and runs[0].target else []),
            ("Launched", when(sweep.created_at)),
            *((f"Values of {lower_title(field)}", _values_of(sweep, field)) for field in sweep.fields),
            (sweep.shown(SEED).capitalize() + "s" * (len(sweep.seeds) > 1), _values(sweep.seeds)),
            ("Runs ended", f"{sweep.ended} of {sweep.total}"),
            *([("Reproduces", figure_link(sweep.figure))] if sweep.figure else []),
            *([("Recorded", "in another lab; see each run for its source")] if sweep.is_imported else []),
            *(
                [("Random search", f"{counted(sweep.draw.count, 'draw')}, seed {sweep.draw.seed}")]
                if sweep.draw
                else []
            ),
            *_timing(sweep, runs),
            *equal_work(sweep, runs),
            *(
                [("Stop after", f"{sweep.stop_after} {'failure' if sweep.stop_after == 1 else 'failures'}")]
                if sweep.stop_after
                else []
            ),
        ]
    )


def equal_work(sweep: Sweep, runs: Sequence[RunRow]) -> list[tuple[str, str]]:
    """Return the total work of each run of a sweep with equal total work, and the lengths that give it."""
    length = next((name for name in sweep.equal_work if name not in sweep.fields), "")
    work = declared(runs[0].experiment, runs[0].config) if runs else None
    if not length or not work:
        return []
    lengths = dict.fromkeys(value_in_words(run.config.get(length)) for run in runs)
    return [("Equal total work", f"{work.shortly()} in each run; {lower_title(length)} {', '.join(lengths)}")]


def _unknown_medians(sweep: Sweep, runs: Sequence[RunRow]) -> str:
    """Return that a sweep for timing has ended without all medians, why, and what helps; else an empty text."""
    if sweep.timing is None or sweep.active or missing(sweep, runs):
        return ""
    found = combinations(sweep, runs)
    unknown = [each for each in found if not each.is_known(sweep.timing.within)]
    if not unknown:
        return ""
    tried = [run for each in unknown for run in each.runs]
    disturbed, whys, cures = sum(run.disturbed for run in newest(sweep, measured(sweep, runs))), [], []
    if any(not is_complete(run) for run in tried):
        whys.append(_ended_early(tried))
        cures.append("Press Retry.")
    if disturbed:
        whys.append(f"{counted(disturbed, 'run')} {'was' if disturbed == 1 else 'were'} disturbed by other programs")
        cures.append("Close them, then press Measure again.")
    why = " and ".join(whys) or "the times vary too much"
    cure = " ".join(cures) or "Extend the sweep by more repeats, or launch one with longer runs."
    return f"The median time of {len(unknown)} of {counted(len(found), 'combination')} isn't known: {why}. {cure}"


def _ended_early(runs: Sequence[RunRow]) -> str:
    """Return how many runs did not finish, by how they ended, within a sentence."""
    ends = Counter(run.status for run in runs if not is_complete(run))
    said = [
        f"{count} {status}" if status == "failed" else f"{count} {'was' if count == 1 else 'were'} {status}"
        for status, count in ends.items()
    ]
    share = "no run" if ends.total() == len(runs) else f"{len(runs) - ends.total()} of {counted(len(runs), 'run')}"
    return f"{share} finished ({enumeration(said)})"


def _timing(sweep: Sweep, runs: Sequence[RunRow]) -> list[tuple[str, str]]:
    """Return how the runs are timed, and how far a sweep for timing is."""
    if sweep.timing is None:
        return [("Timing", "exclusive (one run at a time)")] if sweep.exclusive else []
    found = combinations(sweep, runs)
    known = sum(each.is_known(sweep.timing.within) for each in found)
    warm_up = next((run.id for run in runs if is_warm_up(sweep, run)), None)
    return [
        (
            "Timing",
            f"one run at a time, until medians are known to ± {100 * sweep.timing.within:g} %, at most "
            f"{counted(sweep.timing.most, 'run')} each",
        ),
        ("Medians known", f"{known} of {len(found)}"),
        *([("Warm-up", run_link(f"run {warm_up}", warm_up))] if warm_up else []),
    ]


def entry(sweep: Sweep) -> None:
    """Show one sweep in a list."""
    said = ", ".join(
        [*(["paused"] if sweep.paused else []), *(f"{count} {status}" for status, count in sweep.statuses.items())]
    )
    facts = (
        *([sweep_kind(sweep)] if sweep.name else []),
        f"by {sweep.owner}",
        "launched " + when(sweep.created_at),
        said,
    )
    with st.container(border=True, gap="xsmall"):
        st.html(sweep_link(f"{sweep.id}: {sweep_name(sweep)}", sweep.id) + fact_row(facts))


def to_scaling(sweeps: Sequence[Sweep]) -> str:
    """Return a table of sweeps as HTML; those over a count are linked to their scaling."""
    rows = []
    for sweep in sweeps:
        known, view = experiment_of(sweep), "&view=Scaling" if count_fields().keys() & set(sweep.fields) else ""
        rows.append(
            [
                link(f"{sweep.id}: {sweep_name(sweep)}", f"{at('/sweep')}?sweep={sweep.id}{view}"),
                known.title if known else sweep.experiment,
                "; ".join(f"{lower_title(sweep.shown(field))}: {_values_of(sweep, field)}" for field in sweep.across),
                f"{sweep.ended} of {sweep.total}",
            ]
        )
    return table(["Sweep", "Experiment", "Varies", "Runs ended"], rows, caption="Latest sweeps")


def share_done(runs: list[RunRow]) -> float:
    """Return the fraction of a sweep's work that is done; runs that ended early count as complete."""
    return sum(1.0 if run.status in ENDED else run.progress for run in runs) / max(1, len(runs))


def _values_of(sweep: Sweep, field: str) -> str:
    return str(sweep.draw.over[field]) if sweep.draw else _values(sweep.grid[field])


def _values(values: tuple[object, ...]) -> str:
    """Return values as text; consecutive whole numbers as a range."""
    first = values[0] if values else None
    if len(values) > 3 and isinstance(first, int) and values == tuple(range(first, first + len(values))):
        return f"{first} to {values[-1]}"
    return ", ".join(value_in_words(value) for value in values)


# ---- Downloads of a sweep's page -----------------------------------------------------------------------------------
# the current view, the runs with their values, and the command that launches it again.


def sweep_facts(sweep: Sweep, runs: Sequence[RunRow]) -> list[tuple[str, str]]:
    """Return the sweep's facts as names and values."""
    known, preset = experiment_of(sweep), next((run.preset for run in runs if run.preset), None)
    return [
        ("Experiment", f"{known.title if known else sweep.experiment}{f', {preset}' if preset else ''}"),
        ("Owner", sweep.owner),
        ("Launched", absolute(sweep.created_at)),
        *(
            (
                f"Values of {lower_title(field)}",
                str(sweep.draw.over[field]) if sweep.draw else ", ".join(map(value_in_words, sweep.grid[field])),
            )
            for field in sweep.fields
        ),
        (sweep.shown(SEED).capitalize() + "s" * (len(sweep.seeds) > 1), ", ".join(map(str, sweep.seeds))),
        ("Runs", ", ".join(words for _, words in status_counts(sweep.statuses, sum(map(reached_budget, runs))))),
        ("Reproduces", sweep.figure),
        ("Recorded", "in another lab" if sweep.is_imported else ""),
        ("Random search", f"{counted(sweep.draw.count, 'draw')}, seed {sweep.draw.seed}" if sweep.draw else ""),
        ("Caution", mixture(runs)),
        *equal_work(sweep, runs),
        ("Timing", "exclusive (one run at a time)" if sweep.exclusive else ""),
    ]


def download_button(sweep: Sweep, runs: Sequence[RunRow], shown: Noted, view: str) -> None:
    """Show the download button."""

    def again(environments: Environments) -> Iterator[str]:
        return sweep_again(sweep, runs, environments)

    view_downloads(
        f"sweep-{sweep.id}",
        f"Sweep {sweep.id}: {sweep_name(sweep)}. {view}",
        here("/sweep"),
        shown,
        runs,
        key=f"sweep-{sweep.id}",
        again=again,
    )
