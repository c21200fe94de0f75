"""The picture of a published figure: what was measured here over what was published, and the same as a table. Pure; the
theme gives colours.
"""

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go

from app.charts.sweep_charts import FROM_ZERO, SYMBOLS, measured, scale
from app.ui.html import number, table
from engine.analysis.statistics.groups import Group, grouped
from engine.metrics import metric
from engine.published import PASSES, Figure
from engine.published.readings import FigureReading
from engine.transfer.tables import Table

HEIGHT_PX = 360
_PUBLISHED = 7
"""The place in the palette of what was published: grey, which no line of ours has."""


def picture(figure: Figure, readings: Sequence[FigureReading], name: str, x_title: str) -> tuple[go.Figure, list[int]]:
    """Return the figure of one number, and for each trace its place in the palette."""
    drawn, colours = go.Figure(), list[int]()
    groups = groups_of(figure, readings)
    for colour, line in enumerate(dict.fromkeys(group.key[1] for group in groups)):
        own = [group for group in groups if group.key[1] == line]
        if figure.axis == PASSES:
            _ways(drawn, readings, metric(name).unit)
        measured(
            drawn,
            own,
            str(line) or "measured here",
            metric(name).unit,
            SYMBOLS[colour % len(SYMBOLS)],
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
            hovertemplate=f"%{{y:.4g}} {metric(name).unit}<extra>{_label(figure)}</extra>",
        )
        colours.append(_PUBLISHED)
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": x_title, **_axis(figure, groups, name)},
        yaxis={"title": _titled(name), "rangemode": "tozero" if metric(name).unit in FROM_ZERO else "normal"},
        hovermode="closest",
        showlegend=True,
    )
    return drawn, colours


def _ways(drawn: go.Figure, readings: Sequence[FigureReading], unit: str) -> None:
    """Add each run's own way, thin, since a mean hides whether they agree."""
    for run_id in dict.fromkeys(found.run_id for found in readings):
        way = sorted((found.x, found.value) for found in readings if found.run_id == run_id)
        drawn.add_scatter(
            x=[x for x, _ in way],
            y=[value for _, value in way],
            mode="lines+markers",
            line={"width": 1},
            marker={"size": 4},
            opacity=0.45,
            hovertemplate=f"run {run_id}: %{{y:.4g}} {unit} at %{{x:.3g}}<extra></extra>",
            showlegend=False,
        )


def numbers(figure: Figure, readings: Sequence[FigureReading], name: str) -> str:
    """Return what the picture shows as a table: a row a point, published beside ours."""
    told = points(figure, readings, name)
    at = 1 if figure.line else 0
    rows = [
        [*map(escape, row[:at]), f"{row[at]:g}", *(number(value, 5) for value in row[at + 1 : -1]), str(row[-1])]
        for row in told.rows
    ]
    return table(told.columns, rows, caption=f"{metric(name).label}: {figure.title}")


def points(figure: Figure, readings: Sequence[FigureReading], name: str) -> Table:
    """Return the same as plain values."""
    groups = {(str(group.key[1]), _x(group)): group for group in groups_of(figure, readings)}
    theirs = {x: y for line in published(figure, name) for x, y in line.items()}
    keys = sorted({*groups, *((line, x) for line in ({line for line, _ in groups} or {""}) for x in theirs)})
    headers = [
        *([figure.line] if figure.line else []),
        "passes" if figure.axis == PASSES else figure.axis,
        "Published",
        "Mean",
        "Lowest",
        "Highest",
        "Seeds",
    ]
    rows = list[list[object]]()
    for line, x in keys:
        found = groups.get((line, x))
        ours = (found.mean, found.low, found.high) if found else (None, None, None)
        rows.append([*([line] if figure.line else []), x, theirs.get(x), *ours, len(found.values) if found else 0])
    return Table(tuple(headers), rows)


def groups_of(figure: Figure, readings: Sequence[FigureReading]) -> list[Group]:
    """Return a group a point, its key x and line; on a run's way only the stops that every run has come to."""
    groups = grouped(
        ((found.x, found.line), found.run_id, found.value)
        for found in sorted(readings, key=lambda found: (found.line, found.x))
    )
    if figure.axis != PASSES:
        return groups
    runs = len({found.run_id for found in readings})
    return [group for group in groups if len(group.values) == runs]


def published(figure: Figure, name: str) -> list[Mapping[float, float]]:
    """Return the published points that go with a number; none where it is not what was published."""
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


def _titled(name: str) -> str:
    unit = metric(name).unit
    return f"{metric(name).label} ({unit})" if unit else metric(name).label
