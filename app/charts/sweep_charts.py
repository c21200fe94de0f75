"""A sweep's chart: a mean with its spread for each line, and dashed reference lines. Pure; the theme sets colours."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import log10
from typing import Any

import plotly.graph_objects as go

from app.charts.plotly_figures import axis_title, least_range, look, range_mode
from app.charts.sweep_data import DisturbedPoint, Lines, axis, is_by_median, line_name
from engine.analysis.comparability import in_words
from engine.analysis.statistics.groups import Group
from engine.analysis.statistics.intervals import Interval
from engine.config_values import value_in_words
from engine.metrics import metric
from engine.store import Sweep
from engine.sweep.plan import is_numeric

HEIGHT_PX = 420
SPREAD_OPACITY = 0.25
MOST_TICKS = 16
_GREY = 7
EDGE = 0.06
"""Margin at both ends of the axis, as a fraction of its length."""


def chart(
    groups: Sequence[Group],
    name: str,
    sweep: Sweep,
    x_title: str,
    lines: Lines | None = None,
    disturbed: Sequence[DisturbedPoint] = (),
    unit: str | None = None,
) -> tuple[go.Figure, list[int]]:
    """Return the figure, and the palette index of each trace.

    A line consists of the groups whose keys differ only in the first value; `lines` holds reference lines at the values
    of `axis`, by the rest of the key; `disturbed` are the runs that no group has, as crosses. The axis has its
    full range from the first point on, so nothing moves as points arrive.
    """
    figure, colours = go.Figure(), list[int]()
    unit = metric(name).unit if unit is None else unit
    is_drawn = bool(sweep.draw) and len(sweep.fields) > 1
    scattered = is_drawn or not sweep.fields
    by_median = is_by_median(sweep, name)
    if is_drawn:
        groups = [replace(group, key=(group.key[0], *group.key[len(sweep.fields) :])) for group in groups]
    along = sweep.grid[sweep.across[0]]
    numeric = is_numeric(along)
    for colour, key in enumerate(dict.fromkeys([group.key[1:] for group in groups] + list(lines or {}))):
        title = (", ".join(map(str, key)) if is_drawn else line_name(sweep, key)) or "measured"
        measured(
            figure,
            [group for group in groups if group.key[1:] == key],
            title,
            look(colour).symbol,
            numeric,
            scattered,
            by_median,
        )
        for line in (lines or {}).get(key, []):
            label = f"{title}, {line.label}" if key else line.label
            figure.add_scatter(
                x=axis(sweep),
                y=list(line.times_s),
                name=label,
                mode="lines",
                line={"dash": line.dash, "width": 1.6},
                hovertemplate=f"%{{y:,.4~r}} {{y unit}}<extra>{label}</extra>",
            )
        colours += [colour] * (len(figure.data) - len(colours))
    if disturbed:
        add_disturbed(figure, [each if numeric else each._replace(x=value_in_words(each.x)) for each in disturbed])
        colours.append(_GREY)
    figure.update_layout(
        height=HEIGHT_PX,
        xaxis={
            "title": x_title,
            **(
                scale([float(value) for value in along], sweep.draw.over[sweep.across[0]] if sweep.draw else "")
                if numeric
                else _places(along)
            ),
        },
        yaxis={
            "title": {"text": axis_title(metric(name).label)},
            "rangemode": range_mode(name),
            **least_range(metric(name).label, figure),
        },
        meta={"units": {"y": unit}},
        hovermode="closest",
        showlegend=len([trace for trace in figure.data if trace.showlegend is None]) > 1,
    )
    return figure, colours


def measured(
    figure: go.Figure,
    groups: Sequence[Group],
    title: str,
    symbol: str,
    numeric: bool,
    scattered: bool,
    by_median: bool = False,
) -> None:
    """Add the range of the runs, the single runs, and the mean, or the median with its interval; `scattered` groups
    differ in more than x and are not connected.
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
            name=title,
            showlegend=False,
        )
        single = [
            (x, value, run_id) for x, group in zip(xs, groups, strict=True) for run_id, value in group.values.items()
        ]
        figure.add_scatter(
            x=[x for x, _, _ in single],
            y=[value for _, value, _ in single],
            name=title,
            meta={"as": "single runs", "runs": True},
            customdata=[run_id for _, _, run_id in single],
            mode="markers",
            marker={"symbol": f"{symbol}-open", "size": 6},
            opacity=0.7,
            hovertemplate=f"run %{{customdata}}: %{{y:,.4~r}} {{y unit}}<extra>{title}</extra>",
            showlegend=False,
        )
    if groups:
        are_single = all(len(group.values) == 1 for group in groups)
        first = [next(iter(group.values)) if are_single else len(group.values) for group in groups]
        centre = "median" if by_median else "mean"
        said = "%{y:,.4~r} {y unit}"
        figure.add_scatter(
            x=xs,
            y=[group.median if by_median else group.mean for group in groups],
            error_y=_median_bars(groups) if by_median else None,
            customdata=[[each, group.low, group.high] for each, group in zip(first, groups, strict=True)],
            meta=({} if by_median else {"like_y": [1, 2]}) | ({"runs": True} if are_single else {}) or None,
            name=title,
            mode="markers" if scattered else "lines+markers",
            marker={"symbol": symbol, "size": 8},
            hovertemplate=(
                f"run %{{customdata[0]}}: {said}<extra>{title}</extra>"
                if are_single
                else f"{said}, {centre} of %{{customdata[0]}}<extra>{title}</extra>"
            ),
        )


def add_disturbed(figure: go.Figure, points: Sequence[DisturbedPoint]) -> None:
    """Add disturbed runs as crosses."""
    figure.add_scatter(
        x=[point.x for point in points],
        y=[point.y for point in points],
        customdata=[[point.run_id, in_words(point.share)] for point in points],
        name="disturbed, left out",
        meta={"runs": True},
        mode="markers",
        marker={"symbol": "x-thin-open", "size": 8, "line": {"width": 2}},
        hovertemplate="run %{customdata[0]}: %{y:,.4~r} {y unit}, disturbed %{customdata[1]}<extra>left out</extra>",
    )


def error_bars(found: Sequence[Interval]) -> dict[str, Any]:
    """Return Plotly error bars of means: the interval, or minimum to maximum without one."""
    return _bars([each.high - each.mean for each in found], [each.mean - each.low for each in found])


def _median_bars(groups: Sequence[Group]) -> dict[str, Any]:
    """Return Plotly error bars of medians: their intervals, none for too few runs."""
    bounds = [group.median_interval or (group.median, group.median) for group in groups]
    return _bars(
        [high - group.median for group, (_, high) in zip(groups, bounds, strict=True)],
        [group.median - low for group, (low, _) in zip(groups, bounds, strict=True)],
    )


def _bars(up: Sequence[float], down: Sequence[float]) -> dict[str, Any]:
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
    """Return a scale over all values with ticks at them, logarithmic if they grow by factors; with `drawn` (random
    search), the scale of the range.
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
    """Return a position for each non-numeric value, in grid order."""
    words = [value_in_words(value) for value in values]
    return {"type": "category", "categoryorder": "array", "categoryarray": words, "range": [-0.5, len(words) - 0.5]}
