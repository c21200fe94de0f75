"""Charts of single values of compared runs as Plotly figures: bars, scatter, parallel coordinates. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.curve_charts import NUMBER, possible
from app.charts.plotly_figures import FROM_ZERO, Look, as_label, axis_title
from engine.analysis.run_values import Value, label, split
from engine.analysis.statistics.groups import BandLine, Spread, line
from engine.analysis.statistics.intervals import METHODS, Statistic
from engine.config_values import value_in_words
from engine.metrics import metric

BAR_PX, FRAME_PX, SCATTER_PX, PARALLEL_PX = 30, 90, 420, 440
LINE = 46
"""Letters of a bar's name beyond which it has two lines, which leaves room for the bars on a phone."""
MOST_TICKS = 12
"""Maximum number of categories labelled on a parallel axis; with more, only the first and last are labelled."""


@dataclass(frozen=True)
class ResultBar:
    """One bar: a run, or a group with its members by id."""

    name: str
    values: Mapping[int, float]
    look: Look
    member: str = "run"
    """What its members are."""
    band: BandLine | None = None
    """Its statistic and band, where they are not those of its values."""

    def line(self, name: str, statistic: Statistic, spread: Spread) -> BandLine:
        """Return the statistic and band of its values of a metric, each a list of one."""
        own = self.band or line(np.array([[value] for value in self.values.values()]), statistic, spread)
        return own if self.band else possible(own, name)


@dataclass(frozen=True)
class Dot:
    """One run in a chart of several of its values."""

    run_id: int
    name: str
    values: Sequence[Value]
    look: Look
    share: float | None = None
    """Position of the colour value between the minimum and maximum, 0 to 1."""


def bars(
    found: Sequence[ResultBar], number: str, statistic: Statistic, spread: Spread, *, log: bool = False
) -> tuple[go.Figure, list[int], int]:
    """Return the chart, its colours and its height in pixels: a bar for each run or group where bars can start at 0,
    such as times; else a dot. A group has its statistic, its band, and a marker for each member.
    """
    figure, colours = go.Figure(), list[int]()
    known = metric((split(number) or ("",))[0])
    from_zero = known.unit in FROM_ZERO and not log
    for bar in found:
        of_group = bar.line(known.name, statistic, spread)
        centre, low, high = (float(part[0]) for part in (of_group.centre, of_group.low, of_group.high))
        words, several = as_label(bar.name), len(bar.values) > 1
        has_band = several and np.isfinite(low)
        error = {
            "type": "data",
            "array": [high - centre],
            "arrayminus": [centre - low],
            "symmetric": False,
            "thickness": 2,
            "width": 6,
        }
        how = "min to max: " if of_group.method[0] == "range" else ""
        said = f" ({how}%{{customdata[0]:{NUMBER}}} to %{{customdata[1]:{NUMBER}}})" if has_band else ""
        shared: dict[str, Any] = {
            "x": [centre],
            "y": [words],
            "customdata": [[low, high]] if has_band else None,
            "meta": {"like_x": [0, 1]} if has_band else None,
            "error_x": error if has_band else None,
            "name": words,
            "showlegend": False,
            "hovertemplate": f"%{{x:{NUMBER}}} {{x unit}}{said}<extra>{words}</extra>",
        }
        if from_zero:
            figure.add_bar(**shared, orientation="h", opacity=0.6, marker_line_width=1)
        else:
            figure.add_scatter(**shared, mode="markers", marker={"symbol": bar.look.symbol, "size": 11})
        colours.append(bar.look.colour)
        if several:
            x, ids = list(bar.values.values()), list(bar.values)
            figure.add_scatter(
                x=x,
                y=[words] * len(x),
                name=words,
                meta={"as": f"single {bar.member}s", "runs": bar.member == "run"},
                customdata=ids,
                mode="markers",
                opacity=0.7,
                marker={"symbol": f"{bar.look.symbol}-open", "size": 7},
                showlegend=False,
                hovertemplate=f"{bar.member} %{{customdata}}: %{{x:{NUMBER}}} {{x unit}}<extra>{words}</extra>",
            )
            colours.append(bar.look.colour)
    height = FRAME_PX + BAR_PX * max(2, len(found))
    order = {
        "autorange": "reversed",
        "type": "category",
        "categoryorder": "array",
        "categoryarray": [as_label(bar.name) for bar in found],
        "tickvals": [as_label(bar.name) for bar in found],
        "ticktext": [_on_two_lines(bar.name) for bar in found],
    }
    title = label(number).removesuffix(f" ({known.unit})")
    along = {"title": {"text": axis_title(title), "standoff": 6}, "type": "log" if log else "linear"}
    figure.update_layout(
        height=height,
        bargap=0.35,
        hovermode="closest",
        xaxis=along,
        yaxis=order,
        meta={"units": {"x": known.unit}},
        uirevision=f"{number} {log}",
    )
    return figure, colours, height


def bars_frame(found: Sequence[ResultBar], number: str, statistic: Statistic, spread: Spread) -> pd.DataFrame:
    """Return the bars of groups: statistic, band and number of runs of each."""
    name = (split(number) or ("",))[0]
    lines = [bar.line(name, statistic, spread) for bar in found]
    return pd.DataFrame(
        {
            "group": [bar.name.removesuffix(f" (n={len(bar.values)})") for bar in found],
            "n": [len(bar.values) for bar in found],
            statistic: [float(each.centre[0]) for each in lines],
            "low": [float(each.low[0]) for each in lines],
            "high": [float(each.high[0]) for each in lines],
            "band": [METHODS[each.method[0]] for each in lines],
        }
    )


def scatter(dots: Sequence[Dot], along: str, upwards: str, log: str) -> tuple[go.Figure, list[int]]:
    """Return a marker for each run at its x and y value, and each one's palette index."""
    figure = go.Figure()
    for dot in dots:
        x, y = (_shown(value) for value in dot.values)
        marker = {"symbol": dot.look.symbol, "size": 11, "line": {"width": 1}}
        hover = f"%{{y}} at %{{x}}<extra>{as_label(dot.name)}</extra>"
        figure.add_scatter(x=[x], y=[y], name=as_label(dot.name), mode="markers", marker=marker, hovertemplate=hover)
    axes = [
        _axis(name, [dot.values[at] for dot in dots], letter in log)
        for at, (name, letter) in enumerate(((along, "x"), (upwards, "y")))
    ]
    figure.update_layout(
        height=SCATTER_PX,
        hovermode="closest",
        showlegend=False,
        xaxis=axes[0],
        yaxis=axes[1],
        uirevision=f"{along} {upwards} {log}",
    )
    return figure, [dot.look.colour for dot in dots]


def parallel(dots: Sequence[Dot], names: Sequence[str]) -> tuple[go.Figure, list[dict[str, float]]]:
    """Return a line for each run across one vertical axis per name, and each line's shade, which increases with the
    value of the last name.
    """
    figure, notes = go.Figure(), list[dict[str, Any]]()
    heights = []
    for at in range(len(names)):
        places, ticks = scale([dot.values[at] for dot in dots])
        heights.append(places)
        notes += [_note(at, height, as_label(text)) for height, text in ticks]
    for place, dot in enumerate(dots):
        said = "<br>".join(
            f"{as_label(label(name))}: {as_label(words(value))}" for name, value in zip(names, dot.values, strict=True)
        )
        y = [column[place] for column in heights]
        mark = {"symbol": dot.look.symbol, "size": 7}
        hover = f"{said}<extra>{as_label(dot.name)}</extra>"
        figure.add_scatter(
            x=list(range(len(names))),
            y=y,
            mode="lines+markers",
            line_width=2,
            marker=mark,
            hovertemplate=hover,
            name=as_label(dot.name),
        )
    lines = [
        {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "line": {"width": 1, "color": "gray"}, "layer": "below"}
        for at in range(len(names))
    ]
    heads = [_wrapped(label(name)) for name in names]
    across = {
        "tickvals": list(range(len(names))),
        "ticktext": heads,
        "side": "top",
        "range": [-0.3, len(names) - 0.55],
        "showgrid": False,
        "zeroline": False,
    }
    up = {"visible": False, "range": [-0.06, 1.06]}
    figure.update_layout(
        height=PARALLEL_PX,
        showlegend=False,
        hovermode="closest",
        annotations=notes,
        shapes=lines,
        xaxis=across,
        yaxis=up,
    )
    figure.update_layout(uirevision=" ".join(names), margin={"l": 16, "r": 16, "t": 60, "b": 10})
    return figure, [{"share": 0.5 if dot.share is None else dot.share} for dot in dots]


def shares(values: Sequence[float | None]) -> list[float | None]:
    """Return the position of each number between the minimum and maximum, 0 to 1; None for missing ones."""
    there = [value for value in values if value is not None]
    low, high = (min(there), max(there)) if there else (0.0, 0.0)
    return [None if value is None else (value - low) / (high - low) if high > low else 0.5 for value in values]


def scale(values: Sequence[Value]) -> tuple[list[float | None], list[tuple[float, str]]]:
    """Return the position of each value on an axis from 0 to 1 (None if missing), and the axis ticks.

    Numbers are placed proportionally (a few distinct ones are all labelled), other values in alphabetical order.
    """
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        heights = shares([None if value is None else float(value) for value in values])
        distinct = sorted({float(value) for value in there})
        written = distinct if len(distinct) <= 5 else [distinct[0], distinct[-1]]
        places = dict(zip(values, heights, strict=True))
        return heights, [(places[value] or 0.0, f"{value:.4g}") for value in written]
    known = sorted({words(value) for value in there})
    found = {text: place / (len(known) - 1) if len(known) > 1 else 0.5 for place, text in enumerate(known)}
    shown = known if len(known) <= MOST_TICKS else [known[0], known[-1]]
    return [None if value is None else found[words(value)] for value in values], [(found[text], text) for text in shown]


def words(value: Value) -> str:
    """Return a value as shown in a chart."""
    return f"{value:.5g}" if isinstance(value, float) else value_in_words(value)


def _shown(value: Value) -> float | str | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else words(value)


def _axis(name: str, values: Sequence[Value], log: bool) -> dict[str, Any]:
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    kind = ("log" if log else "linear") if numeric else "category"
    return {"title": {"text": axis_title(label(name)), "standoff": 6}, "type": kind}


def _note(at: int, height: float, text: str) -> dict[str, Any]:
    return {
        "x": at,
        "y": height,
        "text": text,
        "showarrow": False,
        "xanchor": "left",
        "xshift": 7,
        "yshift": 9,
        "font": {"size": 11},
    }


def _on_two_lines(name: str) -> str:
    """Return the name of a bar, a long one on two lines: divided at the comma or minus sign nearest to its middle."""
    gaps = [
        at
        for at, letter in enumerate(name)
        if letter == " " and (name[:at].endswith(",") or name[at : at + 3] == " - ")
    ]
    if len(name) <= LINE or not gaps:
        return as_label(name)
    middle = min(gaps, key=lambda at: abs(2 * at - len(name)))
    return f"{as_label(name[:middle])}<br>{as_label(name[middle + 1 :])}"


def _wrapped(text: str) -> str:
    """Return a heading on at most two lines."""
    first, comma, rest = text.rpartition(", ")
    return f"{axis_title(first)}<br>{as_label(rest)}" if comma else axis_title(text)
