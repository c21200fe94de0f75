"""The Gantt chart of one pipeline batch: one row per stage, one bar per action. Pure function, coloured by the
theme.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from app.core.formatting import size
from engine.analysis.pipeline import BatchSpans
from engine.recorder import Span

ROW_PX, FRAME_PX = 62, 104
WIDE_SPACE = "\u2007"
"""A space as wide as a digit, to give all labels the same width: Plotly then shows all of them or none."""
NARROW = 40
"""Number of splits up to which bars are outlined; with more splits, bars are too narrow for an outline."""


@dataclass(frozen=True)
class SpanStyle:
    """Style of the spans with one name; `offset` and `width` are in rows, relative to the centre of a stage's row."""

    label: str
    colour: int
    offset: float
    width: float
    pattern: str = ""
    numbered: bool = False


KINDS = {
    "forward": SpanStyle("forward", 0, -0.31, 0.62, numbered=True),
    "backward": SpanStyle("backward", 1, -0.31, 0.62, "/", numbered=True),
    "update": SpanStyle("update", 2, -0.31, 0.62, "x"),
    "receive": SpanStyle("receive (above)", 3, -0.43, 0.09),
    "send": SpanStyle("send (below)", 5, 0.34, 0.09),
}


def gantt(batch: BatchSpans, window_s: float | None = None) -> go.Figure:
    """Return the chart of a batch in milliseconds from its start, with stage1 at the top; `window_s` extends the axis
    beyond the batch.
    """
    figure = go.Figure()
    for name in kinds(batch):
        spans = [span for span in batch.spans if span.name == name]
        figure.add_bar(**_bars(batch, KINDS[name], spans))
    roles = [f"stage{stage + 1}" for stage in range(batch.stages)]
    rows = {
        "range": [batch.stages - 0.5, -0.5],
        "tickvals": list(range(batch.stages)),
        "ticktext": roles,
        "showgrid": False,
        "zeroline": False,
    }
    end = max(window_s or 0.0, batch.window_s) * 1e3
    figure.update_layout(
        barmode="overlay",
        hovermode="closest",
        height=gantt_height(batch.stages),
        uniformtext={"minsize": 9, "mode": "hide"},
        legend={"traceorder": "normal"},
        showlegend=True,
        xaxis={"title": {"text": "Time since batch start (ms)"}, "range": [0, end * 1.004], "zeroline": False},
        yaxis={**rows, "fixedrange": True},
    )
    return figure


def kinds(batch: BatchSpans) -> list[str]:
    """Return the span names in a batch, in trace order."""
    found = {span.name for span in batch.spans}
    return [name for name in KINDS if name in found]


def gantt_colours(batch: BatchSpans) -> list[int]:
    """Return the palette index of each trace."""
    return [KINDS[name].colour for name in kinds(batch)]


def gantt_height(stages: int) -> int:
    """Return the figure height for a number of stages, in pixels."""
    return FRAME_PX + ROW_PX * stages


def _bars(batch: BatchSpans, kind: SpanStyle, spans: Sequence[Span]) -> dict[str, Any]:
    """Return the bars of one kind. Work bars are outlined, optionally hatched, and numbered if the number fits."""
    marker: dict[str, Any] = {}
    digits, start_ns = len(str(batch.splits - 1)), batch.start_ns
    if kind.width > 0.5:
        marker = {"line": {"width": 1 if batch.splits <= NARROW else 0}}
        if kind.pattern:
            marker["pattern"] = {
                "shape": kind.pattern,
                "size": 8,
                "solidity": 0.2,
                "fgopacity": 0.4,
                "fillmode": "overlay",
            }
    return {
        "orientation": "h",
        "name": kind.label,
        "y": [span.stage for span in spans],
        "base": [(span.t0_ns - start_ns) / 1e6 for span in spans],
        "x": [(span.t1_ns - span.t0_ns) / 1e6 for span in spans],
        "width": kind.width,
        "offset": kind.offset,
        "marker": marker,
        "text": [str(_number(batch, span)).center(digits, WIDE_SPACE) if kind.numbered else "" for span in spans],
        "textposition": "inside" if kind.numbered else "none",
        "insidetextanchor": "middle",
        "textangle": 0,
        "customdata": [_hover(batch, span, start_ns) for span in spans],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _number(batch: BatchSpans, span: Span) -> int:
    """Return the micro-batch number of a span within its batch, starting from 0."""
    return span.micro_batch - batch.number * batch.splits


def _hover(batch: BatchSpans, span: Span, start_ns: int) -> str:
    number = _number(batch, span)
    what = f"{span.name} of micro-batch {number}" if span.name != "update" else span.name
    if span.name in ("send", "receive"):
        preposition = "to" if span.name == "send" else "from"
        what += (f" {preposition} {span.peer}" if span.peer else "") + f", {size(span.bytes)}"
    start, end = ((at - start_ns) / 1e6 for at in (span.t0_ns, span.t1_ns))
    return f"<b>stage{span.stage + 1}</b> {what}<br>{start:,.3f} to {end:,.3f} ms, {end - start:,.3f} ms"
