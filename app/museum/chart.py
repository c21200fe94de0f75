"""The picture of an exhibit: both ways over each other, and the same as a table. Pure; the theme gives colours."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.charts.sweep_charts import scale
from app.ui.html import number, table
from engine.museum.outcome import ExhibitOutcome, Way
from engine.signs.sign import Sign

HEIGHT_PX = 320
NAMES: Mapping[Way, str] = {"wrong": "published code", "right": "right way"}
COLOURS: Mapping[Way, int] = {"wrong": 1, "right": 0}
_SYMBOLS: Mapping[Way, str] = {"wrong": "x", "right": "circle"}
MOST_MARKERS = 60


def picture(sign: Sign, outcomes: Mapping[Way, ExhibitOutcome], way: Way) -> tuple[go.Figure, list[int]]:
    """Return the figure of an exhibit, the way that is switched on drawn strong, and for each trace its place in the
    palette.
    """
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
    """Return a range that holds all values and 0, with room for a line that lies on an edge."""
    low, high = min(0.0, *values), max(0.0, *values)
    edge = 0.05 * (high - low) or 1.0
    return [low - edge, high + edge]


def numbers(sign: Sign, outcomes: Mapping[Way, ExhibitOutcome], way: Way) -> str:
    """Return the numbers of both ways as a table, those of the way that is switched on in bold."""

    def cell(each: Way, key: str) -> str:
        words = number(outcomes[each].numbers.get(key))
        return f"<strong>{words}</strong>" if each == way else words

    rows = [
        [f"{found.label}{f' ({found.unit})' if found.unit else ''}", cell("wrong", found.key), cell("right", found.key)]
        for found in sign.numbers
    ]
    return table(["Number", "Published code", "Right way"], rows, caption=f"Numbers of {sign.title}")


def points(sign: Sign, outcomes: Mapping[Way, ExhibitOutcome]) -> str:
    """Return what the picture shows as a table: a row an x."""
    xs = sorted({x for outcome in outcomes.values() for x in outcome.series})
    rows = [[f"{x:,}", *(number(outcomes[way].series.get(x)) for way in NAMES)] for x in xs]
    return table([sign.x, "Published code", "Right way"], rows, caption=f"{sign.y}: {sign.title}")
