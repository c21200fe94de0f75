"""The Curves tab of the Compare page: a chart per metric, of single runs or groups, over one x-axis."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.charts import curve_charts, curve_data, curve_points
from app.charts.curve_charts import GroupLine, curves_frame, extents, groups_frame
from app.charts.curve_points import (
    AXES,
    BYTES,
    CLOCKED,
    PLAIN,
    all_points,
    axes_of,
    axis_of,
    metric_of,
    recorded,
    usual_axis,
)
from app.compare import zoom as compare_zoom
from app.compare.groups import binned, explained, in_picture, lines_of, missing_bands
from app.compare.lines import Compared, pressed
from app.compare.session_state import change, key_of, one_of, several_of
from app.compare.tab_widgets import log_toggle, show_note, show_omitted, table_of
from app.links.compare import CompareView
from app.report import Chart, page_capture
from app.ui import components
from app.ui.html import as_text
from engine.analysis.comparability import unreliable
from engine.analysis.result import lower_first, ranking_metric, upper_first
from engine.analysis.run_values import curves_among, metric_among, metric_names, seed_word, setting_among
from engine.analysis.scaling.targets import choices, time_text, to_goal, usual_target, way
from engine.errors import counted
from engine.home import Home
from engine.metrics import depends_on_time, is_rate, metric
from engine.registry import experiment_title, known_experiment
from engine.store import Reader
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

FIRST = 4
"""Number of charts if no metric is selected."""


@dataclass(frozen=True)
class _Chart:
    """One metric as drawn: the picture, the runs in it, notes, and numbers."""

    picture: curve_charts.Picture
    runs: AbstractSet[int]
    sentence: str
    frame: Callable[[], pd.DataFrame]
    has_more: bool
    """Whether zooming reveals more points."""
    lines: Sequence[GroupLine] = ()
    log: str = ""
    """Its logarithmic axes."""
    unit: str = ""

    @property
    def is_smoothed(self) -> bool:
        return any("smoothed" in (trace.get("meta") or {}).get("as", "") for trace in self.picture.figure["data"])


def curves(
    reader: Reader, found: Compared, view: CompareView, above: DeltaGenerator
) -> tuple[CompareView, Mapping[str, list[str]]]:
    """Show a chart per metric, all over the same x-axis, with its controls `above`; return the view, and by group in
    which charts its line holds fewer runs than it has.
    """
    known = curve_names(found.runs)
    if not known:
        st.info("No curves recorded in these runs yet.")
        return view, {}
    with above.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        view = several_of(
            view, "metrics", "Metrics", known, lambda name: metric(name).label, placeholder="Default metrics", width=340
        )
        usual, shown = usual_axis(reader, found.runs), view.metrics or tuple(first_curves(found.runs))
        offered = list(dict.fromkeys([usual, *axes_of(reader, found.runs, shown, known)]))
        if view.x in {*AXES, BYTES, *map(axis_of, known)}:  # of a link: the charts say which run lacks it
            offered = list(dict.fromkeys([*offered, view.x]))
        view = _axes(view, offered)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):  # opening a group moves no table
        view = _smoothing(view, shown, grouped=bool(found.groups))
        applied = st.container(width="content")
    drawn = replace(view, x=view.x or usual)
    sentences = shared(found.runs, shown, drawn, offered)
    for sentence in sentences:
        st.caption(as_text(sentence))
    page_capture.words(sentences)
    charts = []
    with st.container(key="compare-charts"):
        for name in shown:
            with st.container():
                charts.append(_chart(reader, found, drawn, name))
    with applied:
        show_note(_applied(drawn, dict(zip(shown, charts, strict=True)), grouped=bool(found.groups)))
    if view.zoom:  # below the charts, which stay where they are when it appears
        st.button("Show the whole x-axis", on_click=change, args=({"zoom": ""},))
    show_note(" ".join(_of_all(found, drawn, charts)))
    if drawn.x == "time" or any(map(depends_on_time, (*shown, metric_of(drawn.x)))):
        show_note(unreliable(found.runs))
    page_capture.others(lambda: _other_metrics(found, drawn, [name for name in known if name not in shown]))
    fewer: dict[str, list[str]] = {}
    for name, chart in zip(shown, charts, strict=True):
        for line in chart.lines:
            if line.others:
                fewer.setdefault(line.name, []).append(f"{line.count} in {lower_first(metric(name).label)}")
    return view, fewer


def first_in_words(reader: Reader, groups: Mapping[str, Sequence[RunRow]], view: CompareView) -> str:
    """Return which group was first, along the chart's x-axis, at the hardest target that all reached, as a sentence;
    empty on other tabs, where there is none, and on an axis of time with disturbed runs that are not included.
    """
    runs = [run for own in groups.values() for run in own]
    axis, known = view.x or usual_axis(reader, runs), choices(runs)
    name = next((name for name in (*view.metrics, ranking_metric(runs), *known) if name in known), "")
    target = usual_target(runs, name) if name else None
    is_left_out = axis == "time" and not view.disturbed and any(run.disturbed for run in runs)
    if view.tab != "curves" or len(groups) < 2 or target is None or axis not in _COUNTS or is_left_out:
        return ""
    is_foreign = any(known_experiment(run.experiment) is None for run in runs)
    if is_foreign and (axis == "time" or len({run.experiment for run in runs}) > 1):
        return ""  # of other programs neither speed nor what a step is is known
    where = dict[int, tuple[float, float]]()
    for run_id, ranks in recorded(reader, runs, name).items():
        run = next(run for run in runs if run.id == run_id)
        x, y = all_points(reader, run, ranks[0], axis)
        places = np.flatnonzero((y >= target if way(name) == "max" else y <= target) & np.isfinite(x))
        if places.size:
            where[run_id] = (float(x[places[0]]),) * 2
    seeds = {group: {run.id: int(run.config.get(SEED, 0)) for run in own} for group, own in groups.items()}
    goal = to_goal(name, target, axis, seeds, where)
    means = {group: found.mean for group in groups if (found := goal.time(group))}
    if len(means) < len(groups):
        return ""
    first, last = goal.first(), goal.last()
    near, far = (_COUNTS[axis](means[group]) for group in (first, last))
    average = " on average" if len(runs) > len(groups) else ""
    if near == far:
        return f"All reached {goal.words} at the same place: after {near}{average}."
    if average and goal.reached[last].is_like(goal.reached[first]):
        return (
            f"No clear difference in where {goal.words} was reached: after {near} ({first}) to {far} ({last}){average}."
        )
    single = "" if average else f" These are single runs: other {seed_word(runs)}s may change the order."
    return f"First at {goal.words}{average}: {first}, after {near}; last: {last}, after {far}.{single}"


_COUNTS: Mapping[str, Callable[[float], str]] = {
    "passes": lambda value: f"{value:.3g} {'pass' if value == 1 else 'passes'}",
    "updates": lambda value: counted(round(value), "update"),
    "step": lambda value: counted(round(value), "step"),
    "time": time_text,
}
"""Places on the x-axes on which a target can be reached, in words."""


def _other_metrics(found: Compared, view: CompareView, names: Sequence[str]) -> Iterator[Chart]:
    """Yield the charts of metrics for the report."""
    with Reader.open(Home.find()) as reader:
        for name in names:
            chart = _drawn(reader, found, view, name)
            if chart.runs:
                figure = curve_charts.with_axes(chart.picture, name, view.x, chart.log, "", _titles(found), chart.unit)
                title = f"{metric(name).label} by {_axis_label(view.x).lower()}"
                colours = chart.picture.colours
                yield Chart(title, figure, chart.sentence, colours=colours, height=curve_charts.HEIGHT_PX)


def _drawn(reader: Reader, found: Compared, view: CompareView, name: str) -> _Chart:
    """Return a metric as drawn, with the logarithmic axes that it can have."""
    chart = _grouped(reader, found, view, name) if found.groups else _single(reader, found, view, name)
    unit = metric_among(name, found.runs).unit
    return replace(chart, log="".join(letter for letter in view.log if chart.picture.is_positive(letter)), unit=unit)


def _of_all(found: Compared, view: CompareView, charts: Sequence[_Chart]) -> Iterator[str]:
    """Yield the notes that hold for several charts."""
    if lines := [line for chart in charts for line in chart.lines]:
        yield explained(lines, view.stat, view.band)
        if missing := missing_bands(found.groups, view.band):
            yield missing
    if any(chart.has_more for chart in charts):
        yield "Zoom in to see more points."
    if any("y" in chart.log for chart in charts):
        yield "Values at or below 0 can't be shown on a log axis."


def curve_names(runs: Sequence[RunRow]) -> list[str]:
    """Return the metrics that have curves: the one chosen to rank the runs, then the most common; single values of
    other programs last.
    """
    known, drawn = [name for name in metric_names(runs) if metric(name).live], curves_among(runs)
    chosen = ranking_metric(runs)
    return sorted(known, key=lambda name: (name != chosen, name not in drawn, -sum(name in run.last for run in runs)))


def first_curves(runs: Sequence[RunRow]) -> list[str]:
    """Return the metrics of the charts if none is selected, at least one of each run: none that was switched off, and
    of other programs no rates, if they have others.
    """
    known = curve_names(runs)
    are_ours = any(known_experiment(run.experiment) for run in runs)
    shown = [name for name in known if (setting := setting_among(name, runs)) is None or setting.is_shown] or known
    shown = [name for name in shown if are_ours or not is_rate(name)] or shown
    found = shown[:FIRST]
    for run in runs:
        if not any(name in run.last for name in found):
            found += [name for name in shown if name in run.last][:1]
    return found


def shared(runs: Sequence[RunRow], metrics: Sequence[str], view: CompareView, offered: Sequence[str]) -> list[str]:
    """Return notes about runs that have little in common; `offered` are the x-axes that these runs have."""
    said = []
    kinds = sorted({experiment_title(run.experiment) for run in runs})
    if len(kinds) > 1 and view.x == "step":
        *some, last = [AXES[name].lower() for name in offered if name in AXES and name != "step"]
        others = f"{', '.join(some)} or {last}" if some else last
        if all(known_experiment(run.experiment) for run in runs):
            said.append(f"The ranks of {', '.join(kinds)} count steps of different work. Use {others} as x-axis.")
        else:  # another axis may be no better: one program may write all its points at its end
            said.append(f"The steps of {', '.join(kinds)} may count different work, such as batches of other sizes.")
    if view.x == "bytes":
        said.append(
            "Data exchanged counts vectors sent between ranks in both directions. Hogwild! and reference runs send "
            "none; runs older than this metric are omitted."
        )
    if len(runs) > 1 and not any(all(name in run.last for run in runs) for name in metrics):
        said.append("No metric here is recorded in all runs; each chart shows the runs that have it.")
    return said


def _chart(reader: Reader, found: Compared, view: CompareView, name: str) -> _Chart:
    """Show one metric with its notes and table."""
    known, along = metric(name), _axis_label(view.x).lower()
    chart = _drawn(reader, found, view, name)
    names = [line.name for line in chart.lines] or [found.names[run_id] for run_id in chart.runs]
    alone = f" · {as_text(names[0])}" if len(names) == 1 else ""  # a single line has no name at its end
    st.markdown(f"**{as_text(known.label)}**{alone}", help=known.help or None)
    if not chart.runs:
        st.info(f"No run has {known.label.lower()} by {along}. Choose another x-axis or metric.")
        return chart
    figure = curve_charts.with_axes(
        chart.picture,
        name,
        view.x,
        chart.log,
        f"{view.x} {chart.log}",
        titles=_titles(found),
        unit=chart.unit,
        zoom=view.zoom,
    )
    zoom = (
        compare_zoom.address(replace(view, zoom=None, runs=found.ids, filter="", newest=0, group=found.fields), name)
        if chart.has_more
        else ""
    )
    alt = f"{known.label} by {along}, {len(chart.runs)} {'run' if len(chart.runs) == 1 else 'runs'}"
    components.figure(
        f"compare-{name}",
        figure,
        alt=alt,
        height=curve_charts.HEIGHT_PX,
        colours=chart.picture.colours,
        zoom=zoom,
        says=_in_picture(found, view, chart),
        keeps_zoom=view.x in PLAIN or view.x in CLOCKED,
        on_press=pressed,
    )
    said = [chart.sentence]
    if "y" in view.log and "y" not in chart.log:
        said.append("No value is above 0: the y-axis is linear.")
    if gaps := sum(
        each.nonfinite for of_run in curve_points.recorded(reader, found.runs, name).values() for each in of_run
    ):
        said.append(
            f"{gaps:,} non-finite {'value' if gaps == 1 else 'values'} (NaN or infinite): shown as gaps, excluded "
            "from means."
        )
    if said := list(filter(None, said)):
        st.caption(as_text(" ".join(said)))
        page_capture.words(said)
    show_omitted(found, [run.id for run in found.runs if run.id not in chart.runs], f"{known.label} by {along}")
    table_of(name, chart.frame, f"{known.label} against {along}")
    return replace(chart, has_more=bool(zoom))


def _in_picture(found: Compared, view: CompareView, chart: _Chart) -> str:
    """Return what the lines of a chart are where it leaves the page, and whose a line is that has no legend."""
    if chart.lines:
        return in_picture({line.name: line.count for line in chart.lines}, found.groups, view.stat, view.band)  # type: ignore[arg-type]
    name = found.names[next(iter(chart.runs))] if len(chart.runs) == 1 else ""
    smoothing = f"smoothed by {view.smooth:g}; pale lines as recorded" if chart.is_smoothed else ""
    return ": ".join(filter(None, (name, smoothing))) if name else upper_first(smoothing)


def _single(reader: Reader, found: Compared, view: CompareView, name: str) -> _Chart:
    read = curve_data.curves(reader, found.runs, name, view.x)
    drawn = [curve for curve in read if curve.x.size]
    shown, total = sum(curve.y.size for curve in read), sum(curve.total for curve in read)
    thinned = f"Showing {shown:,} of {counted(total, 'point')}." if total > shown else ""
    picture = curve_charts.of_runs(drawn, found.names, found.looks, curve_points.weight(name, view.smoothing(name)))
    return _Chart(
        picture,
        {curve.run_id for curve in drawn},
        thinned,
        lambda: curves_frame(drawn, found.names, view.x),
        total > shown,
    )


def _grouped(reader: Reader, found: Compared, view: CompareView, name: str) -> _Chart:
    log = "x" in view.log
    every = lines_of(reader, found.groups, name, view.x, view.stat, view.band, log=log)  # type: ignore[arg-type]
    pairs = [(line, of_group) for line, of_group in zip(every, found.group_looks, strict=True) if line]
    lines = [line for line, _ in pairs]
    picture = curve_charts.of_groups(lines, [of_group for _, of_group in pairs], log="y" in view.log)
    return _Chart(
        picture,
        {run_id for line in lines for run_id in line.members},
        " ".join(filter(None, [binned(lines, log), *extents(lines)])),
        lambda: groups_frame(lines, view.x),
        any(not line.values.exact for line in lines),
        lines,
    )


def _applied(view: CompareView, charts: Mapping[str, _Chart], *, grouped: bool) -> str:
    """Return in how many charts the smoothing that is asked for has no effect, in a few words; empty if in none."""
    asked = [chart for name, chart in charts.items() if chart.runs and view.smoothing(name)]
    smoothed = [chart for chart in asked if chart.is_smoothed]
    if grouped or len(smoothed) == len(asked):
        return ""
    return (
        f"applied in {len(smoothed)} of {len(asked)} charts" if smoothed else "not applied: little noise or few points"
    )


def _axes(view: CompareView, offered: Sequence[str]) -> CompareView:
    usual, before = offered[0], view.x
    view = one_of(view, "x", "X-axis", ["", *offered[1:]], lambda name: _axis_label(name or usual), width=200)
    if view.x != before:
        view = replace(view, zoom=None)
    return log_toggle(log_toggle(view, "x", "Log x-axis"), "y", "Log y-axis")


def _smoothing(view: CompareView, shown: Sequence[str], *, grouped: bool) -> CompareView:
    if grouped:  # a disabled slider's label would be too faint to read
        st.caption(
            "Smoothing: not for groups.",
            help="The lines of groups are statistics over runs, of values as recorded. Remove the grouping to smooth.",
            width="content",
        )
        return view
    smooth = st.slider(
        "Smoothing",
        0.0,
        0.98,
        key=key_of("smooth", view.smooth),
        step=0.02,
        width=180,
        help="Exponential moving average for noisy curves with many points; the raw line stays visible. Short "
        "curves are smoothed less, sums and constants never.",
    )
    noisy = [name for name in shown if metric(name).smooth]
    if len(noisy) < 2 and not view.raw:
        return replace(view, smooth=smooth)
    return several_of(
        replace(view, smooth=smooth),
        "raw",
        "Not smoothed",
        noisy,
        lambda name: metric(name).label,
        placeholder="No metric",
        width=240,
        help="Metrics whose curves are shown as recorded, such as those of an evaluation.",
    )


def _titles(found: Compared) -> Mapping[str, str]:
    """Return the titles of x-axes that are true of all runs."""
    are_ours = all(known_experiment(run.experiment) for run in found.runs)
    return curve_charts.AXES if are_ours else curve_charts.FOREIGN_AXES


def _axis_label(name: str) -> str:
    known = metric(metric_of(name)).label
    return {**AXES, BYTES: "Data exchanged (MB)"}.get(name) or (
        known if metric_of(name) == name else f"{known} (metric)"
    )
