"""The report of one run: facts, curves, time breakdown, settings, environment, events, and the commands to
repeat it.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import plotly.graph_objects as go

from app.charts import plotly_figures
from app.charts.line_styles import look
from app.core.formatting import absolute, duration
from app.export.rerun_commands import repeating
from app.report import Chart, CommandLines, FactList, Grid, Heading, Paragraph, Part, report
from app.run.live_series import live_metrics
from app.ui import current_user
from app.ui.run_state import cause_of, outcome
from app.ui.widgets import title_of
from engine.analysis.result import ranked
from engine.analysis.run_values import setting_title
from engine.config_values import field_title
from engine.errors import EngineError
from engine.home import Home
from engine.metrics import metric
from engine.registry import experiment, experiment_title
from engine.store import Reader
from engine.store.curve_records import Series
from engine.store.records import Run
from engine.transfer.tables import Table

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
        [(field_title(name), _words(value)) for name, value in run.environment.items() if name != "boot_id"],
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
    names = live_metrics([summary.metric for summary in reader.details.summaries(run.id)])
    found = {
        name: list(group)
        for name, group in groupby(
            reader.curves.series(run.id, names, max_points=MOST_POINTS), key=lambda series: series.metric
        )
    }
    for name in names:
        if series := [each for each in found.get(name, []) if each.ids]:
            yield _curve_chart(name, series, roles)


def _curve_chart(name: str, found: Sequence[Series], roles: dict[int, str]) -> Chart:
    known = metric(name)
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
        [f"Showing {shown:,} of {total:,} points: first, last, minimum and maximum of each bucket."]
        if total > shown
        else []
    )
    return Chart(
        f"{known.label} ({known.unit})" if known.unit else known.label,
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
        ("Ranks", str(run.demand.ranks) if run.demand.ranks else ""),
        ("Seeding", f"rule {run.seeding}" if origin is None or origin.kind == "parallab" else ""),
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
        fields: dict[str, Any] = dict(experiment(run.experiment).config.model_fields)
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
