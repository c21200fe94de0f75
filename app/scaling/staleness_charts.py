"""Staleness charts: mean against expected staleness, distribution, and a result by staleness. Pure; the theme sets
colours.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import plotly.graph_objects as go

from app.charts.plotly_figures import least_range, look
from app.charts.sweep_charts import error_bars
from engine.analysis.scaling.staleness import Price, Stale, StalenessPoint
from engine.analysis.statistics.groups import Counts, percentile

HEIGHT_PX = 360
GREY = 7
MOST_ROWS = 24
"""Maximum number of staleness values with their own row, up to the 99th percentile; the last row has all larger values.
"""
Drawn = tuple[go.Figure, list[int]]


def against_expected(sizes: Mapping[str, Sequence[StalenessPoint]], runs: Mapping[str, Sequence[Stale]]) -> Drawn:
    """Return mean against expected staleness, by line with its runs, and the diagonal where both are equal."""
    figure, colours = go.Figure(), list[int]()
    for colour, (name, of_line) in enumerate(sizes.items()):
        symbol = look(colour).symbol
        figure.add_scatter(
            x=[size.expected for size in of_line],
            y=[size.mean.mean for size in of_line],
            error_y=error_bars([size.mean for size in of_line]),
            customdata=[[size.runs, size.trainers] for size in of_line],
            name=name or "measured",
            mode="lines+markers",
            marker={"symbol": symbol, "size": 9},
            hovertemplate=(
                f"%{{y:.3f}} (expected %{{x:.3g}})<br>%{{customdata[1]}} trainers, %{{customdata[0]}} "
                f"runs<extra>{name}</extra>"
            ),
        )
        own = runs[name]
        figure.add_scatter(
            x=[run.expected for run in own],
            y=[run.mean for run in own],
            name=name or "measured",
            meta={"as": "single runs", "runs": True},
            customdata=[run.run_id for run in own],
            mode="markers",
            marker={"symbol": f"{symbol}-open", "size": 6},
            opacity=0.7,
            hovertemplate=f"run %{{customdata}}: %{{y:.3f}}<extra>{name}</extra>",
            showlegend=False,
        )
        colours += [colour] * 2
    highest = max((max(size.expected, size.mean.mean) for each in sizes.values() for size in each), default=1.0) or 1.0
    figure.add_scatter(
        x=[0, highest],
        y=[0, highest],
        name="N - 1",
        mode="lines",
        line={"dash": "dash", "width": 1.4},
        hoverinfo="skip",
    )
    ticks = sorted({size.expected for each in sizes.values() for size in each})
    axis = {"title": {"text": "Expected mean (updates)", "standoff": 6}, "range": [-0.06 * highest, 1.06 * highest]}
    if len(ticks) <= 12:
        axis |= {"tickvals": ticks, "ticktext": [f"{tick:.3g}" for tick in ticks]}
    yaxis = {"title": {"text": "Mean staleness (updates)"}, "rangemode": "tozero"}
    figure.update_layout(height=HEIGHT_PX, xaxis=axis, yaxis=yaxis, hovermode="closest", showlegend=True)
    return figure, [*colours, GREY]


def spread(columns: Mapping[str, Counts], things: str = "gradients", age: str = "staleness") -> go.Figure:
    """Return the share of gradients, or of other things, by staleness (y) and size (x), whose counts are given by its
    title.
    """
    top = min(MOST_ROWS, max(percentile(counts, 99) for counts in columns.values()))
    last = f"{top} or more" if any(max(counts) > top for counts in columns.values()) else str(top)
    figure = go.Figure()
    figure.add_heatmap(
        x=list(columns),
        y=[*map(str, range(top)), last],
        z=[[_share(counts, row, last=row == top) for counts in columns.values()] for row in range(top + 1)],
        xgap=2,
        ygap=1,
        zmin=0,
        colorbar={"title": {"text": f"% of {things}", "side": "right"}, "thickness": 10, "outlinewidth": 0, "xpad": 6},
        hovertemplate=f"%{{z:.3g}} % of {things} have {age} %{{y}}<extra>%{{x}}</extra>",
    )
    yaxis = {"title": {"text": f"{age.capitalize()} (updates)"}, "type": "category", "nticks": 13}
    figure.update_layout(height=HEIGHT_PX, xaxis={"type": "category"}, yaxis=yaxis, hovermode="closest")
    return figure


def result_along(runs: Mapping[str, Sequence[Stale]], prices: Mapping[str, Price], label: str, unit: str) -> Drawn:
    """Return a marker per run, by line, at its mean staleness and result, and the least-squares lines; a line without a
    name is fitted to all runs. Faint lines connect the runs of a seed where they are compared with each other.
    """
    figure, colours = go.Figure(), list[int]()
    for colour, (name, own) in enumerate(runs.items()):
        there = [run for run in own if run.result is not None]
        figure.add_scatter(
            x=[run.mean for run in there],
            y=[run.result for run in there],
            meta={"runs": True},
            customdata=[[run.run_id, run.trainers] for run in there],
            name=name or "run",
            mode="markers",
            marker={"symbol": look(colour).symbol, "size": 9},
            hovertemplate=(
                f"run %{{customdata[0]}}, %{{customdata[1]}} trainers: %{{y:.5g}} at %{{x:.2f}} "
                f"updates<extra>{name}</extra>"
            ),
        )
        colours.append(colour)
    for name, price in prices.items():
        own = sorted(
            (
                run
                for each in (runs.values() if name not in runs else [runs[name]])
                for run in each
                if run.result is not None
            ),
            key=lambda run: (str(run.block), run.mean),
        )
        colour = list(runs).index(name) if name in runs and len(runs) > 1 else GREY
        if price.seeds > 1:
            parted: list[Stale | None] = [*own[:1]]
            for before, run in pairwise(own):
                parted += [run] if run.block == before.block else [None, run]
            figure.add_scatter(
                x=[each and each.mean for each in parted],
                y=[each and each.result for each in parted],
                mode="lines",
                line={"width": 1},
                opacity=0.35,
                hoverinfo="skip",
                showlegend=False,
            )
            colours.append(colour)
        ends = [min(run.mean for run in own), max(run.mean for run in own)]
        line = {"dash": "dash" if price.direction else "dot", "width": 1.6}
        figure.add_scatter(
            x=ends,
            y=[price.at(end) for end in ends],
            name=f"{name}, least squares" if name else "least squares",
            mode="lines",
            line=line,
        )
        figure.data[-1].hoverinfo = "skip"
        colours.append(colour)
    highest = max((run.mean for own in runs.values() for run in own), default=0.0) or 1.0
    xaxis = {
        "title": {"text": "Mean staleness (updates)", "standoff": 6},
        "range": [-0.03 * highest, 1.04 * highest],
    }
    yaxis = {"title": {"text": f"{label} ({unit})" if unit else label}, **least_range(label, figure)}
    figure.update_layout(height=HEIGHT_PX, xaxis=xaxis, yaxis=yaxis, hovermode="closest", showlegend=True)
    return figure, colours


def _share(counts: Counts, row: int, *, last: bool) -> float | None:
    found = sum(count for value, count in counts.items() if value == row or (last and value > row))
    return 100 * found / sum(counts.values()) if found else None
