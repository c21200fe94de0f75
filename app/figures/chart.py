"""The chart and table of a published figure: measured and published values. Pure; the theme sets the colours."""

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go

from app.charts.line_styles import look
from app.charts.plotly_figures import FROM_ZERO
from app.charts.sweep_charts import measured, scale
from app.ui.config_form import label_of
from app.ui.html import number, table
from engine.analysis.statistics.groups import Group, grouped
from engine.metrics import metric
from engine.published import PASSES, Figure
from engine.published.readings import FigureReading
from engine.registry import experiment
from engine.transfer.tables import Table

HEIGHT_PX, CARD_PX = 360, 230
NOTHING = "Published without numbers, not measured yet"
_PUBLISHED = 7
"""Palette index of the published series: grey, which no measured line uses."""


def picture(
    figure: Figure, readings: Sequence[FigureReading], name: str, x_title: str, *, height: int = HEIGHT_PX
) -> tuple[go.Figure, list[int]]:
    """Return the chart of one metric, and the palette index of each trace; empty axes where there are no values yet."""
    drawn, colours = go.Figure(), list[int]()
    groups = groups_of(figure, readings)
    for colour, line in enumerate(dict.fromkeys(group.key[1] for group in groups)):
        own = [group for group in groups if group.key[1] == line]
        if figure.axis == PASSES:
            _add_runs(drawn, readings)
        measured(
            drawn,
            own,
            str(line) or "measured",
            look(colour).symbol,
            numeric=True,
            scattered=False,
        )
        colours += [colour] * (len(drawn.data) - len(colours))
    for line in published(figure, name):
        drawn.add_scatter(
            x=list(line),
            y=list(line.values()),
            name=_label(figure),
            mode="lines+markers",
            marker={"symbol": "star", "size": 11},
            line={"dash": "dash", "width": 1.6},
            hovertemplate=f"%{{y:,.4~r}} {{y unit}}<extra>{_label(figure)}</extra>",
        )
        colours.append(_PUBLISHED)
    if not drawn.data:
        drawn.add_annotation(text=NOTHING, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    drawn.update_layout(
        height=height,
        xaxis={"title": x_title, **_axis(figure, groups, name)},
        yaxis={
            "title": {"text": metric(name).label},
            "rangemode": "tozero" if metric(name).unit in FROM_ZERO else "normal",
            "showticklabels": bool(drawn.data),
        },
        meta={"units": {"y": metric(name).unit}},
        hovermode="closest",
        showlegend=bool(drawn.data),
    )
    return drawn, colours


def x_title(figure: Figure) -> str:
    """Return the title of a figure's x-axis."""
    if figure.axis == PASSES:
        return "Passes over the training data (all ranks)"
    return label_of(figure.axis, experiment(figure.experiment).config.model_fields[figure.axis])


def _add_runs(drawn: go.Figure, readings: Sequence[FigureReading]) -> None:
    """Add a thin line per run, since a mean hides whether runs agree."""
    for run_id in dict.fromkeys(found.run_id for found in readings):
        way = sorted((found.x, found.value) for found in readings if found.run_id == run_id)
        drawn.add_scatter(
            x=[x for x, _ in way],
            y=[value for _, value in way],
            mode="lines+markers",
            line={"width": 1},
            marker={"size": 4},
            name=f"run {run_id}",
            opacity=0.45,
            hovertemplate=f"run {run_id}: %{{y:,.4~r}} {{y unit}} at %{{x:.3g}}<extra></extra>",
            showlegend=False,
        )


def numbers(figure: Figure, readings: Sequence[FigureReading], name: str) -> str:
    """Return the chart's values as an HTML table: one row per point, published and measured."""
    found = points(figure, readings, name)
    at = 1 if figure.line else 0
    rows = [
        [*map(escape, row[:at]), f"{row[at]:g}", *(number(value, 5) for value in row[at + 1 : -1]), str(row[-1])]
        for row in found.rows
    ]
    return table(found.columns, rows, caption=f"{metric(name).label}: {figure.title}")


def points(figure: Figure, readings: Sequence[FigureReading], name: str) -> Table:
    """Return the chart's values as a plain table."""
    groups = {(str(group.key[1]), _x(group)): group for group in groups_of(figure, readings)}
    theirs = {x: y for line in published(figure, name) for x, y in line.items()}
    keys = sorted({*groups, *((line, x) for line in ({line for line, _ in groups} or {""}) for x in theirs)})
    headers = [
        *([figure.line] if figure.line else []),
        "passes" if figure.axis == PASSES else figure.axis,
        "Published",
        "Mean",
        "Min",
        "Max",
        "Seeds",
    ]
    rows = list[list[object]]()
    for line, x in keys:
        found = groups.get((line, x))
        ours = (found.mean, found.low, found.high) if found else (None, None, None)
        rows.append([*([line] if figure.line else []), x, theirs.get(x), *ours, len(found.values) if found else 0])
    return Table(tuple(headers), rows)


def groups_of(figure: Figure, readings: Sequence[FigureReading]) -> list[Group]:
    """Return one group per point, keyed by x and line; over passes, only points that every run has reached."""
    groups = grouped(
        ((found.x, found.line), found.run_id, found.value)
        for found in sorted(readings, key=lambda found: (found.line, found.x))
    )
    if figure.axis != PASSES:
        return groups
    runs = len({found.run_id for found in readings})
    return [group for group in groups if len(group.values) == runs]


def published(figure: Figure, name: str) -> list[Mapping[float, float]]:
    """Return the published points of a metric; none where that metric was not published."""
    return [line.points for line in figure.published] if name == figure.number else []


def _axis(figure: Figure, groups: Sequence[Group], name: str) -> dict[str, object]:
    xs = sorted({*map(_x, groups), *(x for line in published(figure, name) for x in line)})
    if not xs:
        xs = sorted({float(x) for version in figure.versions.values() for x in version.grid.get(figure.axis, ())})
    return scale(xs) if xs else {}


def _x(group: Group) -> float:
    return float(group.key[0])  # type: ignore[arg-type]


def _label(figure: Figure) -> str:
    return figure.published[0].label
