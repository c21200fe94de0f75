"""One published figure as a card and on its own page: chart, published values beside ours, missing runs, and launch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import plotly.graph_objects as go
import streamlit as st

from app.actions import submit
from app.actions.sweep_forecast import in_a_line
from app.charts.plotly_figures import FROM_ZERO, look
from app.charts.sweep_charts import measured, scale
from app.core.formatting import absolute
from app.export.rerun_commands import figure_again
from app.export.view_report import here, view_downloads
from app.links import addresses
from app.report import page_capture
from app.ui import components, current_user, widgets
from app.ui.config_form import label_of
from app.ui.html import as_text, joined, labelled, nowrap, number, sweep_link, table, wide
from app.ui.run_state import NO_RUN
from app.ui.store_access import reading
from engine.analysis.statistics.groups import Group, grouped
from engine.analysis.statistics.intervals import LIMIT, mean_interval
from engine.errors import EngineError, counted
from engine.metrics import metric
from engine.published import EXECUTION, PASSES, WHOLE, Figure, Size, figure
from engine.published.comparison import (
    MEAN_COLUMNS,
    ComparedValue,
    FigureComparison,
    FigureReading,
    Result,
    best_comparison,
    compare,
    mean_cells,
    size_of,
    sweeps_of,
    values_table,
)
from engine.registry import experiment
from engine.store import Sweep
from engine.sweep.plan import plan
from engine.transfer.tables import Table

# ---- The chart and tables of a published figure --------------------------------------------------------------------
# published and measured values. Pure; the theme sets the colours.

HEIGHT_PX, CARD_PX = 360, 230
NOTHING = "Published without numbers, not measured yet"
_PUBLISHED = 7
"""Palette index of the published series: grey, which no measured line uses."""


def picture(
    figure: Figure, readings: Sequence[FigureReading], name: str, *, height: int = HEIGHT_PX
) -> tuple[go.Figure, list[int]]:
    """Return the chart of one metric, and the palette index of each trace; empty axes where there are no values yet."""
    drawn, colours = go.Figure(), list[int]()
    groups = groups_of(figure, readings)
    for colour, line in enumerate(dict.fromkeys(group.key[1] for group in groups)):
        own = [group for group in groups if group.key[1] == line]
        measured(drawn, own, str(line) or "measured", look(colour).symbol, numeric=True, scattered=False)
        colours += [colour] * (len(drawn.data) - len(colours))
    theirs = {each.x: each.value for each in figure.published if each.metric == name == figure.metric}
    if theirs:
        drawn.add_scatter(
            x=list(theirs),
            y=list(theirs.values()),
            name=figure.published_label,
            mode="lines+markers",
            marker={"symbol": "star", "size": 11},
            line={"dash": "dash", "width": 1.6},
            hovertemplate=f"%{{y:,.4~r}} {{y unit}}<extra>{figure.published_label}</extra>",
        )
        colours.append(_PUBLISHED)
    if not drawn.data:
        drawn.add_annotation(text=NOTHING, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    xs = {*map(_x, groups), *theirs} or {x for each in figure.versions.values() for x in each.grid.get(figure.axis, ())}
    drawn.update_layout(
        height=height,
        xaxis={"title": x_title(figure), **(scale(sorted(map(float, xs))) if xs else {})},
        yaxis={
            "title": {"text": metric(name).label},
            "rangemode": "tozero" if metric(name).unit in FROM_ZERO else "normal",
            "showticklabels": bool(drawn.data),
        },
        meta={"units": {"y": metric(name).unit}},
        hovermode="closest",
        showlegend=bool(drawn.data),
    )
    return drawn, colours


def x_title(figure: Figure) -> str:
    """Return the title of a figure's x-axis."""
    if figure.axis == PASSES:
        return "Passes over the training data (all ranks)"
    return label_of(figure.axis, experiment(figure.experiment).config.model_fields[figure.axis])


def groups_of(figure: Figure, readings: Sequence[FigureReading]) -> list[Group]:
    """Return one group per point, keyed by x and line; over passes, only points that every run has reached."""
    groups = grouped(
        ((found.x, found.line), found.run_id, found.value)
        for found in sorted(readings, key=lambda found: (found.line, found.x))
    )
    runs = len({found.run_id for found in readings})
    return [group for group in groups if figure.axis != PASSES or len(group.values) == runs]


def points(figure: Figure, readings: Sequence[FigureReading]) -> Table:
    """Return our mean at each point of the chart."""
    rows = [
        [*([str(group.key[1])] if figure.line else []), _x(group), *mean_cells(mean_interval([*group.values.values()]))]
        for group in groups_of(figure, readings)
    ]
    return Table((*([figure.line] if figure.line else []), figure.axis, *MEAN_COLUMNS), rows)


def as_table(found: Table, caption: str) -> str:
    """Return a table as HTML."""
    shapes: dict[str, Callable[[str], str]] = {"Result": nowrap, "Reason": wide}
    rows = [
        [
            shapes.get(column, str)(cell) if isinstance(cell, str) else number(cell, 5)
            for column, cell in zip(found.columns, row, strict=True)
        ]
        for row in found.rows
    ]
    return table(found.columns, rows, caption=caption)


def _x(group: Group) -> float:
    return float(group.key[0])  # type: ignore[arg-type]


# ---- One published figure as a card and on its own page ------------------------------------------------------------
# chart, published values beside ours, missing runs, and launch.

EVERY_MS = 2_000
COLOURS: dict[Result, Literal["green", "red", "blue", "gray"]] = {
    "inside": "green",
    "outside": "red",
    "set-up assumed": "blue",
    "not comparable": "gray",
}
MEASURED = "Measured in"
STARTUP = "Show execution time only. The published timings include start-up."
ALONE = "Published times include start-up, so they are hidden here."
EXPLAINED = f"Inside: the published value lies in the 95 % confidence interval of our mean over seeds. {LIMIT}"


@addresses.fragment
def card(name: str) -> None:
    """Show one figure with one button, the details folded; redraw whenever its active sweep changes."""
    found = figure(name)
    with reading() as reader, reader.db.snapshot():
        sweeps = sweeps_of(reader, found)
        newest = next((sweep for sweep in sweeps if sweep.active), sweeps[0] if sweeps else None)
        token = reader.sweeps.token(newest.id) if newest else 0
        ours = best_comparison(reader, found) or (compare(reader, found, newest) if newest else None)
    st.header(as_text(found.title), anchor=found.name.replace("_", "-"))
    with st.container(horizontal=True, gap="small"):
        _badges(ours, sweeps)
    _chart(found, ours, found.metric, f"card-{name}", CARD_PX)
    st.text(f"Published: {found.claim}")
    if not ours:
        _launch_button(found, "reduced", primary=True, reductions=False)
    elif st.button("View results", key=f"view-{name}"):
        widgets.go_to_figure(name)
    with st.expander("Details"):
        _provenance(found, ours)
        if not ours:
            _launch_button(found, "full")
    if newest:
        components.pulse(token, sweep_id=newest.id, active=newest.active, every_ms=EVERY_MS)


@addresses.fragment
def section(name: str) -> None:
    """Show one figure on its page; redraw whenever its sweep changes."""
    found = figure(name)
    with reading() as reader, reader.db.snapshot():
        sweeps = sweeps_of(reader, found)
        top = st.container()
        sweep = _chosen(found, sweeps)
        token = reader.sweeps.token(sweep.id) if sweep else 0
        ours = compare(reader, found, sweep) if sweep else None
        runs = reader.sweeps.runs(sweep.id) if sweep else []
    with top:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.title(as_text(found.title), anchor=False, width="content")
            _badges(ours, [sweep] if sweep else [])
            downloads = st.container(width="content")
        st.text(f"Published: {found.claim}")
    with page_capture.keeping() as shown:
        results = [("Result", ours.summary)] if ours else []
        page_capture.facts("Figure", [*results, ("Published", found.claim), *_facts(found, ours)])
        left, right = st.columns([5, 3], gap="large")
        with left:
            readings = _picture(found, ours)
        with right:
            sentences = [*ours.obstacles[:3], *ours.missing] if ours else []
            for sentence in sentences:
                st.warning(as_text(sentence))
            page_capture.words(sentences)
            _launch_button(found, "reduced", primary=ours is None)
            with st.expander("Details"):
                _provenance(found, ours)
                _launch_button(found, "full")
        if found.published:
            values = ours.values if ours else [ComparedValue(each) for each in found.published]
            _table("Published values", values_table(found, values), f"Published values of {found.title}")
            st.caption(as_text(EXPLAINED))
            page_capture.words([EXPLAINED])
        if readings:
            with st.expander("Measured values", expanded=not found.published):
                _table("Measured values", points(found, readings), f"Measured values: {found.title}")
    with downloads:
        if ours:
            view_downloads(
                f"{name}-sweep-{ours.sweep.id}",
                found.title,
                here("/figures", figure=name, sweep=str(ours.sweep.id)),
                shown,
                runs,
                key=name,
                again=partial(figure_again, ours.sweep, runs),
            )
        elif found.published:
            view_downloads(name, found.title, f"/figures?figure={name}", shown, [], key=name)
    if sweep:
        components.pulse(token, sweep_id=sweep.id, active=sweep.active, every_ms=EVERY_MS)


def _chosen(found: Figure, sweeps: Sequence[Sweep]) -> Sweep | None:
    """Return the selected sweep, by default the newest; a link selects one with `sweep` and `figure`."""
    if len(sweeps) < 2:
        return sweeps[0] if sweeps else None
    names = {sweep.id: f"{sweep.id}: {size_of(sweep, found)}, by {sweep.owner}" for sweep in sweeps}
    linked = st.query_params.get("sweep", "") if st.query_params.get("figure") == found.name else ""
    start = next((place for place, sweep_id in enumerate(names) if str(sweep_id) == linked), 0)
    wanted = st.selectbox(
        "Sweep", list(names), start, format_func=names.__getitem__, key=f"sweep-of-{found.name}", width=420
    )
    return next((sweep for sweep in sweeps if sweep.id == wanted), sweeps[0])


def _badges(ours: FigureComparison | None, sweeps: Sequence[Sweep]) -> None:
    """Show the progress of the newest active one of some sweeps, and the number of values by result."""
    active = next((sweep for sweep in sweeps if sweep.active), None)
    if active:
        state = "paused" if active.paused else "in progress"
        st.badge(f"{state}, {active.ended} of {counted(active.total, 'run')} ended", color="blue")
    if ours and ours.finished and ours.counts:
        for result, count in ours.counts.items():
            st.badge(f"{count} {result}", color=COLOURS[result])
    elif not active or (ours and ours.finished):
        st.badge(NO_RUN if not ours else ours.summary if ours.finished else "no finished runs", color="gray")


def _chart(found: Figure, ours: FigureComparison | None, name: str, key: str, height: int) -> None:
    drawn, colours = picture(found, ours.readings[name] if ours else (), name, height=height)
    components.figure(key, drawn, alt=f"{found.title}, measured and published", height=height, colours=colours)


def _picture(found: Figure, ours: FigureComparison | None) -> Sequence[FigureReading]:
    """Show the chart, with or without start-up; return its readings."""
    name = found.metric
    if name == WHOLE and st.toggle(
        "Exclude start-up", key=f"execution-{found.name}", bind="query-params", help=STARTUP
    ):
        name = EXECUTION
    _chart(found, ours, name, f"figure-{found.name}-{name}", HEIGHT_PX)
    if name == EXECUTION and found.published:
        st.caption(ALONE)
        page_capture.words([ALONE])
    return ours.readings[name] if ours else ()


def _table(title: str, found: Table, caption: str) -> None:
    st.html(as_table(found, caption))
    page_capture.table(title, found)


def _launch_button(found: Figure, size: Size, *, primary: bool = False, reductions: bool = True) -> None:
    """Show the button that launches a size, and its estimate; `reductions` adds how it differs from the source."""
    sweep = found.sweep(size)
    try:
        planned = plan(sweep)
        cost = in_a_line(found.experiment, planned, sweep.exclusive)
    except EngineError as error:
        st.caption(as_text(f"{size.capitalize()}: {error}"))
        return
    with st.container(gap="xsmall"):
        if submit.button(
            f"Launch {size}: {counted(len(planned.cells), 'run')}",
            f"launch-{found.key(size)}",
            type="primary" if primary else "secondary",
            **current_user.control("launch sweep"),
        ):
            submit.submit(sweep)
        st.caption(as_text(" ".join([cost, *(found.versions[size].reduced if reductions else ())])))


def _facts(found: Figure, ours: FigureComparison | None) -> list[tuple[str, str]]:
    """Return the facts around a figure's chart, as names and values; empty where there are none."""
    facts = [
        ("Source", found.source),
        ("Assumed set-up", found.assumed and f"{found.assumed[0].upper()}{found.assumed[1:]}."),
        ("Caveat", found.note),
    ]
    if ours is None:
        return facts
    sweep, runs = ours.sweep, f"{len(ours.finished)} of {counted(ours.planned, 'run')} finished"
    return [
        *facts,
        ("Reductions", " ".join(found.versions[ours.size].reduced)),
        (MEASURED, f"sweep {sweep.id} of {sweep.owner}, {ours.size}, launched {absolute(sweep.created_at)}: {runs}"),
    ]


def _provenance(found: Figure, ours: FigureComparison | None) -> None:
    """Show where a figure comes from, and the sweep that measured it, as labelled paragraphs."""
    pairs = [
        (label, sweep_link(words, ours.sweep.id) if ours and label == MEASURED else words)
        for label, words in _facts(found, ours)
        if words
    ]
    st.html(joined((labelled(label, words) for label, words in pairs), ""))
