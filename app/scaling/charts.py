"""Charts of scaling: time, throughput, speed-up and efficiency against a count, with fitted laws; time to a target.
Pure; the theme gives colours.
"""

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from app.charts.sweep_charts import SYMBOLS, error_bars, scale
from engine.analysis.scaling.laws import Fit
from engine.analysis.scaling.speedup import SpeedupPoint
from engine.analysis.statistics.intervals import Interval

HEIGHT_PX = 420
MEASURES = ("Speed-up", "Efficiency", "Throughput", "Execution time")
_GREY = 7
_DASHES = {"Amdahl": "dot", "Gustafson": "dashdot", "Universal Scalability Law": "dash"}
_TAKEN: Mapping[str, Callable[[SpeedupPoint], Interval | None]] = {
    "Speed-up": lambda size: size.speed_up,
    "Efficiency": lambda size: size.efficiency,
    "Throughput": lambda size: size.per_second,
    "Execution time": lambda size: size.time_s,
}


def title_of(measure: str, unit: str) -> str:
    """Return the title of the axis of a measure; `unit` is what work is counted in, empty where it is whole runs."""
    units = {
        "Throughput": f"{unit or 'runs'}/s",
        "Execution time": "s",
        "Efficiency": "1 is ideal",
        "Speed-up": "times as fast as 1",
    }
    return f"{measure} ({units[measure]})"


def picture(
    measure: str,
    lines: Mapping[str, Sequence[SpeedupPoint]],
    laws: Mapping[str, Sequence[Fit]],
    x_title: str,
    unit: str,
    most: float | None,
) -> tuple[go.Figure, list[int]]:
    """Return the figure of one measure, and for each trace its place in the palette.

    Lines are by name; fitted laws are drawn over speed-up. `most` is the speed-up that cannot be passed, such as the
    stages of a pipeline; None for the count itself.
    """
    drawn, colours = go.Figure(), list[int]()
    counts = sorted({size.count for sizes in lines.values() for size in sizes})
    for colour, (name, sizes) in enumerate(lines.items()):
        _line(
            drawn,
            name or "measured",
            [(size, found) for size in sizes if (found := _TAKEN[measure](size))],
            SYMBOLS[colour % len(SYMBOLS)],
        )
        for law in laws.get(name, ()) if measure == "Speed-up" else ():
            label = f"{name}, {law.law.name}" if name else law.law.name
            drawn.add_scatter(
                x=_dense(counts),
                y=[law.speed_up(count) for count in _dense(counts)],
                name=label,
                mode="lines",
                line={"dash": _DASHES[law.law.name], "width": 1.5},
                hovertemplate=f"%{{y:.3g}}<extra>{label}</extra>",
            )
        colours += [colour] * (len(drawn.data) - len(colours))
    if measure in ("Speed-up", "Efficiency") and counts:
        ideal = [
            1.0 if measure == "Efficiency" else float(count) if most is None else min(float(count), most)
            for count in counts
        ]
        drawn.add_scatter(
            x=counts, y=ideal, name="ideal", mode="lines", line={"dash": "longdash", "width": 1.2}, hoverinfo="skip"
        )
        colours.append(_GREY)
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": x_title, **scale([float(count) for count in counts])},
        yaxis={"title": title_of(measure, unit), "rangemode": "tozero"},
        hovermode="closest",
        showlegend=True,
    )
    return drawn, colours


def _line(drawn: go.Figure, name: str, points: Sequence[tuple[SpeedupPoint, Interval]], symbol: str) -> None:
    """Add means with their 95 % intervals; sizes whose ranks were in each other's way are hollow."""
    drawn.add_scatter(
        x=[size.count for size, _ in points],
        y=[found.mean for _, found in points],
        error_y=error_bars([found for _, found in points]),
        customdata=[[size.runs, size.crowded or "a core or GPU for each"] for size, _ in points],
        name=name,
        mode="lines+markers",
        marker={"symbol": [f"{symbol}-open" if size.crowded else symbol for size, _ in points], "size": 9},
        hovertemplate=f"%{{y:.4g}}, %{{customdata[0]}} runs, %{{customdata[1]}}<extra>{name}</extra>",
    )


def _dense(counts: Sequence[int]) -> list[float]:
    first, last = counts[0], counts[-1]
    return [first + (last - first) * place / 60 for place in range(61)]
