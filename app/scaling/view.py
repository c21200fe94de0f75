"""The scaling view: chart, findings of the fitted laws, and tables."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from types import MappingProxyType

import plotly.graph_objects as go
import streamlit as st

from app.charts.plotly_figures import look
from app.charts.sweep_charts import add_disturbed, error_bars, scale
from app.charts.sweep_data import DisturbedPoint
from app.links import addresses
from app.report import page_capture
from app.scaling.breakdown import laws_table, nothing, sizes_table
from app.ui import components
from app.ui.html import as_text, nowrap, stacked, table
from app.ui.time_difference import EXPLAINED, with_interval
from engine.analysis.run_values import lower_title
from engine.analysis.scaling import speedup
from engine.analysis.scaling.findings import Fitted, fitted_laws, line_title, verdicts
from engine.analysis.scaling.laws import SCALABILITY, Fit, best_count
from engine.analysis.scaling.scaling_data import Study, TimedRun, at_once, words_of
from engine.analysis.scaling.speedup import REFERENCE, SpeedupPoint, sizes
from engine.analysis.statistics.intervals import Interval
from engine.store.records import RunRow


def scaling(found: Study, runs: Sequence[RunRow], key: str, *, goes_on: bool = False) -> None:
    """Show how the runs of a study scale; `key` makes chart keys unique. While their sweep `goes_on`, nothing is
    advised.
    """
    if not found.timings:
        nothing(found, "Points appear as runs finish.")
        return
    most = at_once(runs, found.field)
    lines = {line_title(found, line): sizes(found.of(line), most, found.statistic) for line in found.line_keys()}
    laws, refused = fitted_laws(found, goes_on=goes_on)
    has_reference = any(size.speed_up for each in lines.values() for size in each)
    usual = MEASURES[0] if has_reference else MEASURES[2]
    measure = (
        st.segmented_control(
            "Measure", MEASURES, required=True, wrap=True, **addresses.kept("measure", usual, MEASURES)
        )
        or usual
    )
    if measure in MEASURES[:2] and not has_reference:
        st.caption(
            as_text(
                f"{measure} needs a run at {lower_title(found.field)} 1. Throughput and execution time are available."
            )
        )
    else:
        few = {
            name: fits if len(lines) == 1 else [each for each in fits if each.law is SCALABILITY]
            for name, fits in laws.items()
        }
        plural, _ = words_of(found.field)
        apart: dict[str, list[TimedRun]] = {}
        for timing in found.disturbed:
            apart.setdefault(line_title(found, timing.line), []).append(timing)
        drawn, colours = picture(
            measure, lines, few, plural.capitalize(), found.unit, float(most) if most else None, apart
        )
        components.figure(
            f"scaling-{key}-{measure}", drawn, alt=f"{measure} by {plural}", height=HEIGHT_PX, colours=colours
        )
    said, cautions = verdicts(found, laws, lines), _cautions(found, lines, goes_on=goes_on)
    for sentence in said:
        st.markdown(as_text(sentence))
    for sentence in cautions:
        st.caption(as_text(sentence))
    page_capture.words([*said, *cautions, *refused])
    st.html(_sizes_table(found, lines))
    page_capture.table("By size", lambda: sizes_table(found, lines))
    if laws:
        page_capture.table("Fitted laws", lambda: laws_table(laws))
    if laws or refused:
        with st.expander("Fitted laws" if laws else "Why no law is fitted"):
            for sentence in refused:
                st.markdown(as_text(sentence))
            if laws:
                st.html(_laws_table(laws))


def _cautions(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]], *, goes_on: bool) -> list[str]:
    crowded = {size.count: size.crowded for each in lines.values() for size in each if size.crowded}
    said = [found.left_out] if found.left_out else []
    plural, singular = words_of(found.field)
    said += dict.fromkeys(filter(None, (speedup.opposite_in_words(each, plural, singular) for each in lines.values())))
    if crowded:
        which = ", ".join(f"{count} ({why})" for count, why in sorted(crowded.items()))
        said.append(f"Oversubscribed ({found.field} {which}): timings limited by this machine.")
    if all(size.runs == 1 for each in lines.values() for size in each):
        said.append(f"No intervals: every point is a single run.{'' if goes_on else ' Add seeds.'}")
    elif found.unit:
        said.append(
            f"{EXPLAINED[found.statistic]} Speed-up compares {found.unit} per second, seed by seed. With too few "
            f"common seeds it is a ratio of {found.statistic}s."
        )
    return said


def _laws_table(laws: Fitted) -> str:
    headers = ["Line", "Law", "Parameters with 95 % interval", "Best count", "Fit error"]
    rows = []
    for title, fits in laws.items():
        for known in fits:
            parameters = stacked(
                f"{each.name} {each.value:.3g} ({each.low:.2g} – {each.high:.2g})" for each in known.parameters
            )
            best = best_count(known) if known.law is SCALABILITY else None
            told = "–" if best is None else f"{best:.0f}" if isfinite(best) else "not found"
            rows.append([title or "measured", known.law.name, parameters, told, f"{known.error:.1%}"])
    return table(headers, rows, caption="Fitted laws")


def _sizes_table(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]]) -> str:
    headers = [
        *(["Line"] if len(lines) > 1 else []),
        found.field,
        "Runs",
        "Time (s)",
        f"{(found.unit or 'runs').capitalize()}/s",
        "Speed-up",
        "Efficiency",
        "",
    ]
    rows = [
        [
            *([nowrap(title)] if len(lines) > 1 else []),
            str(size.count),
            str(size.runs),
            *(with_interval(each) for each in (size.time_s, size.per_second, size.speed_up, size.efficiency)),
            nowrap(f"oversubscribed: {size.crowded}" if size.crowded else ""),
        ]
        for title, each_size in lines.items()
        for size in each_size
    ]
    return table(headers, rows, caption="Scaling by size")


# ------------------------------------------------------------------------------------------------------------------
# Scaling charts: time, throughput, speed-up and efficiency by count, with fitted laws; time to a target. Pure; the
# theme sets colours.

HEIGHT_PX = 420
MEASURES = ("Speed-up", "Efficiency", "Throughput", "Execution time")
_GREY = 7
_DASHES = {"Amdahl": "dot", "Gustafson": "dashdot", "Universal Scalability Law": "dash"}
LINEAR_TO = 16.0
"""Ratio of the largest count to the smallest up to which speed-up has linear axes; beyond, both are logarithmic. Either
way the ideal is a straight line.
"""
_TAKEN: Mapping[str, Callable[[SpeedupPoint], Interval | None]] = {
    "Speed-up": lambda size: size.speed_up,
    "Efficiency": lambda size: size.efficiency,
    "Throughput": lambda size: size.per_second,
    "Execution time": lambda size: size.time_s,
}


def title_of(measure: str, unit: str) -> str:
    """Return the axis title of a measure; `unit` is the unit of work, empty for whole runs."""
    units = {"Throughput": f"{unit or 'runs'}/s", "Efficiency": "ideal: 1", "Speed-up": "vs. 1"}
    return f"{measure} ({units[measure]})" if measure in units else measure


def picture(
    measure: str,
    lines: Mapping[str, Sequence[SpeedupPoint]],
    laws: Mapping[str, Sequence[Fit]],
    x_title: str,
    unit: str,
    most: float | None,
    disturbed: Mapping[str, Sequence[TimedRun]] = MappingProxyType({}),
) -> tuple[go.Figure, list[int]]:
    """Return the figure of one measure, and the palette index of each trace.

    Lines are by name; fitted laws are drawn over speed-up; `disturbed` runs, by line, are crosses apart. `most`
    is the maximum possible speed-up, such as the number of stages of a pipeline; None for the count itself.
    """
    drawn, colours = go.Figure(), list[int]()
    strays = [timing for of_line in disturbed.values() for timing in of_line]
    counts = sorted({size.count for sizes in lines.values() for size in sizes} | {each.count for each in strays})
    for colour, (name, of_line) in enumerate(lines.items()):
        _line(
            drawn,
            name or "measured",
            [(size, found) for size in of_line if (found := _TAKEN[measure](size))],
            look(colour).symbol,
        )
        for law in laws.get(name, ()) if measure == "Speed-up" else ():
            label = f"{name}, {law.law.name}" if name else law.law.name
            drawn.add_scatter(
                x=_dense(counts),
                y=[min(law.speed_up(count), most or inf) for count in _dense(counts)],
                name=label,
                mode="lines",
                line={"dash": _DASHES[law.law.name], "width": 1.5},
                hovertemplate=f"%{{y:.3g}}<extra>{label}</extra>",
            )
        colours += [colour] * (len(drawn.data) - len(colours))
    points = [
        DisturbedPoint(timing.count, value, timing.run_id, timing.disturbance or 0.0)
        for name, of_line in disturbed.items()
        for timing in of_line
        if (value := _disturbed_value(measure, timing, lines.get(name, ()))) is not None
    ]
    if any(size.crowded for sizes in lines.values() for size in sizes):
        drawn.add_scatter(
            x=[None], y=[None], name="oversubscribed", mode="markers", marker={"symbol": "circle-open", "size": 9}
        )
        colours.append(_GREY)
    if points:
        add_disturbed(drawn, points)
        colours.append(_GREY)
    if measure in ("Speed-up", "Efficiency") and counts:
        x, y = _ideal(measure, counts, most)
        drawn.add_scatter(
            x=x, y=y, name="ideal", mode="lines", line={"dash": "longdash", "width": 1.2}, hoverinfo="skip"
        )
        colours.append(_GREY)
    drawn.update_layout(
        height=HEIGHT_PX,
        xaxis={"title": x_title, **scale([float(count) for count in counts])},
        yaxis={"title": {"text": title_of(measure, unit)}, "rangemode": "tozero"},
        meta={"units": {"y": "s"}} if measure == "Execution time" else None,
        hovermode="closest",
        showlegend=True,
    )
    if measure == "Speed-up" and counts:
        is_linear = counts[-1] <= LINEAR_TO * counts[0]
        drawn.update_layout(
            xaxis=scale([float(count) for count in counts], "range" if is_linear else "log:")
            | {"tickvals": counts, "ticktext": list(map(str, counts))},
            yaxis={"type": "linear" if is_linear else "log"},
        )
    return drawn, colours


def _disturbed_value(measure: str, timing: TimedRun, sizes: Sequence[SpeedupPoint]) -> float | None:
    """Return the value of one disturbed run; None without a reference point."""
    if measure in ("Execution time", "Throughput"):
        return timing.execution_time_s if measure == "Execution time" else timing.per_second
    reference = next((size.per_second.mean for size in sizes if size.count == REFERENCE), None)
    if not reference:
        return None
    return timing.per_second / reference / (timing.count if measure == "Efficiency" else 1)


def _ideal(measure: str, counts: Sequence[int], most: float | None) -> tuple[list[float], list[float]]:
    """Return the ends of the ideal line, and its bend where the maximum speed-up is reached."""
    x = [float(counts[0]), *([most] if most and counts[0] < most < counts[-1] else []), float(counts[-1])]
    return x, [1.0 if measure == "Efficiency" else min(count, most or count) for count in x]


def _line(drawn: go.Figure, name: str, points: Sequence[tuple[SpeedupPoint, Interval]], symbol: str) -> None:
    """Add means with their 95 % intervals; oversubscribed sizes have hollow markers."""
    drawn.add_scatter(
        x=[size.count for size, _ in points],
        y=[found.mean for _, found in points],
        error_y=error_bars([found for _, found in points]),
        customdata=[[size.runs, size.crowded or "one core or GPU per rank"] for size, _ in points],
        name=name,
        mode="lines+markers",
        marker={"symbol": [f"{symbol}-open" if size.crowded else symbol for size, _ in points], "size": 9},
        hovertemplate=f"%{{y:,.4~r}} {{y unit}}, %{{customdata[0]}} runs, %{{customdata[1]}}<extra>{name}</extra>",
    )


def _dense(counts: Sequence[int]) -> list[float]:
    first, last = counts[0], counts[-1]
    return [first + (last - first) * place / 60 for place in range(61)]
