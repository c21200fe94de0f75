"""The header of a run page: title, status and cause, progress, result, actions and tabs."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

import plotly.graph_objects as go
import streamlit as st
from markupsafe import Markup

from app.actions.annotations import baseline_beside, marks, marks_of
from app.actions.queue_actions import queue_actions, why_queued
from app.charts import plotly_figures
from app.charts.plotly_figures import look
from app.core.assets import at
from app.core.formatting import absolute, duration
from app.export.rerun_commands import repeating
from app.export.view_report import download
from app.report import Chart, CommandLines, FactList, Grid, Heading, Paragraph, Part, report
from app.run import summary_html
from app.run.live_series import is_shown, live_metrics, single_values
from app.run.overview import resume_button, retry_button
from app.ui import current_user, widgets
from app.ui.html import as_text, breadcrumb, duel_link, exercise_link, link, slot, sweep_link
from app.ui.run_state import cause_of, disturbed_help, outcome, place_in_words, tab_title
from app.ui.time_difference import measured_again_at
from app.ui.widgets import title_of
from engine.analysis.comparability import environment_shown, in_words
from engine.analysis.result import ranked
from engine.analysis.run_values import setting_title
from engine.config_values import field_title
from engine.errors import EngineError, counted
from engine.home import Home
from engine.metrics import Metric, as_set
from engine.queue.cluster_wait import job_state
from engine.registry import definition, experiment_title
from engine.store import Reader
from engine.store.curve_records import Series
from engine.store.records import Run, RunRow
from engine.transfer.tables import Table, points_table

_WATCHED = "run.watched"
"""The active run that this session last showed."""


def heading(run: Run, entry: RunRow, reader: Reader, tabs: Sequence[str]) -> str:
    """Show the header, which stays on the screen while its page scrolls; return the chosen tab, which the address
    holds.
    """
    st.set_page_config(page_title=tab_title(entry))
    st.html(breadcrumb([link("Runs", at("/runs")), *_part_of(run, reader)], f"Run {run.id}"))
    with st.container(key="run-header", gap="small"):
        with st.container(key="run-state", gap="small"):
            with st.container(key="run-title", horizontal=True, vertical_alignment="center", gap="small"):
                st.title(as_text(f"Run {run.id}: {widgets.title_of(run)}"), anchor=False, width="stretch")
                with st.container(
                    key="run-actions", horizontal=True, vertical_alignment="center", gap="xsmall", width="content"
                ):
                    _actions(run, reader)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                widgets.status_badge(run)
                if run.target:
                    st.badge(f"on {place_in_words(run)}", color="gray", icon=":material/dns:", help=_job(run, reader))
                for word, by in marks(run).items():
                    st.badge(word, color="gray", help=f"by {as_text(by)}")
                is_disturbed = entry.disturbed and entry.status != "failed"  # of a failed run no time counts
                if is_disturbed:
                    st.badge(
                        f"disturbed {in_words(entry.disturbance or 0.0)}",
                        color="orange",
                        help=as_text(disturbed_help(run)),
                    )
                if run.status == "queued":
                    st.text(why_queued(run, reader), width="stretch")
                else:
                    st.html(slot("cause", summary_html.cause(run, entry, reader)), width="stretch")
                st.html(slot("result", summary_html.result(entry)), width="content")
                for what, (page, query) in measured_again_at([entry] if is_disturbed else [], reader).items():
                    words = "Repeats the disturbed runs of its sweep." if page == "sweep" else "Fills the launch form."
                    label = f"Measure {what} again" if page == "sweep" else "Measure again"
                    st.page_link(widgets.PAGES[page], label=label, help=words, query_params=query, width="content")
            if run.status != "queued":  # also after the end, so that the tabs stay where they are
                st.html(slot("bar", summary_html.progress(entry)))
        chosen = st.segmented_control(
            "Section",
            tabs,
            key="section",
            default=tabs[0],
            required=True,
            bind="query-params",
            label_visibility="collapsed",
            wrap=True,
        )
    current_user.say_whose(f"Run {run.id}", run.owner)
    _announce_end(run, entry, reader)
    return chosen or tabs[0]


def _part_of(run: Run, reader: Reader) -> list[Markup]:
    """Return links to the run's exercise, and to its duel or sweep; none if it was launched alone."""
    attempt = reader.exercises.of_run(run.id)
    found = [exercise_link(attempt.title, attempt.exercise)] if attempt else []
    if not run.sweep_id:
        return found
    duel = reader.duels.of_sweep(run.sweep_id)
    return [*found, duel_link(f"Duel {duel}", duel) if duel else sweep_link(f"Sweep {run.sweep_id}", run.sweep_id)]


def _announce_end(run: Run, entry: RunRow, reader: Reader) -> None:
    """Say what the run showed once it ends, to a person who watches it."""
    if run.active:
        st.session_state[_WATCHED] = run.id
    elif st.session_state.pop(_WATCHED, None) == run.id:
        said = summary_html.finding(run, entry, reader) if run.status == "finished" else run.cause
        ended = f"Run {run.id}:" if run.status == "cancelled" else f"Run {run.id} {run.status}."  # the cause says it
        st.toast(as_text(f"{ended} {said}"))  # for a few seconds: it covers a chart, and the page says the same


def _actions(run: Run, reader: Reader) -> None:
    of = quote(f"experiment == {run.experiment!r}")
    title = (
        f"Always the newest run of {experiment_title(run.experiment)}. For a screen on the wall, open it there, press "
        "Present on a chart (the address keeps it), and F11, which makes the browser fill the screen:"
    )
    widgets.permalink(f"/run?run={run.id}", newest=(title, f"/run?latest={of}"))
    marks_of(run, baseline_beside(reader, run.experiment))
    _downloads(run)
    resume_button(run)
    queue_actions(run)
    retry_button(run)
    widgets.clone_button(run)
    if run.stop_kind != "force":
        widgets.cancel_button(run)


def _job(run: Run, reader: Reader) -> str:
    """Return the job of a run on a cluster, in words."""
    job = job_state(run, reader.cluster_jobs.of(run.id))
    return f"{f'Job {job.job_id}' if job and job.job_id else 'A job'} of Slurm on cluster {run.target}."


def _downloads(run: Run) -> None:
    """Show the download button: a report, tables, and a bundle once the run has ended."""
    by = current_user.whoever()

    def curves() -> Table:
        with Reader.open(Home.find()) as reader:
            return points_table(reader, [run.id])

    download(
        f"run-{run.id}",
        key=f"run-{run.id}",
        report=lambda: run_report(run.id, by),
        has_charts=True,
        tables={"Curves": curves, "Settings": settings_of(run)},
        runs=[] if run.active else [run.id],
    )


# ------------------------------------------------------------------------------------------------------------------
# The report of one run: facts, curves, time breakdown, settings, environment, events, and the commands to repeat
# it.

MOST_POINTS = 4_000
"""Maximum number of points per curve; longer curves are down-sampled, and the report says so."""


def run_report(run_id: int, by: str | None = None) -> bytes:
    """Return the report of a run in its current state; raises NoSuchRun."""
    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        run = reader.runs.one(run_id)
        return report(f"Run {run.id}: {title_of(run)}", list(_parts(run, reader)), by=by or current_user.whoever())


def _parts(run: Run, reader: Reader) -> Iterator[Part]:
    yield Paragraph(f"{outcome(run)[1].capitalize()}. {cause_of(run)}")
    yield FactList("Run", _facts(run, reader))
    if run.note:
        yield Paragraph(run.note)
    yield Heading("Curves")
    yield from curve_charts(run, reader)
    yield Grid("Metrics", _summaries(run, reader))
    roles = {row.rank: row.role for row in reader.details.ranks(run.id)}
    seconds = reader.details.phases(run.id)
    if names := plotly_figures.phases_shown(seconds):
        picture = plotly_figures.phases(seconds, roles)
        yield Chart(
            "Time per rank",
            picture,
            colours=plotly_figures.phase_colours(names),
            height=plotly_figures.phases_height(len(seconds)),
        )
    settings = settings_of(run)
    yield Grid("Settings", settings, tuple(name.capitalize() for name in settings.columns))
    yield FactList(
        "Environment",
        [(field_title(name), _words(value)) for name, value in environment_shown(run.environment).items()],
    )
    yield Grid(
        "Events",
        Table(
            ("time", "event", "by", "detail"),
            [(event.at, event.kind, event.who, event.detail) for event in reader.details.events(run.id)],
        ),
    )
    if lines := repeating(run):
        yield CommandLines("Reproduce this run", lines)


def curve_charts(run: Run, reader: Reader) -> Iterator[Chart]:
    """Yield a chart per metric, with a line per rank."""
    roles = {row.rank: row.role for row in reader.details.ranks(run.id)}
    summaries = reader.details.summaries(run.id)
    settings = reader.recipes.metric_settings(run.script_key)
    every = live_metrics([summary.metric for summary in summaries], single_values(run, summaries), settings)
    names = [name for name in every if is_shown(name, settings)]
    found = {
        name: list(group)
        for name, group in groupby(
            reader.curves.series(run.id, names, max_points=MOST_POINTS), key=lambda series: series.metric
        )
    }
    for name in names:
        if series := [each for each in found.get(name, []) if each.ids]:
            yield _curve_chart(as_set(name, settings), series, roles)


def _curve_chart(known: Metric, found: Sequence[Series], roles: dict[int, str]) -> Chart:
    figure = go.Figure()
    for number, series in enumerate(found):
        role = "run" if series.rank is None else roles.get(series.rank, f"rank {series.rank}")
        mode = "lines+markers" if len(series.ids) <= 60 else "lines"
        figure.add_scatter(
            x=series.steps,
            y=series.values,
            name=role,
            mode=mode,
            line={"width": 1.6, "dash": look(number).dash},
        )
    whole = all(series.rank is None for series in found)
    figure.update_layout(
        showlegend=len(found) > 1, hovermode="x unified", xaxis_title="Step" if whole else "Step (per rank)"
    )
    shown, total = sum(len(series.ids) for series in found), sum(series.total for series in found)
    said = [known.help] if known.help else []
    said += (
        [f"Showing {shown:,} of {counted(total, 'point')}: first, last, minimum and maximum of each bucket."]
        if total > shown
        else []
    )
    return Chart(
        known.heading,
        figure,
        " ".join(said),
        colours=range(len(found)),
    )


def _facts(run: Run, reader: Reader) -> list[tuple[str, str]]:
    origin, result = reader.origins.of(run.id), ranked(reader.runs.entry(run.id))
    found = [
        ("Experiment", experiment_title(run.experiment)),
        ("Preset", run.preset or ""),
        ("Owner", run.owner),
        ("Launched", absolute(run.created_at)),
        ("Ended", absolute(run.ended_at)),
        ("Execution time", duration(run.elapsed_s)),
        ("Start-up time", duration(run.startup_time_s)),
        ("Ranks", str(run.demand.ranks) if run.has_ranks else ""),
        ("Seeding", f"rule {run.seeding}" if run.has_ranks else ""),
        ("Result", result.words if result else ""),
        ("Tags", ", ".join(run.tags)),
        ("Imported from", origin.words if origin else ""),
    ]
    return [(name, value) for name, value in found if value not in ("", "–")]


def _summaries(run: Run, reader: Reader) -> Table:
    rows = [
        (each.metric, each.rank, each.count, each.last, each.best, each.low, each.high, each.mean, each.nonfinite)
        for each in reader.details.summaries(run.id)
    ]
    return Table(("metric", "rank", "values", "last", "best", "least", "greatest", "mean", "not finite"), rows)


def settings_of(run: Run) -> Table:
    """Return the run's config as a table, with title and name of each setting, and a description if it is known."""
    try:
        fields: dict[str, Any] = dict(definition(run).config.model_fields)
    except EngineError:
        fields = {}
    said = {name: (field.description or "") for name, field in fields.items()}
    return Table(
        ("title", "setting", "value", "description"),
        [(setting_title(name), name, value, said.get(name, "")) for name, value in run.config.items()],
    )


def _words(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name} {version}" for name, version in value.items())
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value)) or "none"
