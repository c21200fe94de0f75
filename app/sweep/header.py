"""The header of a sweep's page (what varies, owner, progress, actions) and its list entry."""

from collections.abc import Sequence

import streamlit as st

from app.actions import sweep_forecast
from app.charts.sweep_data import experiment_of
from app.core.base_path import at
from app.sweep.actions import actions
from app.ui import current_user, widgets
from app.ui.html import as_text, bar, breadcrumb, fact_row, figure_link, link, run_link, sweep_link, table, when
from app.ui.run_state import place_in_words, status_counts
from engine.analysis.comparability import mixture
from engine.analysis.run_values import is_warm_up, lower_title, measured, newest
from engine.analysis.scaling.scaling_data import count_fields
from engine.analysis.total_work import declared
from engine.config_values import value_in_words
from engine.store import Sweep
from engine.store.records import ENDED, RunRow, reached_budget
from engine.sweep.extend import combinations, missing


def heading(sweep: Sweep, runs: list[RunRow]) -> None:
    """Show the header."""
    st.set_page_config(page_title=f"Sweep {sweep.id} · {name_of(sweep)}")
    st.html(breadcrumb([link("Runs", at("/runs")), link("Sweeps", at("/sweep"))], f"Sweep {sweep.id}"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(as_text(f"Sweep {sweep.id}: {name_of(sweep)}"), anchor=False, width="stretch")
        widgets.permalink(f"/sweep?sweep={sweep.id}")
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
            ("Seeds", _values(sweep.seeds)),
            ("Runs ended", f"{sweep.ended} of {sweep.total}"),
            *([("Reproduces", figure_link(sweep.figure))] if sweep.figure else []),
            *([("Recorded", "in another lab; see each run for its source")] if sweep.is_imported else []),
            *([("Random search", f"{sweep.draw.count} draws, seed {sweep.draw.seed}")] if sweep.draw else []),
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
    unknown = sum(not each.is_known(sweep.timing.within) for each in found)
    if not unknown:
        return ""
    disturbed = sum(run.disturbed for run in newest(sweep, measured(sweep, runs)))
    why, cure = (
        (f"{disturbed} runs were disturbed by other programs", "Close them, then press Measure again.")
        if disturbed
        else ("the times vary too much", "Extend the sweep by more seeds, or launch one with longer runs.")
    )
    return f"The median time of {unknown} of {len(found)} combinations isn't known: {why}. {cure}"


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
            f"{sweep.timing.most} runs each",
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
        *([_kind(sweep)] if sweep.name else []),
        f"by {sweep.owner}",
        "launched " + when(sweep.created_at),
        said,
    )
    with st.container(border=True, gap="xsmall"):
        st.html(sweep_link(f"{sweep.id}: {name_of(sweep)}", sweep.id) + fact_row(facts))


def to_scaling(sweeps: Sequence[Sweep]) -> str:
    """Return a table of sweeps as HTML; those over a count are linked to their scaling."""
    rows = []
    for sweep in sweeps:
        known, view = experiment_of(sweep), "&view=Scaling" if count_fields().keys() & set(sweep.fields) else ""
        rows.append(
            [
                link(f"{sweep.id}: {name_of(sweep)}", f"{at('/sweep')}?sweep={sweep.id}{view}"),
                known.title if known else sweep.experiment,
                "; ".join(f"{lower_title(field)}: {_values_of(sweep, field)}" for field in sweep.fields),
                f"{sweep.ended} of {sweep.total}",
            ]
        )
    return table(["Sweep", "Experiment", "Varies", "Runs ended"], rows, caption="Latest sweeps")


def name_of(sweep: Sweep) -> str:
    """Return the sweep's name, or its experiment and varied fields."""
    return sweep.name or _kind(sweep)


def _kind(sweep: Sweep) -> str:
    known = experiment_of(sweep)
    return f"{known.title if known else sweep.experiment} over {' and '.join(map(lower_title, sweep.fields))}"


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
