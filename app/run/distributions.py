"""Figures of distributions: a bar strip per rank, and a heat map over time. Pure functions, coloured by the theme."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from app.ui.html import number
from engine.analysis.statistics.groups import Counts, mean, percentile
from engine.histograms import Histogram
from engine.store.curve_records import Heat

MOST_BARS, FEWEST_PLACES = 64, 5
HEAD_PX, STRIP_PX, FOOT_PX, HEAT_PX = 28, 68, 46, 320


def strips(known: Histogram, counts: Mapping[str, Counts]) -> go.Figure:
    """Return a strip of bars for each rank, stacked over one shared x-axis; each strip has its own y-scale."""
    low, high = min(map(min, counts.values())), max(map(max, counts.values()))
    size = 1
    while high // size - low // size >= MOST_BARS:
        size *= 2
    height = strips_height(len(counts))
    share, head = 1 / len(counts), HEAD_PX / (height - FOOT_PX)
    figure = go.Figure()
    for place, (role, one) in enumerate(counts.items()):
        top = 1 - place * share
        _add_strip(
            figure, known, role, grouped(one, size), size, [top - share, top - head], str(place + 1) if place else ""
        )
        figure.add_annotation(
            text=_heading(known, role, one),
            x=0,
            y=top - head,
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
        )
    figure.add_annotation(
        text=known.counted,
        x=0,
        y=0.5,
        xref="paper",
        yref="paper",
        xshift=-60,
        textangle=-90,
        font_size=14,
        showarrow=False,
    )
    start, end = low // size * size - 0.5, max(high, low + FEWEST_PLACES) + 0.5
    last = f"y{len(counts)}" if len(counts) > 1 else "y"
    xaxis = {
        "title": {"text": _axis(known), "standoff": 6},
        "range": [start, end],
        "anchor": last,
        "tickformat": "d",
        **_whole(end - start),
    }
    figure.update_layout(
        xaxis=xaxis,
        height=height,
        showlegend=False,
        hovermode="closest",
        margin={"l": 70, "r": 14, "t": 0, "b": FOOT_PX},
    )
    return figure


def strips_height(ranks: int) -> int:
    """Return the figure height for a number of ranks, in pixels."""
    return max(HEAT_PX, FOOT_PX + ranks * STRIP_PX)


def grouped(counts: Counts, size: int) -> dict[int, int]:
    """Return the counts in bins of `size` neighbouring values, keyed by the lowest value of each bin."""
    found: Counter[int] = Counter()
    for value, count in counts.items():
        found[value // size * size] += count
    return dict(sorted(found.items()))


def heat_map(known: Histogram, heat: Heat) -> go.Figure:
    """Return the heat map as a grid of cells; cells without points are empty."""
    columns = range(1 + max(column for column, _ in heat.counts))
    rows = range(min(row for _, row in heat.counts), 1 + max(row for _, row in heat.counts))
    half = (heat.row - 1) / 2
    where = f"{known.label.lower()} %{{y}}{f' ± {half:g}' if half else ''}, at about %{{x:.1f}} s"
    ticks = {"tickformat": ",d", **_whole(max(heat.counts.values()))}
    figure = go.Figure()
    figure.add_heatmap(
        x=[(column + 0.5) * heat.column_s for column in columns],
        y=[row * heat.row + half for row in rows],
        z=[[heat.counts.get((column, row)) for column in columns] for row in rows],
        xgap=1,
        ygap=1,
        zmin=0,
        colorbar={
            "title": {"text": known.counted, "side": "right"},
            "thickness": 10,
            "outlinewidth": 0,
            "xpad": 6,
            **ticks,
        },
        hovertemplate=f"%{{z:,}} {known.counted}<br>{where}<extra></extra>",
    )
    yaxis = {"title": {"text": _axis(known)}, "tickformat": "d", **_whole(len(rows) * heat.row)}
    figure.update_layout(
        height=HEAT_PX, xaxis_title="Time since all ranks were ready (s)", yaxis=yaxis, hovermode="closest"
    )
    return figure


def _add_strip(
    figure: go.Figure, known: Histogram, role: str, bars: Counts, size: int, domain: list[float], axis: str
) -> None:
    highest = max(bars.values())
    figure.add_bar(
        x=[value + (size - 1) / 2 for value in bars],
        y=list(bars.values()),
        width=size * 0.92,
        yaxis=f"y{axis}",
        name=role,
        customdata=[str(value) if size == 1 else f"{value}–{value + size - 1}" for value in bars],
        hovertemplate=f"{known.label.lower()} %{{customdata}}: %{{y:,}} {known.counted}<extra>{role}</extra>",
    )
    scale: dict[str, Any] = {
        "domain": domain,
        "range": [0, highest * 1.04],
        "tickvals": [0, highest],
        "tickformat": ",d",
        "fixedrange": True,
    }
    figure.update_layout({f"yaxis{axis}": scale})


def _heading(known: Histogram, role: str, counts: Counts) -> str:
    return (
        f"<b>{role}</b>  {sum(counts.values()):,} {known.counted}, mean {number(mean(counts), 3)}, p99 "
        f"{percentile(counts, 99):,}"
    )


def _whole(span: float) -> dict[str, int]:
    """Return tick settings that place ticks at whole numbers for any axis length."""
    return {"dtick": 1} if span <= 6 else {"nticks": 8}


def _axis(known: Histogram) -> str:
    return f"{known.label.lower()} ({known.unit})" if known.unit else known.label.lower()
