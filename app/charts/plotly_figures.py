"""Plotly figures from store data; pure functions, without colours of their own (the theme sets them)."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.core.formatting import gigabytes, moment
from engine.metrics import PHASES, metric
from engine.store.curve_records import MachineSample

PlainFigure = Mapping[str, Any]
"""A figure as {"data": [traces], "layout": {…}} with Plotly's names and numpy arrays: not validated by Plotly, and much
faster to create.
"""
FROM_ZERO = ("s", "ms", "samples/s", "env steps/s", "MB")
"""Units of ratio quantities, whose axis starts at 0."""
BAR_PX, FRAME_PX = 26, 84
MEMORY_PX = 300
LONGEST_TITLE = 60
MOST_SAMPLES = 600
"""Maximum number of samples per machine curve; longer curves are decimated."""
PATTERNS = ("", "/", "", "\\", "x", "", ".", "-", "+")
QUANTITIES = {
    "cpu_percent": ("CPU", "%"),
    "memory_percent": ("Memory", "%"),
    "memory_mb": ("Memory", "GB"),
    "gpu_percent": ("GPU", "%"),
    "cores": ("CPU of this run, others and the host", "cores"),
    "throttled_percent": ("Throttled by CPU limit", "%"),
    "memory_wait_percent": ("Waiting for memory", "%"),
    "page_faults": ("Major page faults", "faults/s"),
    "thermal_events": ("Slowed down by heat", "events/s"),
    "clock_mhz": ("GPU clock", "MHz"),
    "other_processes": ("Other processes on GPU", ""),
}
"""Title and unit of each sampled quantity."""
RARE = ("throttled_percent", "memory_wait_percent", "page_faults", "thermal_events", "other_processes")


def as_label(text: str) -> str:
    """Return a text for Plotly, which reads tags and a few entities; it shows `&quot;` as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def axis_title(text: str) -> str:
    """Return the title of an axis as Plotly reads it; of a long one the end, which tells metrics apart more often than
    the beginning.
    """
    return as_label(text if len(text) <= LONGEST_TITLE else f"…{text[1 - LONGEST_TITLE :]}")


def range_mode(name: str) -> str:
    """Return Plotly's `rangemode` of a metric's axis: times, rates and sizes begin at 0."""
    known = metric(name)
    return "tozero" if known.unit in FROM_ZERO else "normal" if known.bounds[0] < 0 else "nonnegative"


LEAST_POINTS = 5.0
"""Least height of an axis of accuracy, in percentage points."""


def least_range(label: str, figure: go.Figure) -> dict[str, Any]:
    """Return the range of a y-axis of test accuracies that are close together, so that a difference of a few test
    images is no drop; empty for others.
    """
    found = [value for trace in figure.data for value in trace.y or () if value is not None]
    if label != metric("test/accuracy").label or not found or max(found) - min(found) >= LEAST_POINTS:
        return {}
    low = min(max((min(found) + max(found) - LEAST_POINTS) / 2, 0.0), 100.0 - LEAST_POINTS)
    return {"range": [low, low + LEAST_POINTS]}


def plain(picture: go.Figure | PlainFigure) -> PlainFigure:
    """Return a figure as JSON data for plotly.js, without Plotly's default theme: arrays as bytes, like Plotly's own
    `to_plotly_json`.
    """
    if isinstance(picture, go.Figure):
        found: Mapping[str, Any] = picture.to_plotly_json()
        return {
            "data": list(found["data"]),
            "layout": {name: value for name, value in found["layout"].items() if name != "template"},
        }
    return {name: _packed(part) for name, part in picture.items()}


def _packed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _packed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(each) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "i":
        value = value.astype(np.int32 if not value.size or np.abs(value).max() < 2**31 else np.float64)
    if value.dtype.kind not in "if":
        return value.tolist()
    shape = {"shape": ", ".join(map(str, value.shape))} if value.ndim > 1 else {}
    return {"dtype": f"{value.dtype.kind}{value.dtype.itemsize}", "bdata": b64encode(value.tobytes()).decode(), **shape}


def shown(
    picture: go.Figure | PlainFigure,
    *,
    alt: str,
    height: int,
    colours: Sequence[int | Mapping[str, float]] = (),
    table: bool = False,
    says: str = "",
) -> dict[str, Any]:
    """Return a figure for figure.js; `colours` gives each trace its palette index, or a shade."""
    figure = plain(picture)
    if says:
        layout = figure["layout"]
        figure = {**figure, "layout": {**layout, "meta": {**(layout.get("meta") or {}), "says": says}}}
    return {"figure": figure, "alt": alt, "height": height, "colours": list(colours), "table": table}


def phases(seconds: Mapping[int, Mapping[str, float]], roles: Mapping[int, str]) -> PlainFigure:
    """Return one bar per rank, stacked by phase, in seconds, in the order of engine.metrics.PHASES."""
    ranks = sorted(seconds, reverse=True)
    named = [roles.get(rank, f"rank {rank}") for rank in ranks]
    whole = [sum(seconds[rank].values()) or 1.0 for rank in ranks]
    bars = []
    for name in phases_shown(seconds):
        spent = [seconds[rank].get(name, 0.0) for rank in ranks]
        shape = PATTERNS[PHASES.index(name) % len(PATTERNS)] if name in PHASES else ""
        bars.append(
            {
                "type": "bar",
                "y": named,
                "x": spent,
                "name": name,
                "orientation": "h",
                "marker": {"pattern": {"shape": shape, "fillmode": "replace"}},
                "customdata": [one / all_ * 100 for one, all_ in zip(spent, whole, strict=True)],
                "hovertemplate": f"{name}: %{{x:.3~r}} {{x unit}} (%{{customdata:.0f}} %)<extra>%{{y}}</extra>",
            }
        )
    layout = {"barmode": "stack", "bargap": 0.3, "hovermode": "closest", "legend": {"traceorder": "normal"}}
    return {
        "data": bars,
        "layout": layout
        | {
            "height": phases_height(len(ranks)),
            "xaxis": {"title": {"text": "Time"}},
            "meta": {"units": {"x": "s"}},
        },
    }


def phases_shown(seconds: Mapping[int, Mapping[str, float]]) -> list[str]:
    """Return the phases with recorded time, known ones first."""
    found = {name for spent in seconds.values() for name, value in spent.items() if value > 0}
    return [name for name in PHASES if name in found] + sorted(found - set(PHASES))


def phase_colours(names: Sequence[str]) -> list[int]:
    """Return each phase's palette index, the same for every run."""
    return [PHASES.index(name) if name in PHASES else len(PHASES) for name in names]


def phases_height(ranks: int) -> int:
    """Return the figure height for a number of bars, in pixels."""
    return FRAME_PX + BAR_PX * max(2, ranks) + 20


def memory(times_s: Sequence[float], sizes: Mapping[str, Sequence[float]]) -> PlainFigure:
    """Return a rank's memory over the moments of a step as stacked areas, by kind in MB; times count from the step's
    start.
    """
    areas = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": list(times_s),
            "y": list(each),
            "name": kind,
            "stackgroup": "memory",
            "line": {"shape": "hv", "width": 1},
            "hovertemplate": "%{y:.3~r} {y unit}<extra>%{fullData.name}</extra>",
        }
        for kind, each in sizes.items()
    ]
    layout = {
        "height": MEMORY_PX,
        "hovermode": "x unified",
        "showlegend": True,
        "meta": {"units": {"x": "s", "y": "MB"}},
        "xaxis": {"title": {"text": "Time since the step's start"}},
        "yaxis": {"title": {"text": "Memory"}, "rangemode": "tozero"},
    }
    return {"data": areas, "layout": layout}


def machine(samples: Sequence[MachineSample], start: str | None, name: str) -> PlainFigure:
    """Return one line per source (host, gpu0, …) of one machine quantity, against run time in seconds."""
    lines = []
    chosen = sorted(
        (sample for sample in samples if sample.name == name), key=lambda sample: (sample.source, sample.at)
    )
    begin = moment(start or min(sample.at for sample in chosen)) if chosen else None
    for place, (source, group) in enumerate(groupby(chosen, key=lambda sample: sample.source)):
        kept = list(group)
        kept = kept[:: 1 + len(kept) // MOST_SAMPLES]
        scale = gigabytes(1.0) if name == "memory_mb" else 1.0
        lines.append(
            {
                "type": "scatter",
                "x": [(moment(sample.at) - begin).total_seconds() for sample in kept if begin],
                "y": [sample.value * scale for sample in kept],
                "name": source,
                "mode": "lines" if len(kept) > 1 else "markers",
                "line": {"dash": look(place).dash},
                "hovertemplate": "%{y:.3~r} {y unit}<extra>%{fullData.name}</extra>",
            }
        )
    axes = {"xaxis": {"title": {"text": "Time"}}, "yaxis": {"rangemode": "tozero"}}
    units = {"x": "s", "y": QUANTITIES[name][1] if name in QUANTITIES else ""}
    return {
        "data": lines,
        "layout": {
            "height": 220,
            "hovermode": "x unified",
            "meta": {"value": machine_label(name), "units": units},
            "showlegend": len(lines) > 1,
            **axes,
        },
    }


def machine_names(samples: Sequence[MachineSample]) -> list[str]:
    """Return the sampled quantities, those with a title first; without those of `RARE` that were always 0."""
    found = {sample.name for sample in samples if sample.value or sample.name not in RARE}
    return [name for name in QUANTITIES if name in found and name != "memory_percent"] + sorted(found - set(QUANTITIES))


def machine_label(name: str) -> str:
    """Return the title of a machine quantity."""
    return QUANTITIES[name][0] if name in QUANTITIES else name.replace("_", " ")


# ------------------------------------------------------------------------------------------------------------------
# The style of each run in all charts of a page: a colour; where colours repeat, also a dash and a marker.

COLOURS = 8
"""Colours of the theme's palette (.streamlit/config.toml)."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
"""In the order of a run's live curves."""


@dataclass(frozen=True)
class Look:
    """A palette index, a dash and a marker; unique for up to 48 styles per page."""

    colour: int
    dash: str
    symbol: str


def look(place: int) -> Look:
    """Return the style for an index: colours repeat every eight indices, with the next dash and marker."""
    turn = place // COLOURS % len(DASHES)
    return Look(place % COLOURS, DASHES[turn], SYMBOLS[turn])


def looks(run_ids: Iterable[int], beside: Iterable[Look] = ()) -> dict[int, Look]:
    """Return the style of each run. The run id selects the colour, so that it is the same on most pages; if it is
    taken, also by a style `beside` them, the next free one is used.
    """
    taken = {look.colour for look in beside}
    found = {}
    for run_id in sorted(run_ids):
        turn = len(taken) // COLOURS * COLOURS
        place = next(place for step in range(COLOURS) if (place := turn + (run_id + step) % COLOURS) not in taken)
        taken.add(place)
        found[run_id] = look(place)
    return found
