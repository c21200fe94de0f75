"""Charts of a duel: curves within the budget with confidence bands, the learning-rate grid, paired differences.
Pure; the theme sets the colours.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from app.charts.curve_charts import GroupLine, Picture, group_line, of_groups, possible
from app.charts.plotly_figures import as_label, look
from engine.analysis.duel import Spent
from engine.analysis.statistics.groups import counted, line
from engine.analysis.statistics.intervals import RunPoints, aligned, member
from engine.duel.evidence import DuelEvidence, Tried
from engine.duel.outcome import DuelOutcome
from engine.duel.spec import Duel
from engine.metrics import metric

CURVES_PX, TUNING_PX, ROW_PX, FRAME_PX = 380, 320, 46, 96
SECONDS = "seconds"
_GREY = 7
_MARK = "rgba(128,128,128,0.9)"
"""The budget's end and zero: visible on both themes."""
_TITLES = {
    "seconds": "Time since all ranks were ready",
    "passes": "Passes over the training data (all trainers)",
    "updates": "Model updates",
    "bytes": "Data exchanged",
}
_UNITS = {"seconds": "s", "bytes": "MB"}


def lines(found: DuelEvidence, against: str) -> list[GroupLine | None]:
    """Return one line with a 95 % band per strategy, over the tests of its evaluation runs within the budget; the
    x-axis is the budget or time.
    """
    drawn = []
    for place, one in enumerate(found.duel.strategies):
        there = [(each, each.run) for each in found.of("judging", place) if each.run and each.at]
        runs = [run for _, run in there]
        values = aligned([[_member(each, found.duel, against)] for each, _ in there])
        of_all = line(values.values[values.members & counted(runs)], "mean", "ci")
        axis = "time" if against == SECONDS else against
        drawn.append(group_line(one.name, runs, values, possible(of_all, found.duel.metric), axis))
    return drawn


def curves(found: DuelEvidence, drawn: Sequence[GroupLine | None], against: str) -> Picture:
    """Return the lines as a figure that ends at the budget."""
    kept = [(place, each) for place, each in enumerate(drawn) if each]
    picture = of_groups([each for _, each in kept], [look(place) for place, _ in kept])
    end = _scaled(found.duel, found.duel.budget.amount) if against == found.duel.budget.kind else None
    xaxis = {
        "title": {"text": _TITLES[against], "standoff": 6},
        **({"range": [0, end * 1.02]} if end else {"rangemode": "tozero"}),
    }
    picture.lay_out(
        height=CURVES_PX,
        hovermode="x unified",
        showlegend=True,
        meta={"units": {"x": _UNITS.get(against, ""), "y": metric(found.duel.metric).unit}},
        xaxis=xaxis,
        yaxis={"title": {"text": metric(found.duel.metric).label}},
        uirevision=against,
    )
    if end:
        line = {"width": 1.5, "dash": "dot", "color": _MARK}
        picture.lay_out(
            shapes=[{"type": "line", "x0": end, "x1": end, "y0": 0, "y1": 1, "yref": "y domain", "line": line}]
        )
    return picture


def tuning(found: DuelOutcome) -> tuple[go.Figure, list[int]]:
    """Return each strategy's results per learning rate: means over the tuning seeds, single runs, and a star at the
    selected rate.
    """
    figure, colours, evidence = go.Figure(), list[int](), found.evidence
    for place, (one, choice) in enumerate(zip(evidence.duel.strategies, found.tuned.choices, strict=True)):
        own = [each for each in evidence.of("tuning", place) if each.value is not None]
        means = {
            rate: np.mean([each.value for each in own if each.rate == rate])
            for rate in evidence.duel.rates
            if any(each.rate == rate for each in own)
        }
        shape, name = look(place), as_label(one.name)
        figure.add_scatter(
            x=[each.rate for each in own],
            y=[each.value for each in own],
            name=name,
            meta={"as": "single runs", "runs": True},
            customdata=[each.run.id if each.run else 0 for each in own],
            mode="markers",
            marker={"symbol": f"{shape.symbol}-open", "size": 6},
            opacity=0.7,
            hovertemplate=f"run %{{customdata}}: %{{y:.4g}}<extra>{name}</extra>",
            showlegend=False,
        )
        figure.add_scatter(
            x=list(means),
            y=list(means.values()),
            name=name,
            mode="lines+markers",
            line={"dash": shape.dash, "width": 2},
            marker={
                "symbol": ["star" if choice and rate == choice.rate else shape.symbol for rate in means],
                "size": [14 if choice and rate == choice.rate else 8 for rate in means],
            },
            hovertemplate=f"%{{y:.4g}} at %{{x:g}}<extra>{name}</extra>",
        )
        colours += [shape.colour] * (len(figure.data) - len(colours))
    rates = list(evidence.duel.rates)
    ticks = {"type": "log", "tickvals": rates, "ticktext": [f"{rate:g}" for rate in rates]}
    figure.update_layout(
        height=TUNING_PX,
        hovermode="closest",
        showlegend=True,
        xaxis={"title": "Learning rate", **ticks},
        meta={"units": {"y": metric(evidence.duel.metric).unit}},
        yaxis={"title": {"text": metric(evidence.duel.metric).label}},
    )
    return figure, colours


def pairs(found: DuelOutcome) -> tuple[go.Figure, list[int], int]:
    """Return the paired differences with intervals and single seeds, the colours of the traces, and the height."""
    figure, colours, unit = go.Figure(), list[int](), found.unit
    shown = [each for each in found.found if each.found]
    names = [f"{as_label(each.first)}<br>- {as_label(each.second)}" for each in shown]
    figure.add_scatter(
        x=[value for each in shown for value in each.by_seed.values()],
        y=[name for name, each in zip(names, shown, strict=True) for _ in each.by_seed],
        customdata=[seed for each in shown for seed in each.by_seed],
        mode="markers",
        marker={"symbol": "circle-open", "size": 7},
        opacity=0.6,
        name="single seed",
        hovertemplate=f"seed %{{customdata}}: %{{x:+.3g}}{unit}<extra></extra>",
    )
    known = [(each.found.mean, each.found.low, each.found.high) for each in shown if each.found]
    figure.add_scatter(
        x=[mean for mean, _, _ in known],
        y=names,
        error_x={
            "type": "data",
            "array": [high - mean for mean, _, high in known],
            "arrayminus": [mean - low for mean, low, _ in known],
            "thickness": 2,
            "width": 6,
        },
        mode="markers",
        marker={"symbol": "diamond", "size": 10},
        name="mean, 95 % CI",
        hovertemplate=f"%{{x:+.3g}}{unit}<extra>mean</extra>",
    )
    colours += [_GREY, 0]
    margin, height = found.evidence.duel.margin, FRAME_PX + ROW_PX * max(2, len(shown))
    figure.add_vline(x=0, line={"width": 1.5, "color": _MARK})
    if margin:
        figure.add_vrect(x0=-margin, x1=margin, line_width=0, fillcolor="rgba(128,128,128,0.16)", layer="below")
    title = f"Difference in {metric(found.evidence.duel.metric).label.lower()}{f' ({unit.strip()})' if unit else ''}"
    figure.update_layout(
        height=height,
        hovermode="closest",
        showlegend=True,
        xaxis={"title": title},
        yaxis={"autorange": "reversed", "type": "category"},
    )
    return figure, colours, height


def _member(each: Tried, duel: Duel, against: str) -> RunPoints:
    """Return a run's tests within the budget; on the budget axis its last value is extended to the budget's end."""
    amount = duel.budget.amount
    kept: list[Spent] = sorted(
        (test for test in each.tests if test.spent <= amount * (1 + 1e-9)), key=lambda test: test.spent
    )
    own = against == duel.budget.kind
    x = [_scaled(duel, test.spent) if own else test.time_s for test in kept]
    y = [test.value for test in kept]
    if own and each.complete and kept and kept[-1].spent < amount:
        x, y = [*x, _scaled(duel, amount)], [*y, y[-1]]
    return member(np.asarray(x, dtype=float), np.asarray(y, dtype=float))


def _scaled(duel: Duel, spent: float) -> float:
    return spent / 1e6 if duel.budget.kind == "bytes" else spent
