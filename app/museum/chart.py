"""The chart of an exhibit with both versions, and its tables. Pure; the theme sets the colours."""

from collections.abc import Mapping

import plotly.graph_objects as go

from app.charts.sweep_charts import scale
from app.ui.html import number, strong, table
from engine.museum.exhibit import Outcome, Sign, Way

HEIGHT_PX, MOST_MARKERS = 320, 60
NAMES: Mapping[Way, str] = {"wrong": "published code", "right": "corrected code"}
COLOURS = [1, 0]


def picture(sign: Sign, outcomes: Mapping[Way, Outcome], way: Way) -> go.Figure:
    """Return the chart of an exhibit with the selected version emphasised, its traces in `COLOURS` of the palette."""
    drawn = go.Figure()
    for each, name in NAMES.items():
        series, is_strong, is_wrong = outcomes[each].series, each == way, each == "wrong"
        drawn.add_scatter(
            x=list(series),
            y=list(series.values()),
            name=name,
            mode="lines+markers" if len(series) <= MOST_MARKERS else "lines",
            marker={"symbol": "x" if is_wrong else "circle", "size": 8 if is_strong else 6},
            line={"width": 2.6 if is_strong else 1.6, "dash": "dash" if is_wrong else "solid"},
            opacity=1.0 if is_strong else 0.7,
            hovertemplate=f"{sign.x} %{{x:,}}: %{{y:.4g}}<extra>{name}</extra>",
        )
    xs = sorted({float(x) for outcome in outcomes.values() for x in outcome.series})
    ys = [0.0, *(y for outcome in outcomes.values() for y in outcome.series.values())]
    edge = 0.05 * (max(ys) - min(ys)) or 1.0
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": sign.x, **(scale(xs) if len(xs) <= 6 else {})},
        yaxis={"title": sign.y, "range": [min(ys) - edge, max(ys) + edge]},
        hovermode="closest",
        showlegend=True,
    )
    return drawn


def numbers(sign: Sign, outcomes: Mapping[Way, Outcome], way: Way) -> str:
    """Return the values of both versions as a table, with the selected version in bold."""
    rows = []
    for found in sign.numbers:
        cells = {each: number(outcomes[each].numbers.get(found.key)) for each in NAMES}
        cells[way] = strong(cells[way])
        rows.append([f"{found.label} ({found.unit})" if found.unit else found.label, *cells.values()])
    return table(["Metric", "Published code", "Corrected code"], rows, caption=f"Values of {sign.title}")


def points(sign: Sign, outcomes: Mapping[Way, Outcome]) -> str:
    """Return the chart's values as a table: one row per x."""
    xs = sorted({x for outcome in outcomes.values() for x in outcome.series})
    rows = [[f"{x:,}", *(number(outcomes[way].series.get(x)) for way in NAMES)] for x in xs]
    return table([sign.x, "Published code", "Corrected code"], rows, caption=f"{sign.y}: {sign.title}")
