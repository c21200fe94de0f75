"""Sweep: one sweep by its permalink (`?sweep=ID`), updated live; without an id, the newest sweeps."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.charts.sweep_data import default_metric, is_for_learning, metric_asked, metric_choices
from app.core.assets import at
from app.links import addresses
from app.links.compare import CompareView, address, query_of
from app.report import page_capture
from app.scaling.breakdown import where_time_went
from app.scaling.staleness import records_staleness, staleness
from app.scaling.target import to_a_target, usual_goal
from app.scaling.view import scaling
from app.sweep.chart import matrix, results
from app.sweep.header import download_button, entry, heading, sweep_facts
from app.ui import components, widgets
from app.ui.html import as_text, breadcrumb, duel_link, link
from app.ui.store_access import invalid_link, reading
from app.ui.time_difference import complete, disturbed_choice, show_not_learned, show_unequal_work, time_difference
from engine.analysis.result import best_so_far, reached_most
from engine.analysis.run_values import measured
from engine.analysis.run_values import newest as newest_runs
from engine.analysis.scaling.answers import answer, charted, question
from engine.analysis.scaling.findings import of_sweep
from engine.analysis.scaling.scaling_data import WITH_DISTURBED, by_values
from engine.analysis.statistics.intervals import Statistic
from engine.analysis.total_work import counted
from engine.experiment import TradeOff
from engine.metrics import depends_on_time
from engine.store import Reader, Sweep
from engine.store.records import RunRow, is_complete
from engine.sweep.extend import missing

NEWEST = 50
EVERY_MS = 2_000
VIEWS = ("Results", "Scaling", "Time breakdown", "Staleness")
wanted = st.query_params.get("sweep", "")


@addresses.fragment
def page(sweep_id: int) -> None:
    """Show the sweep, and rerun when one of its runs changes."""
    with reading(lambda: components.pulse(-1, sweep_id=sweep_id)) as reader:
        with reader.db.snapshot():
            token, sweep, runs = (
                reader.sweeps.token(sweep_id),
                reader.sweeps.one(sweep_id),
                reader.sweeps.runs(sweep_id),
            )
        goes_on = bool(missing(sweep, runs))  # the runner is about to queue repeats
        if "queued" in sweep.statuses:
            widgets.runner_banner(reader)
        heading(sweep, runs)
        if duel := reader.duels.of_sweep(sweep_id):
            st.html("Part of " + duel_link(f"duel {duel}", duel) + ".")
        with st.container(horizontal=True, vertical_alignment="center"):
            view = (
                st.segmented_control(
                    "View",
                    (views := VIEWS if records_staleness([sweep.experiment], runs, reader) else VIEWS[:-1]),
                    required=True,
                    label_visibility="collapsed",
                    **addresses.kept("view", VIEWS[0], views),
                )
                or VIEWS[0]
            )
            leaving = st.container(width="content")
        above, every = st.container(), runs
        runs = measured(sweep, runs)
        with page_capture.keeping() as shown:
            page_capture.facts("Sweep", sweep_facts(sweep, runs))
            groups = by_values(sweep.fields, runs)
            show_unequal_work(counted(groups), reader)
            show_not_learned(counted(groups))
            of_speed = not is_for_learning(sweep)
            usual = headline(sweep, every, groups, reader, False)
            whole = shows_times(view, of_speed, sweep, runs) and disturbed_choice(
                groups, reader, sweep_id=sweep_id, of_speed=of_speed, is_answered=WITH_DISTURBED in usual
            )
            widgets.say_withheld(reader, [run.id for run in runs])
            if said := headline(sweep, every, groups, reader, True) if whole else usual:
                above.markdown(f"**{as_text(said)}**")
                if chart := chart_of_answer(sweep, runs, view, whole):
                    above.html(chart)
                page_capture.words([said])
            found = of_sweep(sweep, runs, reader, with_disturbed=whole) if view in VIEWS[1:3] else ""
            if view == VIEWS[0]:
                statistic: Statistic = "mean" if sweep.timing is None else "median"
                compares = time_difference(
                    complete(groups),
                    reader,
                    by_median=sweep.timing is not None,
                    whole=whole,
                    goal=lambda counted: usual_goal(counted, runs, reader, statistic),
                    of_speed=of_speed,
                )
                results(sweep, runs, reader, compares, with_disturbed=whole)
            elif view == VIEWS[3]:
                staleness(runs, reader, str(sweep_id), sweep.fields, goes_on=sweep.active)
            elif isinstance(found, str):
                st.write(found)
                page_capture.words([found])
            elif view == VIEWS[1]:
                scaling(found, runs, str(sweep_id), goes_on=sweep.active or goes_on)
                to_a_target(found, runs, reader, str(sweep_id))
            else:
                where_time_went(found, reader, str(sweep_id))
        with leaving:
            download_button(sweep, runs, shown, view)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.header("Runs", anchor=False, width="content")
            if len(runs) > 1:
                ids = tuple(run.id for run in newest_runs(sweep, runs))
                compared = query_of(CompareView(runs=ids))
                st.page_link(widgets.PAGES["compare"], label="Compare", query_params=compared, width="content")
        st.html(matrix(sweep, every))
    components.pulse(token, sweep_id=sweep_id, active=sweep.active or goes_on, every_ms=EVERY_MS)


def shows_times(view: str, of_speed: bool, sweep: Sweep, runs: Sequence[RunRow]) -> bool:
    """Return whether times are below, so that disturbed runs matter: those of a sweep about learning only where asked
    for, or where it has nothing else.
    """
    if view != VIEWS[0] or of_speed:
        return view in VIEWS[:3]
    asked = metric_asked(sweep, runs)
    return depends_on_time(st.query_params.get("number") or default_metric(metric_choices(runs, asked), "time", asked))


def chart_of_answer(sweep: Sweep, runs: Sequence[RunRow], view: str, whole: bool) -> str:
    """Return a link to the chart that a sweep's answer speaks of, with disturbed runs where there are no others; empty
    if it is in view, or there is none.
    """
    ready, (chart, words) = question(sweep), charted(sweep)
    done = [run for run in runs if is_complete(run)]
    whole = whole or (bool(done) and all(run.disturbed for run in done))  # else nothing is drawn
    if ready and isinstance(ready.answer, TradeOff):
        drawn = CompareView(
            runs=tuple(run.id for run in newest_runs(sweep, runs)),
            tab="scatter",
            number=ready.answer.quality,
            against=ready.answer.cost,
            disturbed=whole,
        )
        return link("Chart of the quality against the cost", at(address(drawn)))
    return (
        link(words, f"{at('/sweep')}?sweep={sweep.id}&view={chart}{'&disturbed=true' * whole}")
        if chart not in ("", view)
        else ""
    )


def headline(
    sweep: Sweep, runs: Sequence[RunRow], groups: Mapping[str, Sequence[RunRow]], reader: Reader, whole: bool
) -> str:
    """Return the answer of a sweep, or what it reached (so far), as a sentence; empty before there is any. The answer
    gives reasons, so an exercise has none before its hand-in.
    """
    withheld = reader.exercises.withholds(run.id for run in runs)
    said = "" if withheld else answer(sweep, runs, reader, with_disturbed=whole)
    if said and not (is_for_learning(sweep) and said.startswith("No answer yet")):
        return said
    best = best_so_far(groups) if is_for_learning(sweep) else ""
    return best or said if sweep.active else reached_most(groups) or best or said


if wanted.isdecimal() and len(wanted) < 18:
    page(int(wanted))
elif wanted:
    invalid_link("sweep", wanted)
else:
    st.html(breadcrumb([link("Runs", at("/runs"))], "Sweeps"))
    st.title("Sweeps", anchor=False)
    with reading() as reader:
        newest, count = reader.sweeps.recent(limit=NEWEST), reader.sweeps.count()
    if not newest:
        widgets.empty(
            "No sweeps yet. A sweep runs several values of a setting; its chart and table appear here.",
            "Launch a sweep",
            "launch",
        )
    for one in newest:
        entry(one)
    if count > len(newest):
        st.caption(f"The newest {len(newest)} of {count:,} sweeps")
