"""Charts of a duel: curves within the budget with confidence bands, the learning-rate grid, paired differences.
Pure; the theme sets the colours.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from app.charts.curve_charts import GroupLine, Picture, group_line, of_groups, possible
from app.charts.number_charts import ResultBar, bars
from app.charts.plotly_figures import look
from engine.analysis.duel import Spent
from engine.analysis.statistics.groups import BandLine, counted, line
from engine.analysis.statistics.intervals import Interval, RunPoints, aligned, member
from engine.duel.evidence import DuelEvidence, Tried
from engine.duel.outcome import DuelOutcome
from engine.duel.spec import Duel
from engine.metrics import metric

CURVES_PX = 380
SECONDS = "seconds"
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


def tuning(found: DuelOutcome) -> tuple[go.Figure, list[int], int]:
    """Return each strategy's results per learning rate, the colours and the height: means over the tuning seeds, and
    single runs.
    """
    evidence, rows = found.evidence, list[ResultBar]()
    for place, (one, choice) in enumerate(zip(evidence.duel.strategies, found.tuned.choices, strict=True)):
        own = [(each.rate, each.run, each.value) for each in evidence.of("tuning", place)]
        for rate in evidence.duel.rates:
            selected = ", selected" if choice and rate == choice.rate else ""
            values = {run.id: value for at, run, value in own if at == rate and run and value is not None}
            if values:
                rows.append(ResultBar(f"{one.name}, {rate:g}{selected}", values, look(place)))
    return bars(rows, f"{evidence.duel.metric}.last", "mean", "none")


def pairs(found: DuelOutcome) -> tuple[go.Figure, list[int], int]:
    """Return the paired differences with intervals and single seeds, the colours of the traces, and the height."""
    duel, unit = found.evidence.duel, found.unit.strip()
    rows = [
        ResultBar(f"{each.first} - {each.second}", each.by_seed, look(0), "seed", _band(each.found))
        for each in found.found
        if each.found
    ]
    figure, colours, height = bars(rows, f"{duel.metric}.last", "mean", "ci")
    figure.add_vline(x=0, line={"width": 1.5, "color": _MARK})
    if margin := duel.margin:
        figure.add_vrect(x0=-margin, x1=margin, line_width=0, fillcolor="rgba(128,128,128,0.16)", layer="below")
    title = f"Difference in {metric(duel.metric).label.lower()}{f' ({unit})' if unit else ''}"
    figure.update_layout(xaxis_title_text=title, meta={"units": {"x": unit}})
    return figure, colours, height


def _band(found: Interval) -> BandLine:
    centre, low, high = (np.array([value]) for value in (found.mean, found.low, found.high))
    return BandLine(centre, low, high, np.array([found.count]), np.array([found.method], dtype=object))


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
