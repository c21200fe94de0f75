"""Charts of time to a target: its two factors and their product, each by count. Pure; the theme sets colours."""

from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from app.charts.line_styles import look
from app.charts.sweep_charts import error_bars, scale
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
    """Return the figure of one part, the palette index of each trace, and its title; `unit` is update or step."""
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
            marker={"symbol": look(colour).symbol, "size": 8},
            hovertemplate=(
                f"%{{y:,.4~r}} {{y unit}}, %{{customdata[0]}} of %{{customdata[1]}} runs<extra>{line}</extra>"
            ),
        )
        colours.append(colour)
    counts = sorted({float(each.count) for sizes in lines.values() for each in sizes})
    layout = {"hovermode": "closest", "showlegend": len(lines) > 1, "yaxis": {"rangemode": "tozero", "nticks": 6}}
    unit_of_y = "" if name == "updates" else "s"
    figure.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": {"text": x_title, "standoff": 6}, **scale(counts)},
        meta={"units": {"y": unit_of_y}},
        **layout,
    )
    titles = {
        "updates": f"{unit.capitalize()}s needed",
        "seconds": f"× time per {unit}",
        "time": "= time",
    }
    return figure, colours, titles[name]
