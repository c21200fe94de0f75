"""The curves of compared runs as a plotly figure: single runs with their raw line behind the smoothed one, or groups
with bands. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from app.charts.curve_data import DrawnCurve
from app.charts.line_styles import Look
from app.charts.plotly_figures import PlainFigure
from engine.analysis.statistics.bands import BandLine
from engine.analysis.statistics.resample import Aligned, Floats
from engine.metrics import metric

HEIGHT_PX = 340
FEW = 60
"""Up to so many points a curve has marks and is not smoothed."""
FAINT, BAND, MEMBER = 0.28, 0.25, 0.3
"""Opacities of a raw line behind its smoothed one, of a band, and of a group's single members."""
AXES = {
    "step": "Step of each rank",
    "passes": "Passes over the training data, by all ranks",
    "updates": "Updates of the model",
    "bytes": "MB exchanged between ranks, all together",
    "time": "Seconds since all ranks were ready",
}


@dataclass(frozen=True)
class GroupLine:
    """One group as it is drawn: its name, its members' ids in the order of the rows, their values, and its line."""

    name: str
    members: Sequence[int]
    values: Aligned
    line: BandLine


class Picture:
    """A plain figure that grows by lines, with the place in the palette of each trace."""

    def __init__(self) -> None:
        self._data: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {}
        self.colours: list[int] = []

    @property
    def figure(self) -> PlainFigure:
        """The figure so far."""
        return {"data": self._data, "layout": self._layout}

    def add(self, colour: int, x: Floats, y: Floats, **trace: object) -> None:
        """Add one trace of lines."""
        self._data.append({"type": "scatter", **trace, "x": compact(x), "y": compact(y)})
        self.colours.append(colour)

    def lay_out(self, **layout: object) -> None:
        """Set what the layout says, by names of plotly's."""
        self._layout |= layout


def of_runs(
    curves: Sequence[DrawnCurve], names: Mapping[int, str], looks: Mapping[int, Look], smooth: float
) -> Picture:
    """Return single runs; the curves of a run's ranks share its look and its entry in the legend."""
    picture = Picture()
    for run_id, of_run in groupby(curves, key=lambda curve: curve.run_id):
        name = escape(names[run_id])
        for first, curve in enumerate(of_run):
            whole = name if curve.rank is None else f"{name}, rank {curve.rank}"
            _add(picture, curve, name, whole, looks[run_id], smooth, in_legend=first == 0)
    return picture


def of_groups(groups: Sequence[GroupLine], looks: Sequence[Look], *, log: bool = False) -> Picture:
    """Return groups, each as a band, its members behind it, and its line; on a logarithmic axis a band that reaches 0
    ends at the least positive value.
    """
    picture = Picture()
    for group, look in zip(groups, looks, strict=True):
        x, line = group.values.x, group.line
        edge_x, edge_y = outline(x, above_zero(line.low, group.values.values) if log else line.low, line.high)
        if edge_x.size:
            band: dict[str, Any] = {"name": escape(group.name), "meta": {"as": "outline of the band"}}
            picture.add(
                look.colour,
                x=edge_x,
                y=edge_y,
                mode="lines",
                fill="toself",
                line={"width": 0},
                opacity=BAND,
                hoverinfo="skip",
                showlegend=False,
                **band,
            )
        if len(group.members) > 1:
            _add_members(picture, group, look)
        picture.add(
            look.colour,
            x=x,
            y=line.centre,
            customdata=np.stack([line.count, line.low, line.high], axis=1),
            name=f"{escape(group.name)} (n={len(group.members)})",
            mode="lines+markers" if x.size <= FEW else "lines",
            line={"dash": look.dash, "width": 2.4},
            marker={"symbol": look.symbol, "size": 6},
            hovertemplate=(
                f"%{{y:.5g}} of %{{customdata[0]}}<br>%{{customdata[1]:.5g}} to "
                f"%{{customdata[2]:.5g}}<extra>{escape(group.name)}</extra>"
            ),
        )
    return picture


def dress(picture: Picture, name: str, axis: str, log: str, revision: str) -> PlainFigure:
    """Give a picture its axes; a zoom is kept while `revision` stays the same."""
    known = metric(name)
    along = AXES.get(axis) or _titled(axis)
    picture.lay_out(
        height=HEIGHT_PX,
        hovermode="closest",
        showlegend=False,
        xaxis={"title": {"text": along, "standoff": 6}, "type": "log" if "x" in log else "linear"},
        yaxis={"title": {"text": known.unit}, "type": "log" if "y" in log else "linear"},
        uirevision=revision,
    )
    return picture.figure


def compact(values: Floats) -> Any:
    """Return numbers in half the bytes, as exact as a screen can show them: whole ones as integers, the rest with seven
    digits.
    """
    finite = values[np.isfinite(values)]
    if not finite.size or np.abs(finite).max() > 2e9:
        return values
    return (
        values.astype(np.int32) if finite.size == values.size and (finite % 1 == 0).all() else values.astype(np.float32)
    )


def weight(name: str, asked: float) -> float:
    """Return by how much (0 to 1) the curves of a metric are smoothed where so much is asked for."""
    return asked if metric(name).smooth else 0.0


def smoothed(values: Floats, weight: float) -> Floats:
    """Return the exponential moving average, corrected for its start, as smooth.js has it: within the values so far; a
    gap stays a gap.
    """
    found = np.empty(values.shape)
    mean, norm = np.nan, 0.0
    for place, value in enumerate(values.tolist()):
        if value != value:
            found[place] = np.nan
            continue
        norm = norm * weight + (1 - weight)
        mean = value if mean != mean else mean + (value - mean) * ((1 - weight) / norm)
        found[place] = mean
    return found


def is_monotone(values: Floats) -> bool:
    """Say whether a curve only rises, only falls, or never changes: it has no noise, and an average would lag behind
    it.
    """
    steps = np.diff(values[np.isfinite(values)])
    return bool((steps >= 0).all() or (steps <= 0).all())


def above_zero(low: Floats, values: Floats) -> Floats:
    """Return the lower end of a band with what a logarithmic axis can't show put at the least positive of the values
    (where there is one).
    """
    positive = values[values > 0]
    return np.where(low > 0, low, positive.min()) if positive.size else low


def possible(found: BandLine, name: str) -> BandLine:
    """Return a line with its band cut at the least and the greatest possible value of its metric: no accuracy is above
    100 %.
    """
    least, most = metric(name).bounds
    return replace(found, low=np.maximum(found.low, least), high=np.minimum(found.high, most))


def outline(x: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the way round a band: one closed shape for each stretch without a gap, apart by a NaN."""
    there = np.isfinite(low) & np.isfinite(high)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]])))
    xs, ys = list[Floats](), list[Floats]()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        xs += [x[start:end], x[start:end][::-1], np.array([np.nan])]
        ys += [low[start:end], high[start:end][::-1], np.array([np.nan])]
    return (np.concatenate(xs)[:-1], np.concatenate(ys)[:-1]) if xs else (np.empty(0), np.empty(0))


def _add(
    picture: Picture, curve: DrawnCurve, name: str, whole: str, look: Look, smooth: float, *, in_legend: bool
) -> None:
    base: dict[str, Any] = {"x": curve.x, "name": name, "legendgroup": name}
    told: dict[str, Any] = {"hovertemplate": f"%{{y:.5g}}<extra>{whole}</extra>"}
    of_rank = [] if curve.rank is None else [f"rank {curve.rank}"]
    base["meta"] = {"as": ", ".join(of_rank)}
    few = curve.y.size <= FEW
    if few or not smooth or is_monotone(curve.y):
        mark = {"symbol": look.symbol, "size": 6}
        line = {"dash": look.dash, "width": 2 if few else 1.4}
        picture.add(
            look.colour,
            **base,
            **told,
            y=curve.y,
            mode="lines+markers" if few else "lines",
            line=line,
            marker=mark,
            showlegend=in_legend,
        )
        return
    raw: dict[str, Any] = base | {"hoverinfo": "skip", "meta": {"as": ", ".join([*of_rank, "recorded"])}}
    base["meta"] = {"as": ", ".join([*of_rank, "smoothed"])}
    picture.add(look.colour, **raw, y=curve.y, mode="lines", line={"width": 1}, opacity=FAINT, showlegend=False)
    picture.add(
        look.colour,
        **base,
        **told,
        y=smoothed(curve.y, smooth),
        mode="lines",
        line={"dash": look.dash, "width": 2},
        showlegend=in_legend,
    )


def _add_members(picture: Picture, group: GroupLine, look: Look) -> None:
    """Add all members of a group as one faint trace, with gaps between them."""
    size = group.values.x.size
    picture.add(
        look.colour,
        x=np.tile(np.append(group.values.x, np.nan), len(group.members)),
        y=np.concatenate([np.append(row, np.nan) for row in group.values.values]),
        customdata=np.repeat(np.asarray(group.members), size + 1),
        mode="lines",
        line={"width": 1},
        opacity=MEMBER,
        hovertemplate="run %{customdata}: %{y:.5g}<extra></extra>",
        name=escape(group.name),
        meta={"as": "each run"},
        showlegend=False,
    )


def _titled(axis: str) -> str:
    known = metric(axis)
    return f"{known.label} ({known.unit})" if known.unit else known.label
