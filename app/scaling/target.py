"""Time to a target: the number of updates needed times the seconds per update, by count; charts, summary and table."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from app.charts.curve_points import UPDATES, clocks
from app.charts.plotly_figures import look
from app.charts.sweep_charts import error_bars, scale
from app.links import addresses
from app.report import page_capture
from app.scaling.breakdown import targets_table
from app.ui import components
from app.ui.html import as_text, nowrap, table
from app.ui.time_difference import EXPLAINED, with_interval
from engine.analysis.scaling.findings import line_title
from engine.analysis.scaling.scaling_data import Study, count_in_words, words_of
from engine.analysis.scaling.speedup import sizes
from engine.analysis.scaling.targets import (
    Goal,
    TargetReached,
    choices,
    split_in_words,
    to_goal,
    to_target,
    usual_target,
    way,
    words_of_target,
)
from engine.analysis.statistics.intervals import Interval, Statistic
from engine.analysis.update_clock import updates_at
from engine.metrics import metric
from engine.store import Reader
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

KEPT = 4_000
_updates: OrderedDict[tuple[str, int, int, float], float] = OrderedDict()
"""Updates by home, run, its version and a time; shared by sessions."""
When = Mapping[int, tuple[float, float]]


def to_a_target(found: Study, runs: Sequence[RunRow], reader: Reader, key: str) -> None:
    """Ask for a metric and a target, and show the time that each size needed to reach it; `key` makes chart keys
    unique.
    """
    names = choices(runs)
    if not names or not found.timings:
        return
    st.header("Time to a target", anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = (
            st.selectbox(
                "Metric",
                names,
                format_func=lambda name: metric(name).label,
                width=260,
                **addresses.kept("target-metric", names[0], names),
            )
            or names[0]
        )
        usual, key = usual_target(runs, name), f"target-{name}"
        target = st.number_input(
            "Target",
            format="%.4g",
            width=180,
            **({"key": key, "value": None} if usual is None else addresses.kept(key, usual)),
            help="Default: the hardest target that every run reached which learned anything.",
        )
    if target is None:
        return
    steps = reader.studies.reached([timing.run_id for timing in found.timings], name, float(target), way(name))
    when, unit = in_updates(runs, steps, reader)
    reached = sorted(
        to_target(found.timings, when, found.statistic),
        key=lambda each: ([str(value) for value in each.line], each.count),
    )
    _charts(found, reached, key, unit)
    sentences = []
    for line in found.line_keys():
        said = split_in_words([each for each in reached if each.line == line], words_of(found.field)[0], unit)
        said += _before_fastest(
            found, [each for each in reached if each.line == line], words_of_target(name, target), unit
        )
        if said:
            title = line_title(found, line)
            sentences.append(f"{title}: {said}" if title else said)
    for sentence in sentences:
        st.markdown(as_text(sentence))
    page_capture.words(sentences)
    st.html(_table(found, reached, unit))
    page_capture.table(f"Time until {metric(name).label.lower()} is {target:g}", targets_table(found, reached, unit))
    counted = (
        "Updates are model updates, over all ranks."
        if unit == "update"
        else "Steps are those of the rank that tests: updates are unknown for these runs."
    )
    intervals = f"{EXPLAINED[found.statistic]} " if any(each.reached > 1 for each in reached) else ""
    explained = (
        f"For each run time = {unit}s × seconds per {unit}; the columns are {found.statistic}s over runs. "
        f"{intervals}A configuration can be faster by needing fewer {unit}s, or less time for each. {counted}"
    )
    st.caption(explained)
    page_capture.words([explained])


def usual_goal(
    groups: Mapping[str, Sequence[RunRow]], runs: Sequence[RunRow], reader: Reader, statistic: Statistic
) -> Goal | None:
    """Return how groups reached the target that the section offers for all runs of the page; None without one."""
    name = next(iter(choices(runs)), "")
    target = usual_target(runs, name) if name else None
    if target is None:
        return None
    own = [run for each in groups.values() for run in each]
    when, unit = in_updates(own, reader.studies.reached([run.id for run in own], name, target, way(name)), reader)
    seeds = {title: {run.id: int(run.config.get(SEED, 0)) for run in each} for title, each in groups.items()}
    return to_goal(name, target, unit, seeds, when, statistic)


def in_updates(runs: Sequence[RunRow], steps: Mapping[int, tuple[int, float]], reader: Reader) -> tuple[When, str]:
    """Return updates and time (s) by run, and the word update; if updates are unknown for any run, the given steps, and
    the word step.
    """
    known = {run.id: run for run in runs}
    found = {run_id: (_updates_of(reader, known[run_id], time_s), time_s) for run_id, (_, time_s) in steps.items()}
    if all(isfinite(updates) and updates > 0 for updates, _ in found.values()):
        return found, "update"
    return {run_id: (float(step), time_s) for run_id, (step, time_s) in steps.items()}, "step"


def _updates_of(reader: Reader, run: RunRow, time_s: float) -> float:
    key = (str(reader.db.home.path), run.id, run.version, time_s)
    if key not in _updates:
        _updates[key] = float(updates_at(np.array([time_s]), clocks(reader, run, UPDATES))[0])
        while len(_updates) > KEPT:
            _updates.popitem(last=False)
    return _updates[key]


def _charts(found: Study, reached: Sequence[TargetReached], key: str, unit: str) -> None:
    """Show the two factors and their product, each by count."""
    if not any(each.reached for each in reached):
        st.write("No run reached this target. Choose an easier target.")
        return
    plural = words_of(found.field)[0].capitalize()
    lines = {
        line_title(found, line): [each for each in reached if each.line == line and each.reached]
        for line in found.line_keys()
    }
    for column, name in zip(st.columns(len(PARTS), gap="medium"), PARTS, strict=True):
        with column:
            figure, colours, title = part(name, lines, plural, unit)
            st.markdown(f"**{title}**")
            components.figure(
                f"target-{key}-{name}",
                figure,
                alt=f"{title} to the target by {plural.lower()}",
                height=HEIGHT_PX,
                colours=colours,
            )


def _before_fastest(found: Study, reached: Sequence[TargetReached], words: str, unit: str) -> str:
    """Return which size reached a target before the one of most work per second, as a sentence after another."""
    if not reached:
        return ""
    best = max(sizes(found.of(reached[0].line), statistic=found.statistic), key=lambda size: size.per_second.mean)
    named = {each.count: count_in_words(found.field, each.count) for each in reached}
    return Goal(words, unit, {named[each.count]: each for each in reached}).before(named.get(best.count, ""))


def _table(found: Study, reached: Sequence[TargetReached], unit: str) -> str:
    headers = [
        *(["Line"] if found.lines else []),
        found.field,
        "Reached by",
        f"{unit.capitalize()}s",
        f"Seconds per {unit}",
        "Time (s)",
    ]
    rows = [
        [
            *([nowrap(line_title(found, each.line))] if found.lines else []),
            str(each.count),
            f"{each.reached} of {each.runs}",
            *(with_interval(interval) for interval in (each.updates, each.update_s, each.time_s)),
        ]
        for each in reached
    ]
    return table(headers, rows, caption="Time to the target")


# ---- Charts of time to a target: its two factors and their product, each by count ----------------------------------
# Pure; the theme sets colours.

HEIGHT_PX = 300
PARTS: Mapping[str, Callable[[TargetReached], Interval | None]] = {
    "updates": lambda each: each.updates,
    "seconds": lambda each: each.update_s,
    "time": lambda each: each.time_s,
}


def part(
    name: str, lines: Mapping[str, Sequence[TargetReached]], x_title: str, unit: str
) -> tuple[go.Figure, list[int], str]:
    """Return the figure of one part, the palette index of each trace, and its title; `unit` is update or step."""
    figure, colours = go.Figure(), list[int]()
    for colour, (line, points_of_line) in enumerate(lines.items()):
        points = [(each, found) for each in points_of_line if (found := PARTS[name](each))]
        figure.add_scatter(
            x=[each.count for each, _ in points],
            y=[found.mean for _, found in points],
            error_y=error_bars([found for _, found in points]),
            customdata=[[each.reached, each.runs] for each, _ in points],
            name=line or "measured",
            mode="lines+markers",
            marker={"symbol": look(colour).symbol, "size": 8},
            hovertemplate=(
                f"%{{y:,.4~r}} {{y unit}}, %{{customdata[0]}} of %{{customdata[1]}} runs<extra>{line}</extra>"
            ),
        )
        colours.append(colour)
    counts = sorted({float(each.count) for sizes in lines.values() for each in sizes})
    layout = {"hovermode": "closest", "showlegend": len(lines) > 1, "yaxis": {"rangemode": "tozero", "nticks": 6}}
    unit_of_y = "" if name == "updates" else "s"
    figure.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": {"text": x_title, "standoff": 6}, **scale(counts)},
        meta={"units": {"y": unit_of_y}},
        **layout,
    )
    titles = {
        "updates": f"{unit.capitalize()}s needed",
        "seconds": f"× time per {unit}",
        "time": "= time",
    }
    return figure, colours, titles[name]
