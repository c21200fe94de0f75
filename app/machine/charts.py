"""The load of the machine over the last hour, as figures. Pure functions; the theme sets the colours."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import plotly.graph_objects as go

from app.charts.line_styles import look
from app.core.formatting import moment
from engine.store.curve_records import MachineSample

HEIGHT_PX = 200
HOUR_MIN = 60
GAP_MIN = 0.5
"""Lines break where samples are further apart: no runner was running."""
SHOWN = {
    "cpu_percent": "CPU (%)",
    "host memory_mb": "Memory (GB)",
    "gpu_percent": "GPU (%)",
    "gpu memory_mb": "GPU memory (GB)",
}
"""The charts by metric; memory of host and GPUs is separate, since the scales differ."""


def kind_of(sample: MachineSample) -> str:
    """Return the chart that a sample belongs to."""
    if sample.name != "memory_mb":
        return sample.name
    return f"{'host' if sample.source == 'host' else 'gpu'} memory_mb"


def kinds(samples: Sequence[MachineSample]) -> list[str]:
    """Return the charts that there are samples for."""
    found = {kind_of(sample) for sample in samples}
    return [kind for kind in SHOWN if kind in found]


def hour(samples: Sequence[MachineSample], kind: str, now: datetime, most: float | None = None) -> go.Figure:
    """Return one line per source over the last hour; the y axis ends at `most`, if given."""
    figure = go.Figure()
    chosen = sorted(
        (sample for sample in samples if kind_of(sample) == kind), key=lambda sample: (sample.source, sample.at)
    )
    scale = 1 / 1024 if kind.endswith("memory_mb") else 1.0
    for place, (source, group) in enumerate(groupby(chosen, key=lambda sample: sample.source)):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for sample in group:
            minutes = (moment(sample.at) - now).total_seconds() / 60
            if xs and xs[-1] is not None and minutes - xs[-1] > GAP_MIN:
                xs, ys = [*xs, None], [*ys, None]
            xs.append(minutes)
            ys.append(sample.value * scale)
        figure.add_scatter(
            x=xs,
            y=ys,
            name=source,
            mode="lines" if len(xs) > 1 else "markers",
            line={"dash": look(place).dash},
            hovertemplate="%{y:.1f}<extra>%{fullData.name}</extra>",
        )
    ticks = list(range(-HOUR_MIN, 1, 15))
    figure.update_layout(
        height=HEIGHT_PX,
        xaxis={
            "range": [-HOUR_MIN, 0],
            "tickvals": ticks,
            "ticktext": [f"{-tick} min ago" if tick else "now" for tick in ticks],
        },
        yaxis={"range": [0, most]} if most else {"rangemode": "tozero"},
        showlegend=len(figure.data) > 1,
    )
    return figure
