"""Scaling charts: time, throughput, speed-up and efficiency by count, with fitted laws; time to a target. Pure; the
theme sets colours.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType

import plotly.graph_objects as go

from app.charts.line_styles import look
from app.charts.sweep_charts import add_disturbed, error_bars, scale
from app.charts.sweep_data import DisturbedPoint
from engine.analysis.scaling.laws import Fit
from engine.analysis.scaling.scaling_data import TimedRun
from engine.analysis.scaling.speedup import REFERENCE, SpeedupPoint
from engine.analysis.statistics.intervals import Interval

HEIGHT_PX = 420
MEASURES = ("Speed-up", "Efficiency", "Throughput", "Execution time")
_GREY = 7
_DASHES = {"Amdahl": "dot", "Gustafson": "dashdot", "Universal Scalability Law": "dash"}
LINEAR_TO = 16.0
"""Ratio of the largest count to the smallest up to which speed-up has linear axes; beyond, both are logarithmic. Either
way the ideal is a straight line.
"""
_TAKEN: Mapping[str, Callable[[SpeedupPoint], Interval | None]] = {
    "Speed-up": lambda size: size.speed_up,
    "Efficiency": lambda size: size.efficiency,
    "Throughput": lambda size: size.per_second,
    "Execution time": lambda size: size.time_s,
}


def title_of(measure: str, unit: str) -> str:
    """Return the axis title of a measure; `unit` is the unit of work, empty for whole runs."""
    units = {"Throughput": f"{unit or 'runs'}/s", "Efficiency": "ideal: 1", "Speed-up": "vs. 1"}
    return f"{measure} ({units[measure]})" if measure in units else measure


def picture(
    measure: str,
    lines: Mapping[str, Sequence[SpeedupPoint]],
    laws: Mapping[str, Sequence[Fit]],
    x_title: str,
    unit: str,
    most: float | None,
    disturbed: Mapping[str, Sequence[TimedRun]] = MappingProxyType({}),
) -> tuple[go.Figure, list[int]]:
    """Return the figure of one measure, and the palette index of each trace.

    Lines are by name; fitted laws are drawn over speed-up; `disturbed` runs, by line, are crosses apart. `most`
    is the maximum possible speed-up, such as the number of stages of a pipeline; None for the count itself.
    """
    drawn, colours = go.Figure(), list[int]()
    strays = [timing for of_line in disturbed.values() for timing in of_line]
    counts = sorted({size.count for sizes in lines.values() for size in sizes} | {each.count for each in strays})
    for colour, (name, sizes) in enumerate(lines.items()):
        _line(
            drawn,
            name or "measured",
            [(size, found) for size in sizes if (found := _TAKEN[measure](size))],
            look(colour).symbol,
        )
        for law in laws.get(name, ()) if measure == "Speed-up" else ():
            label = f"{name}, {law.law.name}" if name else law.law.name
            drawn.add_scatter(
                x=_dense(counts),
                y=[min(law.speed_up(count), most or inf) for count in _dense(counts)],
                name=label,
                mode="lines",
                line={"dash": _DASHES[law.law.name], "width": 1.5},
                hovertemplate=f"%{{y:.3g}}<extra>{label}</extra>",
            )
        colours += [colour] * (len(drawn.data) - len(colours))
    points = [
        DisturbedPoint(timing.count, value, timing.run_id, timing.disturbance or 0.0)
        for name, of_line in disturbed.items()
        for timing in of_line
        if (value := _disturbed_value(measure, timing, lines.get(name, ()))) is not None
    ]
    if any(size.crowded for sizes in lines.values() for size in sizes):
        drawn.add_scatter(
            x=[None], y=[None], name="oversubscribed", mode="markers", marker={"symbol": "circle-open", "size": 9}
        )
        colours.append(_GREY)
    if points:
        add_disturbed(drawn, points)
        colours.append(_GREY)
    if measure in ("Speed-up", "Efficiency") and counts:
        x, y = _ideal(measure, counts, most)
        drawn.add_scatter(
            x=x, y=y, name="ideal", mode="lines", line={"dash": "longdash", "width": 1.2}, hoverinfo="skip"
        )
        colours.append(_GREY)
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": x_title, **scale([float(count) for count in counts])},
        yaxis={"title": {"text": title_of(measure, unit)}, "rangemode": "tozero"},
        meta={"units": {"y": "s"}} if measure == "Execution time" else None,
        hovermode="closest",
        showlegend=True,
    )
    if measure == "Speed-up" and counts:
        is_linear = counts[-1] <= LINEAR_TO * counts[0]
        drawn.update_layout(
            xaxis=scale([float(count) for count in counts], "range" if is_linear else "log:")
            | {"tickvals": counts, "ticktext": list(map(str, counts))},
            yaxis={"type": "linear" if is_linear else "log"},
        )
    return drawn, colours


def _disturbed_value(measure: str, timing: TimedRun, sizes: Sequence[SpeedupPoint]) -> float | None:
    """Return the value of one disturbed run; None without a reference point."""
    if measure in ("Execution time", "Throughput"):
        return timing.execution_time_s if measure == "Execution time" else timing.per_second
    reference = next((size.per_second.mean for size in sizes if size.count == REFERENCE), None)
    if not reference:
        return None
    return timing.per_second / reference / (timing.count if measure == "Efficiency" else 1)


def _ideal(measure: str, counts: Sequence[int], most: float | None) -> tuple[list[float], list[float]]:
    """Return the ends of the ideal line, and its bend where the maximum speed-up is reached."""
    x = [float(counts[0]), *([most] if most and counts[0] < most < counts[-1] else []), float(counts[-1])]
    return x, [1.0 if measure == "Efficiency" else min(count, most or count) for count in x]


def _line(drawn: go.Figure, name: str, points: Sequence[tuple[SpeedupPoint, Interval]], symbol: str) -> None:
    """Add means with their 95 % intervals; oversubscribed sizes have hollow markers."""
    drawn.add_scatter(
        x=[size.count for size, _ in points],
        y=[found.mean for _, found in points],
        error_y=error_bars([found for _, found in points]),
        customdata=[[size.runs, size.crowded or "one core or GPU per rank"] for size, _ in points],
        name=name,
        mode="lines+markers",
        marker={"symbol": [f"{symbol}-open" if size.crowded else symbol for size, _ in points], "size": 9},
        hovertemplate=f"%{{y:,.4~r}} {{y unit}}, %{{customdata[0]}} runs, %{{customdata[1]}}<extra>{name}</extra>",
    )


def _dense(counts: Sequence[int]) -> list[float]:
    first, last = counts[0], counts[-1]
    return [first + (last - first) * place / 60 for place in range(61)]
