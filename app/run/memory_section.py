"""The memory section of a run page: each rank's memory by kind over the moments of the last measured step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from app.charts import plotly_figures
from app.ui import components
from app.ui.html import as_text, number, table
from engine.errors import counted
from engine.metrics import metric
from engine.store import Reader
from engine.store.records import Run

STATE = "perf/memory_state"
KINDS = ("parameters", "gradients", "optimizer", "activations", "buffers")
MOST_MOMENTS = 2_000
"""Points of a step that are read at most; a block has about eight."""
MOST_FIGURES = 4


@dataclass(frozen=True)
class StepMemory:
    """One rank's memory in its last measured step, in MB by kind, one value for each moment."""

    role: str
    step: int
    times_s: Sequence[float]
    """From the first moment."""
    sizes: Mapping[str, Sequence[float]]
    state: float
    """Peak of parameters, gradients and optimizer state together."""

    @property
    def whole(self) -> float:
        """Peak of all kinds together."""
        return max(map(sum, zip(*self.sizes.values(), strict=True)))


def memory(run: Run, reader: Reader) -> None:
    """Show the peaks of all ranks as a table, and the first ranks' moments as stacked areas."""
    found = step_memories(run, reader)
    if not found:
        st.write("Appears after the first measured step." if run.active else "The run ended before a measured step.")
        return
    steps = " and ".join(sorted({f"{each.step:,}" for each in found}))
    st.markdown(f"Step {steps}, the last one measured. Each size is a peak within that step.")
    st.html(
        table(
            ["Rank", *(_title(kind) for kind in KINDS), "State (MB)", "All (MB)"],
            [
                [each.role, *(number(max(each.sizes[kind])) for kind in KINDS), number(each.state), number(each.whole)]
                for each in found
            ],
            caption="Peak memory by rank; state: parameters, gradients and optimizer state together",
        )
    )
    columns = st.columns(2 if len(found) > 1 else 1, gap="large")
    for place, each in enumerate(found[:MOST_FIGURES]):
        with columns[place % len(columns)]:
            st.markdown(f"**{as_text(each.role)}**")
            components.figure(
                f"memory-{run.id}-{each.role}",
                plotly_figures.memory(each.times_s, each.sizes),
                alt=f"Memory of {each.role} by kind over the moments of step {each.step}, in MB",
                height=plotly_figures.MEMORY_PX,
                colours=range(len(KINDS)),
                table=True,
            )
    if len(found) > MOST_FIGURES:
        st.caption(f"Figures of the first {MOST_FIGURES} of {counted(len(found), 'rank')}.")


def step_memories(run: Run, reader: Reader) -> list[StepMemory]:
    """Return for each rank its last complete measured step, if there is one."""
    recorded: dict[str, dict[str, int]] = {}
    for each in reader.points.recordings(run.id, [STATE, *map(_metric, KINDS)]):
        recorded.setdefault(each.role, {})[each.metric] = each.id
    return [
        found
        for role, ids in recorded.items()
        if len(ids) == len(KINDS) + 1 and (found := _step_memory(role, ids, reader))
    ]


def _step_memory(role: str, ids: Mapping[str, int], reader: Reader) -> StepMemory | None:
    peaks = reader.points.latest(ids[STATE], 1)  # recorded after the step's last moment
    if not peaks:
        return None
    step = peaks[0].step
    points = {
        kind: [point for point in reader.points.latest(ids[_metric(kind)], MOST_MOMENTS) if point.step == step]
        for kind in KINDS
    }
    count = min(map(len, points.values()))
    if not count:
        return None
    times = [point.time_s for point in points[KINDS[0]][:count]]
    return StepMemory(
        role,
        step,
        [time - times[0] for time in times],
        {kind: [point.value for point in each[:count]] for kind, each in points.items()},
        peaks[0].value,
    )


def _metric(kind: str) -> str:
    return f"perf/memory_{kind}"


def _title(kind: str) -> str:
    return metric(_metric(kind)).heading.removeprefix("Memory: ").capitalize().replace("(mb)", "(MB)")
