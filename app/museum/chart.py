"""The chart of an exhibit with both versions, and its tables. Pure; the theme sets the colours."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.charts.sweep_charts import scale
from app.ui.html import number, strong, table
from engine.museum.outcome import ExhibitOutcome, Way
from engine.signs.sign import Sign

HEIGHT_PX = 320
NAMES: Mapping[Way, str] = {"wrong": "published code", "right": "corrected code"}
COLOURS: Mapping[Way, int] = {"wrong": 1, "right": 0}
_SYMBOLS: Mapping[Way, str] = {"wrong": "x", "right": "circle"}
MOST_MARKERS = 60


def picture(sign: Sign, outcomes: Mapping[Way, ExhibitOutcome], way: Way) -> tuple[go.Figure, list[int]]:
    """Return the chart of an exhibit with the selected version emphasised, and the palette index of each trace."""
    drawn = go.Figure()
    for each, name in NAMES.items():
        series = outcomes[each].series
        drawn.add_scatter(
            x=list(series),
            y=list(series.values()),
            name=name,
            mode="lines+markers" if len(series) <= MOST_MARKERS else "lines",
            marker={"symbol": _SYMBOLS[each], "size": 8 if each == way else 6},
            line={"width": 2.6 if each == way else 1.6, "dash": "dash" if each == "wrong" else "solid"},
            opacity=1.0 if each == way else 0.7,
            hovertemplate=f"{sign.x} %{{x:,}}: %{{y:.4g}}<extra>{name}</extra>",
        )
    xs = sorted({float(x) for outcome in outcomes.values() for x in outcome.series})
    axis = scale(xs) if len(xs) <= 6 else {}
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": sign.x, **axis},
        yaxis={
            "title": sign.y,
            "range": _range([value for outcome in outcomes.values() for value in outcome.series.values()]),
        },
        hovermode="closest",
        showlegend=True,
    )
    return drawn, [COLOURS[each] for each in NAMES]


def _range(values: Sequence[float]) -> list[float]:
    """Return a range that includes all values and 0, with a margin."""
    low, high = min(0.0, *values), max(0.0, *values)
    edge = 0.05 * (high - low) or 1.0
    return [low - edge, high + edge]


def numbers(sign: Sign, outcomes: Mapping[Way, ExhibitOutcome], way: Way) -> str:
    """Return the values of both versions as a table, with the selected version in bold."""

    def cell(each: Way, key: str) -> str:
        words = number(outcomes[each].numbers.get(key))
        return strong(words) if each == way else words

    rows = [
        [f"{found.label}{f' ({found.unit})' if found.unit else ''}", cell("wrong", found.key), cell("right", found.key)]
        for found in sign.numbers
    ]
    return table(["Metric", "Published code", "Corrected code"], rows, caption=f"Values of {sign.title}")


def points(sign: Sign, outcomes: Mapping[Way, ExhibitOutcome]) -> str:
    """Return the chart's values as a table: one row per x."""
    xs = sorted({x for outcome in outcomes.values() for x in outcome.series})
    rows = [[f"{x:,}", *(number(outcomes[way].series.get(x)) for way in NAMES)] for x in xs]
    return table([sign.x, "Published code", "Corrected code"], rows, caption=f"{sign.y}: {sign.title}")
