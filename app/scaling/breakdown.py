"""Time breakdown: phases of ranks stacked by count, the share of communication, and the break-even count."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from app.charts.plotly_figures import PATTERNS, phase_colours
from app.links import addresses
from app.report import page_capture
from app.ui import components, widgets
from app.ui.html import as_text, nowrap, number, table
from engine.analysis.scaling.findings import line_title
from engine.analysis.scaling.laws import SCALABILITY, Fit, best_count
from engine.analysis.scaling.scaling_data import (
    SERVE,
    SHARES,
    CountStep,
    PhaseBar,
    Study,
    bars,
    break_even,
    steps,
    words_of,
)
from engine.analysis.scaling.speedup import REFERENCE, SpeedupPoint, is_unclear, sizes
from engine.analysis.scaling.targets import TargetReached
from engine.analysis.statistics.intervals import Interval
from engine.metrics import PHASES
from engine.store import Reader
from engine.transfer.tables import Table

# ---- The tables of the scaling views as plain values, with whole numbers and intervals in separate columns, for files
# reports.

LINE = "line"


def sizes_table(found: Study, lines: Mapping[str, Sequence[SpeedupPoint]]) -> Table:
    """Return a row for each line and size; low and high are the bounds of the 95 % interval."""
    unit = found.unit or "runs"
    columns = (
        LINE,
        found.field,
        "runs",
        *named("time_s", f"{unit}_per_second", "speed_up", "efficiency"),
        "oversubscribed",
    )
    rows = [
        (
            title,
            size.count,
            size.runs,
            *intervals(size.time_s, size.per_second, size.speed_up, size.efficiency),
            size.crowded,
        )
        for title, sizes in lines.items()
        for size in sizes
    ]
    return of_lines(columns, rows)


def laws_table(laws: Mapping[str, Sequence[Fit]]) -> Table:
    """Return a row for each parameter of each fitted law; the best count is empty if none was found."""
    columns = (LINE, "law", "parameter", "value", "low", "high", "best_count", "relative_error")
    return of_lines(columns, [row for title, fits in laws.items() for known in fits for row in _of_law(title, known)])


def _of_law(title: str, known: Fit) -> Iterator[tuple[Any, ...]]:
    best = best_count(known) if known.law is SCALABILITY else None
    for each in known.parameters:
        yield (
            title,
            known.law.name,
            each.name,
            each.value,
            each.low,
            each.high,
            best if best is not None and isfinite(best) else None,
            known.error,
        )


def targets_table(found: Study, reached: Sequence[TargetReached], unit: str) -> Table:
    """Return a row for each line and size with its time to a target; `unit` is what is counted: an update, or
    a step.
    """
    columns = (LINE, found.field, "reached", "runs", *named(f"{unit}s", f"seconds_of_{unit}", "time_s"))
    rows = [
        (
            line_title(found, each.line),
            each.count,
            each.reached,
            each.runs,
            *intervals(each.updates, each.update_s, each.time_s),
        )
        for each in reached
    ]
    return of_lines(columns, rows)


def time_table(found: Study, drawn: Sequence[PhaseBar]) -> Table:
    """Return a row for each bar: seconds, fractions of them, and the time of handler threads."""
    columns = (LINE, found.field, "rank", "seconds", *SHARES, "served_s")
    rows = [
        (
            line_title(found, bar.line),
            bar.count,
            bar.rank,
            bar.whole_s,
            *(bar.share(*phases) for phases in SHARES.values()),
            bar.seconds.get(SERVE),
        )
        for bar in drawn
    ]
    return of_lines(columns, rows)


def of_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return the table, without the column of lines if there is a single unnamed line."""
    first = 0 if any(row[0] for row in rows) else 1
    return Table.of(columns[first:], [row[first:] for row in rows])


def named(*names: str) -> Iterator[str]:
    """Yield the columns of intervals: mean, bounds, and method (range: minimum and maximum)."""
    for name in names:
        yield from (name, f"{name} low", f"{name} high", f"{name} interval")


def intervals(*found: Interval | None) -> Iterator[float | str | None]:
    """Yield the cells of intervals; empty without a value."""
    for each in found:
        yield from (each.mean, each.low, each.high, each.method) if each else (None,) * 4


MOST_RUNS = 500


# ---- Time breakdown ------------------------------------------------------------------------------------------------
# phases of ranks stacked by count, the share of communication, and the break-even count.

HEIGHT_PX = 420
KINDS, EACH = "Kinds of ranks", "Every rank"
MOST_BARS = 80


def where_time_went(found: Study, reader: Reader, key: str) -> None:
    """Show the phases of a study's runs."""
    phases = reader.studies.phases_of([timing.run_id for timing in found.timings])
    if not found.timings:
        nothing(found, "No bars: no run has finished.")
        return
    if not phases:
        st.write("No phases recorded in finished runs yet.")
        return
    ways = (KINDS, EACH)
    way = st.segmented_control("Bars", ways, required=True, **addresses.kept("bars", KINDS, ways))
    drawn = bars(found.timings, phases, each_rank=way == EACH)
    if len(drawn) > MOST_BARS:
        st.caption(f"Too many ranks for bars ({len(drawn)}): showing kinds of ranks.")
        drawn = bars(found.timings, phases, each_rank=False)
    figure, colours = stacked(found, drawn)
    components.figure(
        f"time-{key}-{way}",
        figure,
        alt=f"Time per rank by phase and {found.field}, in seconds",
        height=HEIGHT_PX,
        colours=colours,
    )
    over = "repeats" if found.statistic == "median" else "seeds"
    kinds = "" if way == EACH else " and over ranks of the same kind"
    means = (
        f"Each bar is the mean over the {over} of one configuration{kinds}. Time in handler threads (serve) overlaps a "
        "rank's own time."
    )
    cautions = [means, *([found.left_out] if found.left_out else [])]
    for sentence in cautions:
        st.caption(as_text(sentence))
    withheld = reader.exercises.withholds(timing.run_id for timing in found.timings)
    sentences = [] if withheld else _findings(found, steps(found.timings, phases))
    for sentence in sentences:
        st.markdown(as_text(sentence))
    page_capture.words([*cautions, *sentences])
    st.html(_table(found, drawn))
    page_capture.table("Time breakdown", lambda: time_table(found, drawn))


def nothing(found: Study, otherwise: str) -> None:
    """Show why a study has nothing to draw: all runs were disturbed, with the button that includes them, or another
    reason.
    """
    if found.disturbed:
        st.write(as_text(found.left_out))
        widgets.offer_disturbed()
    else:
        st.write(otherwise)


def stacked(found: Study, drawn: Sequence[PhaseBar]) -> tuple[go.Figure, list[int]]:
    """Return one bar per size and rank, stacked by phase, and the palette index of each trace."""
    names = [name for name in PHASES if any(bar.seconds.get(name) for bar in drawn)]
    names += sorted({name for bar in drawn for name, spent in bar.seconds.items() if spent} - {*PHASES})
    outer = [" ".join(filter(None, (line_title(found, bar.line), str(bar.count)))) for bar in drawn]
    inner = [bar.rank for bar in drawn]
    figure = go.Figure()
    for name in names:
        figure.add_bar(
            x=[outer, inner],
            y=[bar.seconds.get(name, 0.0) for bar in drawn],
            name=name,
            marker={
                "pattern": {
                    "shape": PATTERNS[PHASES.index(name) % len(PATTERNS)] if name in PHASES else "",
                    "fillmode": "replace",
                }
            },
            customdata=[bar.seconds.get(name, 0.0) / (bar.whole_s or 1.0) * 100 for bar in drawn],
            hovertemplate=f"{name}: %{{y:.3~r}} {{y unit}} (%{{customdata:.0f}} %)<extra>%{{x}}</extra>",
        )
    plural, _ = words_of(found.field)
    figure.update_layout(
        barmode="stack",
        bargap=0.2,
        height=HEIGHT_PX,
        xaxis_title=plural.capitalize(),
        yaxis_title="Time per rank",
        meta={"units": {"y": "s"}},
        hovermode="closest",
    )
    return figure, phase_colours(names)


def _findings(found: Study, moves: Sequence[CountStep]) -> list[str]:
    """Return the break-even count of each line, as sentences."""
    if found.obstacles:
        return [f"No break-even estimate. {sentence}" for sentence in found.obstacles]
    plural, singular = words_of(found.field)
    said = []
    for line in found.line_keys():
        own, title = [move for move in moves if move.line == line], line_title(found, line)
        if not own:
            continue
        at, start = break_even(own), found.caveat + (f"{title}: " if title else "")
        known = {size.count: size.speed_up for size in sizes(found.of(line), statistic=found.statistic)}
        first, second = own[0].first, own[0].second
        largest = own[-1].second
        others = [ratio for count, ratio in known.items() if count != REFERENCE and ratio]
        if others and all(ratio.count > 1 and is_unclear(ratio) for ratio in others):
            said.append(f"{start}No break-even estimate: no clear difference from {first} to {largest} {plural}.")
            continue
        last = own[-1]
        if at is None and last.saved_s <= 0:
            said.append(f"{start}No break-even: the step from {last.first} to {last.second} saved no work per rank.")
        elif at is None:
            said.append(
                f"{start}Every added rank pays off, up to {largest} {plural}: the step from {last.first} to "
                f"{last.second} saved {number(last.saved_s, 3)} s of work per rank and cost {number(last.cost_s, 3)} "
                "s of communication and waiting."
            )
        elif at <= own[0].first:
            if first == REFERENCE and (ratio := known[second]) and ratio.count > 1 and is_unclear(ratio):
                said.append(f"{start}No clear difference between {first} and {second} {plural}.")
                continue
            none = f"A second {singular} brings" if first == 1 else f"More than {first} {plural} bring"
            said.append(f"{start}{none} no gain.")
        else:
            said.append(
                f"{start}Break-even near {at:.2g} {plural}: beyond it, an added one costs more in communication and "
                "waiting than it saves in work."
            )
    return said


def _table(found: Study, drawn: Sequence[PhaseBar]) -> str:
    headers = [
        *(["Line"] if found.lines else []),
        found.field,
        "Rank",
        "Seconds",
        "Work",
        "Communication",
        "Waits and locks",
        "Other",
        "Served (s)",
    ]
    rows = []
    for bar in drawn:
        shares = [bar.share(*phases) for phases in SHARES.values()]
        served = number(bar.seconds[SERVE], 3) if bar.seconds.get(SERVE) else "–"
        line = [nowrap(line_title(found, bar.line))] if found.lines else []
        rows.append(
            [
                *line,
                str(bar.count),
                bar.rank,
                number(bar.whole_s),
                *(f"{share:.0%}" for share in shares),
                served,
            ]
        )
    return table(headers, rows, caption="Time breakdown")
