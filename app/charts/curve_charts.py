"""The curves of compared runs as a Plotly figure: single runs with a raw and a smoothed line, or groups with bands.
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.charts.curve_data import DrawnCurve
from app.charts.curve_points import is_noiseless, metric_of, smoothed
from app.charts.plotly_figures import Look, PlainFigure, as_label, axis_title, range_mode
from engine.analysis.statistics.groups import BandLine, counted
from engine.analysis.statistics.intervals import METHODS, Aligned, Floats
from engine.errors import amount
from engine.metrics import metric
from engine.store.records import RunRow

if TYPE_CHECKING:  # the console answers before it is needed
    import pandas as pd

HEIGHT_PX = 340
FEW = 60
"""Curves with at most this many points have markers; a chart of no others is not smoothed."""
FAINT, BAND, MEMBER = 0.28, 0.25, 0.3
"""Opacities of the raw line behind a smoothed one, of a band, and of a group's members."""
AXES = {
    "step": "Step (per rank)",
    "passes": "Passes over the training data (all ranks)",
    "updates": "Model updates",
    "bytes": "Data exchanged between ranks",
    "time": "Time since all ranks were ready",
}
FOREIGN_AXES = {**AXES, "step": "Step", "time": "Time since the start"}
"""Of runs of other programs, whose ranks are unknown."""
UNITS = {"bytes": "MB", "time": "s"}
NOTICEABLE = 0.02
"""Share of the x-axis from which a line that is shorter than its members is explained."""
MOST_NAMED = 6
"""Maximum number of runs or fields named in a note or chart."""
NUMBER = ",.5~r"
"""How numbers are written in hovers."""


@dataclass(frozen=True)
class GroupLine:
    """One group as drawn: its name, its runs with values, the values of all its runs, and its line."""

    name: str
    members: Sequence[int]
    """Ids in the order of `values.members`."""
    values: Aligned
    line: BandLine
    count: int
    """Number of members in the line."""
    extent: str = ""
    """Why the line is shorter than its members, as a sentence; empty if it is not."""

    @property
    def others(self) -> str:
        """Of how many runs of the group its members are, as ` of 3`; empty if all are in the line."""
        size = len(self.values.members)
        return f" of {size}" if self.count < size else ""


def group_line(
    name: str, runs: Sequence[RunRow], values: Aligned, line: BandLine, axis: str, *, log: bool = False
) -> GroupLine | None:
    """Return a group as drawn, of runs in row order; None if none has a value."""
    if not values.x.size:
        return None
    there, chosen = values.members, values.members & counted(runs)
    members = [run.id for run, is_there in zip(runs, there, strict=True) if is_there]
    extent = _extent(name, [run for run, is_in in zip(runs, chosen, strict=True) if is_in], values, chosen, axis, log)
    on = [str(run.id) for run, is_there, is_in in zip(runs, there, chosen, strict=True) if is_there and not is_in]
    if on:
        few = f"{', '.join(on[:MOST_NAMED])}{f' and {len(on) - MOST_NAMED} more' if len(on) > MOST_NAMED else ''}"
        extent += f" {name}: run{'s' * (len(on) > 1)} {few} will count when complete."
    return GroupLine(name, members, values, line, int(chosen.sum()), extent.strip())


def extents(groups: Sequence[GroupLine]) -> list[str]:
    """Return why lines are shorter than their members, for the first few."""
    said = [group.extent for group in groups if group.extent]
    more = len(said) - MOST_NAMED
    return said[:MOST_NAMED] + (
        [f"The same holds for {more} more {'group' if more == 1 else 'groups'}."] if more > 0 else []
    )


def _extent(name: str, runs: Sequence[RunRow], values: Aligned, chosen: NDArray[np.bool_], axis: str, log: bool) -> str:
    """Return where the line over several runs begins and ends if that leaves out a noticeable part of a run's curve."""
    if len(runs) < 2:
        return ""
    x, there = values.x, np.isfinite(values.values[chosen])
    firsts, lasts = there.argmax(axis=1), x.size - 1 - there[:, ::-1].argmax(axis=1)
    start, end = int(firsts.max()), int(lasts.min())
    several = f"{name}: of its {amount(str(len(runs)), 'runs')},"
    if not there.any(axis=1).all() or start > end:
        return f"{name}: no line, because its {amount(str(len(runs)), 'runs')} have no part of the x-axis in common."
    place = np.log(x) if log else x
    noticeable = NOTICEABLE * (place[-1] - place[0])
    said = []
    if place[start] - place[firsts.min()] > noticeable:
        said.append(f"from {_place(x[start], axis)}, where {_run(runs[int(firsts.argmax())])} begins")
    if place[lasts.max()] - place[end] > noticeable:
        said.append(f"to {_place(x[end], axis)}, where {_run(runs[int(lasts.argmin())])} ends")
    return f"{several} the line is drawn {', '.join(said)}." if said else ""


def _run(run: RunRow) -> str:
    return f"run {run.id} ({run.status})"


def _place(x: float, axis: str) -> str:
    unit = UNITS.get(axis) or (axis if axis in AXES else metric(metric_of(axis)).unit)
    return f"step {x:,.4g}" if axis == "step" else f"{x:,.4g} {unit}".strip()


class Picture:
    """A figure built line by line, with the palette index of each trace."""

    def __init__(self) -> None:
        self._data: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {}
        self.colours: list[int] = []

    @property
    def figure(self) -> PlainFigure:
        """The figure so far."""
        return {"data": self._data, "layout": self._layout}

    def add(self, colour: int, x: Floats, y: Floats, **trace: object) -> None:
        """Add one line trace."""
        self._data.append({"type": "scatter", **trace, "x": compact(x), "y": compact(y)})
        self.colours.append(colour)

    def is_positive(self, letter: str) -> bool:
        """Return whether any value along an axis is above 0, so that it can be logarithmic."""
        return any((np.asarray(trace[letter]) > 0).any() for trace in self._data)

    def lay_out(self, **layout: object) -> None:
        """Set layout properties by their Plotly names."""
        self._layout |= layout


def of_runs(
    curves: Sequence[DrawnCurve], names: Mapping[int, str], looks: Mapping[int, Look], smooth: float
) -> Picture:
    """Return single runs; the curves of a run's ranks share a style and a legend entry. All are smoothed, or none: that
    is where none is long and noisy.
    """
    picture = Picture()
    if all(curve.y.size <= FEW or is_noiseless(curve.y) for curve in curves):
        smooth = 0.0
    for run_id, of_run in groupby(curves, key=lambda curve: curve.run_id):
        name = as_label(names[run_id])
        for first, curve in enumerate(of_run):
            whole = name if curve.rank is None else f"{name}, rank {curve.rank}"
            _add(picture, curve, name, whole, looks[run_id], smooth, in_legend=first == 0)
    return picture


def of_groups(groups: Sequence[GroupLine], looks: Sequence[Look], *, log: bool = False) -> Picture:
    """Return groups, each as a band, its members, and its line. On a log axis, a band that reaches 0 ends at the
    smallest positive value.
    """
    picture = Picture()
    for group, look in zip(groups, looks, strict=True):
        x, line = group.values.x, group.line
        edge_x, edge_y = outline(x, above_zero(line.low, group.values.values) if log else line.low, line.high)
        if edge_x.size:
            band: dict[str, Any] = {"name": as_label(group.name), "meta": {"as": "band outline"}}
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
            name=f"{as_label(group.name)} (n={group.count}{group.others})",
            mode="lines+markers" if x.size <= FEW else "lines",
            line={"dash": look.dash, "width": 2.4},
            marker={"symbol": look.symbol, "size": 6},
            meta={"like_y": [1, 2], "press": f"show g{group.members[0]}"},
            hovertemplate=_hover(group),
        )
    return picture


def _hover(group: GroupLine) -> str | list[str]:
    """Return the hover text of a group's line, one per point where only some have a band."""
    line = group.line
    how = "min to max: " if (line.method == "range").any() else ""
    band = f" ({how}%{{customdata[1]:{NUMBER}}} to %{{customdata[2]:{NUMBER}}})"
    plain, full = (
        f"%{{y:{NUMBER}}} {{y unit}}{said}<extra>{as_label(group.name)} (n=%{{customdata[0]}}{group.others})</extra>"
        for said in ("", band)
    )
    there = np.isfinite(line.low) & np.isfinite(line.high)
    return full if there.all() else [full if each else plain for each in there] if there.any() else plain


def with_axes(
    picture: Picture,
    name: str,
    axis: str,
    log: str,
    revision: str,
    titles: Mapping[str, str] = AXES,
    unit: str | None = None,
    zoom: tuple[float, float] | None = None,
) -> PlainFigure:
    """Add axes to a picture; the zoom is kept while `revision` is unchanged. `unit` is that of the values where it is
    not the metric's usual one, `zoom` the range of the x-axis in sight.
    """
    known, along = metric(name), metric(metric_of(axis))
    unit = known.unit if unit is None else unit
    picture.lay_out(
        height=HEIGHT_PX,
        hovermode="x unified",
        showlegend=False,
        meta={"value": known.label, "units": {"x": UNITS.get(axis, along.unit), "y": unit}}
        | ({"zoom": [*zoom]} if zoom else {}),
        xaxis={
            "title": {"text": titles.get(axis) or axis_title(along.label), "standoff": 6},
            "type": "log" if "x" in log else "linear",
            **({"hoverformat": ",.4~r"} if axis == "passes" else {}),
        },
        yaxis={
            "type": "log" if "y" in log else "linear",
            "rangemode": range_mode(name),
            **({"title": {"text": axis_title(known.label)}} if unit else {}),
        },
        uirevision=revision,
    )
    return picture.figure


def compact(values: Floats) -> Any:
    """Return numbers in half the bytes where none changes: as int32 or float32."""
    finite = values[np.isfinite(values)]
    if not finite.size or np.abs(finite).max() > 2e9:
        return values
    if finite.size == values.size and (finite % 1 == 0).all():
        return values.astype(np.int32)
    half = values.astype(np.float32)
    return half if (half[np.isfinite(values)] == finite).all() else values


def above_zero(low: Floats, values: Floats) -> Floats:
    """Return the lower end of a band with non-positive values replaced by the smallest positive value, for a
    log axis.
    """
    positive = values[values > 0]
    return np.where(low > 0, low, positive.min()) if positive.size else low


def possible(found: BandLine, name: str) -> BandLine:
    """Return a line with its band clipped to the possible range of its metric, such as 0 to 100 %."""
    least, most = metric(name).bounds
    return replace(found, low=np.maximum(found.low, least), high=np.minimum(found.high, most))


def outline(x: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the outline of a band: a closed polygon for each segment without gaps, separated by NaN."""
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
    told: dict[str, Any] = {"hovertemplate": f"%{{y:{NUMBER}}} {{y unit}}<extra>{whole}</extra>"}
    of_rank = [] if curve.rank is None else [f"rank {curve.rank}"]
    base["meta"] = {"as": ", ".join(of_rank), "press": f"show {curve.run_id}"}
    few = curve.y.size <= FEW
    if not smooth:
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
    base["meta"] |= {"as": ", ".join([*of_rank, "smoothed"])}
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
    """Add all members of a group as one faint trace, with gaps between them; they go on where its line ends."""
    picture.add(
        look.colour,
        x=np.tile(np.append(group.values.x, np.nan), len(group.members)),
        y=np.concatenate([np.append(row, np.nan) for row in group.values.values[group.values.members]]),
        mode="lines",
        line={"width": 1},
        opacity=MEMBER,
        hoverinfo="skip",
        name=as_label(group.name),
        meta={"as": "single runs", "members": list(group.members)},
        showlegend=False,
    )


# ---- The data behind a chart of curves, as data frames -------------------------------------------------------------


def curves_frame(curves: Sequence[DrawnCurve], names: Mapping[int, str], axis: str) -> "pd.DataFrame":
    """Return the drawn points of single runs, one per row."""
    import pandas as pd

    parts = [
        pd.DataFrame(
            {
                "run": curve.run_id,
                "name": names[curve.run_id],
                "rank": "" if curve.rank is None else str(curve.rank),
                axis: curve.x,
                "value": curve.y,
            }
        )
        for curve in curves
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def groups_frame(groups: Sequence[GroupLine], axis: str) -> "pd.DataFrame":
    """Return the lines of groups, one position per row."""
    import pandas as pd

    parts = [
        pd.DataFrame(
            {
                "group": group.name,
                axis: group.values.x,
                "n": group.line.count,
                "value": group.line.centre,
                "low": group.line.low,
                "high": group.line.high,
                "band": [METHODS[each] for each in group.line.method],
            }
        )[group.line.count > 0]
        for group in groups
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
