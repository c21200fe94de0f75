"""A sweep's chart: a mean with its spread for each line along the axis, and dashed lines that nobody measured. Pure;
the theme gives colours.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import log10
from typing import Any

import plotly.graph_objects as go

from app.charts.sweep_data import Lines, axis, is_numeric, line_name
from engine.analysis.statistics.groups import Group
from engine.analysis.statistics.intervals import Interval
from engine.config_values import value_in_words
from engine.metrics import metric
from engine.store import Sweep

HEIGHT_PX = 420
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
SPREAD_OPACITY = 0.25
MOST_TICKS = 16
EDGE = 0.06
"""Room beside the first and the last value, as a share of the axis."""
FROM_ZERO = ("s", "samples/s", "env steps/s", "MB")
"""Units of what is compared as a ratio, so that the axis begins at 0."""


def chart(
    groups: Sequence[Group], name: str, sweep: Sweep, x_title: str, lines: Lines | None = None
) -> tuple[go.Figure, list[int]]:
    """Return the figure, and for each trace its place in the palette.

    A line is all groups whose keys differ in the first value alone; `lines` holds reference lines at the values of
    `axis` by the rest of the key. The whole axis is there from the first point on, so that nothing moves while the
    curve grows.
    """
    figure, colours, unit = go.Figure(), list[int](), metric(name).unit
    scattered = bool(sweep.draw) and len(sweep.fields) > 1
    if scattered:
        groups = [replace(group, key=(group.key[0], *group.key[len(sweep.fields) :])) for group in groups]
    along = sweep.grid[sweep.fields[0]]
    numeric = is_numeric(along)
    for colour, key in enumerate(dict.fromkeys([group.key[1:] for group in groups] + list(lines or {}))):
        title = (", ".join(map(str, key)) if scattered else line_name(sweep, key)) or "measured"
        measured(
            figure,
            [group for group in groups if group.key[1:] == key],
            title,
            unit,
            SYMBOLS[colour % len(SYMBOLS)],
            numeric,
            scattered,
        )
        for line in (lines or {}).get(key, []):
            label = f"{title}, {line.label}" if key else line.label
            figure.add_scatter(
                x=axis(sweep),
                y=list(line.times_s),
                name=label,
                mode="lines",
                line={"dash": line.dash, "width": 1.6},
                hovertemplate=f"%{{y:.4g}} {unit}<extra>{label}</extra>",
            )
        colours += [colour] * (len(figure.data) - len(colours))
    figure.update_layout(
        height=HEIGHT_PX,
        xaxis={
            "title": x_title,
            **(
                scale([float(value) for value in along], sweep.draw["over"][sweep.fields[0]] if sweep.draw else "")
                if numeric
                else _places(along)
            ),
        },
        yaxis={
            "title": f"{metric(name).label}{f' ({unit})' if unit else ''}",
            "rangemode": "tozero" if unit in FROM_ZERO else "normal",
        },
        hovermode="closest",
        showlegend=len([trace for trace in figure.data if trace.name]) > 1,
    )
    return figure, colours


def measured(
    figure: go.Figure, groups: Sequence[Group], title: str, unit: str, symbol: str, numeric: bool, scattered: bool
) -> None:
    """Add the spread between the lowest and the highest run, the single runs, and the mean; `scattered` ones differ in
    more than x, so nothing joins them.
    """
    if numeric:
        groups = sorted(groups, key=lambda group: group.key[0])  # type: ignore[arg-type, return-value]
    xs = [group.key[0] if numeric else value_in_words(group.key[0]) for group in groups]
    if any(len(group.values) > 1 for group in groups) and not scattered:
        figure.add_scatter(
            x=xs + xs[::-1],
            y=[group.high for group in groups] + [group.low for group in reversed(groups)],
            fill="toself",
            mode="lines",
            line={"width": 0},
            opacity=SPREAD_OPACITY,
            hoverinfo="skip",
            showlegend=False,
        )
        single = [
            (x, value, run_id)
            for x, group in zip(xs, groups, strict=True)
            if len(group.values) > 1
            for run_id, value in group.values.items()
        ]
        figure.add_scatter(
            x=[x for x, _, _ in single],
            y=[value for _, value, _ in single],
            customdata=[run_id for _, _, run_id in single],
            mode="markers",
            marker={"symbol": f"{symbol}-open", "size": 6},
            opacity=0.7,
            hovertemplate=f"run %{{customdata}}: %{{y:.4g}} {unit}<extra>{title}</extra>",
            showlegend=False,
        )
    if groups:
        figure.add_scatter(
            x=xs,
            y=[group.mean for group in groups],
            customdata=[len(group.values) for group in groups],
            name=title,
            mode="markers" if scattered else "lines+markers",
            marker={"symbol": symbol, "size": 8},
            hovertemplate=f"%{{y:.4g}} {unit}, mean of %{{customdata}}<extra>{title}</extra>",
        )


def error_bars(found: Sequence[Interval]) -> dict[str, Any]:
    """Return plotly's error bars of means: from the lower to the upper end of each interval, or from the least to the
    greatest value where there is none.
    """
    up, down = [each.high - each.mean for each in found], [each.mean - each.low for each in found]
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1.2,
        "width": 4,
        "visible": any(up) or any(down),
    }


def scale(values: Sequence[float], drawn: str = "") -> dict[str, object]:
    """Return a scale over all values with ticks at them, logarithmic where they grow by factors; one of `drawn` values
    is as its range is.
    """
    numbers = sorted(values)
    by_factors = (
        len(numbers) > 2 and numbers[0] > 0 and all(later >= 1.9 * earlier for earlier, later in pairwise(numbers))
    )
    grows = drawn.strip().startswith("log:") if drawn else by_factors
    first, last = (log10(numbers[0]), log10(numbers[-1])) if grows else (numbers[0], numbers[-1])
    edge = (last - first) * EDGE or 1.0
    ticks = (
        {"tickvals": numbers, "ticktext": [f"{number:g}" for number in numbers]}
        if len(numbers) <= MOST_TICKS and not drawn
        else {}
    )
    return {"type": "log" if grows else "linear", "range": [first - edge, last + edge], **ticks}


def _places(values: Sequence[object]) -> dict[str, object]:
    """Return a place for each value that is no number, in the order of the grid."""
    words = [value_in_words(value) for value in values]
    return {"type": "category", "categoryorder": "array", "categoryarray": words, "range": [-0.5, len(words) - 0.5]}
