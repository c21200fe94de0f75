"""Charts of time to a target: its two factors and their product, each against a count. Pure; the theme
gives colours.
"""

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from app.charts.sweep_charts import SYMBOLS, error_bars, scale
from engine.analysis.scaling.targets import TargetReached
from engine.analysis.statistics.intervals import Interval

HEIGHT_PX = 300
PARTS: Mapping[str, Callable[[TargetReached], Interval | None]] = {
    "updates": lambda each: each.updates,
    "seconds": lambda each: each.update_s,
    "time": lambda each: each.time_s,
}


def part(
    name: str, lines: Mapping[str, Sequence[TargetReached]], x_title: str, unit: str
) -> tuple[go.Figure, list[int], str]:
    """Return the figure of one part, its places in the palette, and its title; `unit` is one update's word."""
    figure, colours = go.Figure(), list[int]()
    for colour, (line, sizes) in enumerate(lines.items()):
        points = [(each, found) for each in sizes if (found := PARTS[name](each))]
        figure.add_scatter(
            x=[each.count for each, _ in points],
            y=[found.mean for _, found in points],
            error_y=error_bars([found for _, found in points]),
            customdata=[[each.reached, each.runs] for each, _ in points],
            name=line or "measured",
            mode="lines+markers",
            marker={"symbol": SYMBOLS[colour % len(SYMBOLS)], "size": 8},
            hovertemplate=f"%{{y:.4g}}, %{{customdata[0]}} of %{{customdata[1]}} runs<extra>{line}</extra>",
        )
        colours.append(colour)
    counts = sorted({float(each.count) for sizes in lines.values() for each in sizes})
    layout = {"hovermode": "closest", "showlegend": len(lines) > 1, "yaxis": {"rangemode": "tozero", "nticks": 6}}
    figure.update_layout(height=HEIGHT_PX, xaxis={"title": {"text": x_title, "standoff": 6}, **scale(counts)}, **layout)
    titles = {
        "updates": f"{unit.capitalize()}s needed",
        "seconds": f"× seconds of {'an' if unit == 'update' else 'a'} {unit}",
        "time": "= time (s)",
    }
    return figure, colours, titles[name]
