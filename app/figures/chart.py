"""The chart and tables of a published figure: published and measured values. Pure; the theme sets the colours."""

from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from app.charts.plotly_figures import FROM_ZERO, look
from app.charts.sweep_charts import measured, scale
from app.ui.config_form import label_of
from app.ui.html import nowrap, number, table, wide
from engine.analysis.statistics.groups import Group, grouped
from engine.analysis.statistics.intervals import mean_interval
from engine.metrics import metric
from engine.published import PASSES, Figure
from engine.published.comparison import MEAN_COLUMNS, FigureReading, mean_cells
from engine.registry import experiment
from engine.transfer.tables import Table

HEIGHT_PX, CARD_PX = 360, 230
NOTHING = "Published without numbers, not measured yet"
_PUBLISHED = 7
"""Palette index of the published series: grey, which no measured line uses."""


def picture(
    figure: Figure, readings: Sequence[FigureReading], name: str, *, height: int = HEIGHT_PX
) -> tuple[go.Figure, list[int]]:
    """Return the chart of one metric, and the palette index of each trace; empty axes where there are no values yet."""
    drawn, colours = go.Figure(), list[int]()
    groups = groups_of(figure, readings)
    for colour, line in enumerate(dict.fromkeys(group.key[1] for group in groups)):
        own = [group for group in groups if group.key[1] == line]
        measured(drawn, own, str(line) or "measured", look(colour).symbol, numeric=True, scattered=False)
        colours += [colour] * (len(drawn.data) - len(colours))
    theirs = {each.x: each.value for each in figure.published if each.metric == name == figure.metric}
    if theirs:
        drawn.add_scatter(
            x=list(theirs),
            y=list(theirs.values()),
            name=figure.published_label,
            mode="lines+markers",
            marker={"symbol": "star", "size": 11},
            line={"dash": "dash", "width": 1.6},
            hovertemplate=f"%{{y:,.4~r}} {{y unit}}<extra>{figure.published_label}</extra>",
        )
        colours.append(_PUBLISHED)
    if not drawn.data:
        drawn.add_annotation(text=NOTHING, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    xs = {*map(_x, groups), *theirs} or {x for each in figure.versions.values() for x in each.grid.get(figure.axis, ())}
    drawn.update_layout(
        height=height,
        xaxis={"title": x_title(figure), **(scale(sorted(map(float, xs))) if xs else {})},
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


def groups_of(figure: Figure, readings: Sequence[FigureReading]) -> list[Group]:
    """Return one group per point, keyed by x and line; over passes, only points that every run has reached."""
    groups = grouped(
        ((found.x, found.line), found.run_id, found.value)
        for found in sorted(readings, key=lambda found: (found.line, found.x))
    )
    runs = len({found.run_id for found in readings})
    return [group for group in groups if figure.axis != PASSES or len(group.values) == runs]


def points(figure: Figure, readings: Sequence[FigureReading]) -> Table:
    """Return our mean at each point of the chart."""
    rows = [
        [*([str(group.key[1])] if figure.line else []), _x(group), *mean_cells(mean_interval([*group.values.values()]))]
        for group in groups_of(figure, readings)
    ]
    return Table((*([figure.line] if figure.line else []), figure.axis, *MEAN_COLUMNS), rows)


def as_table(found: Table, caption: str) -> str:
    """Return a table as HTML."""
    shapes: dict[str, Callable[[str], str]] = {"Result": nowrap, "Reason": wide}
    rows = [
        [
            shapes.get(column, str)(cell) if isinstance(cell, str) else number(cell, 5)
            for column, cell in zip(found.columns, row, strict=True)
        ]
        for row in found.rows
    ]
    return table(found.columns, rows, caption=caption)


def _x(group: Group) -> float:
    return float(group.key[0])  # type: ignore[arg-type]
