"""A sweep's runs as a matrix: columns are values of the first field, rows are values of the second field and seeds;
each cell links to its run.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import stdev
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from app.charts.sweep_charts import HEIGHT_PX, chart
from app.charts.sweep_data import (
    EXECUTION,
    Lines,
    axis,
    default_metric,
    disturbed_of,
    experiment_of,
    explained,
    groups_of,
    in_order,
    is_by_median,
    key_of,
    metric_asked,
    metric_choices,
    rank_groups_of,
    references,
    statistic_of,
)
from app.core.formatting import duration
from app.links import addresses
from app.report import Chart, Grid, page_capture
from app.ui import components, widgets
from app.ui.config_form import label_of
from app.ui.html import as_text, cell_link, nowrap, number, table
from app.ui.run_state import STATUS_SIGNS, cause_of, outcome
from engine.analysis.comparability import in_words, left_out
from engine.analysis.result import ends_in_words, ranked
from engine.analysis.run_values import cell_of, fields_in_words, label, lower_title, metric_among, newest, tries
from engine.analysis.scaling.time_difference import Compares
from engine.analysis.statistics.groups import Group
from engine.config_values import value_in_words
from engine.errors import amount, counted
from engine.home import Home
from engine.metrics import is_rate, metric
from engine.store import Reader, Sweep
from engine.store.records import ENDED, RunRow
from engine.store.sweeps.sweeps import SEED
from engine.sweep.plan import is_numeric
from engine.transfer.tables import Table

MOST_ACROSS = 12
"""With more columns than this, and more columns than rows, the matrix is transposed."""
CAPTION = "Sweep runs"
COUNTED = ("Runs counted", "Runs", "Ended early")
"""Columns of a combination's runs, one on the page."""


def matrix(sweep: Sweep, runs: Sequence[RunRow]) -> str:
    """Return the matrix as HTML; a cell with several attempts shows the newest and the number of attempts."""
    cells, is_timed = tries(sweep, runs), metric_asked(sweep, runs) == EXECUTION
    if sweep.draw:
        return _drawn_matrix(sweep, cells, is_timed)
    first, *others = sweep.across
    across = [{first: value} for value in sweep.grid[first]]
    names = (*others, *(SEED,) * bool(sweep.fields))
    down = [dict(zip(names, values, strict=True)) for values in product(*(sweep.grid[name] for name in names))]
    if len(across) > max(MOST_ACROSS, len(down)):
        across, down = down, across
    corner = "" if len(down) > 1 or len(across) > 1 else "run"
    rows = [
        [
            nowrap(_in_words(sweep, row)),
            *(_cell(cells.get(cell_of(sweep, row | column), []), is_timed) for column in across),
        ]
        for row in down
    ]
    return table([corner, *(_in_words(sweep, column) for column in across)], rows, caption=CAPTION, even=True)


def _in_words(sweep: Sweep, values: Mapping[str, Any]) -> str:
    return fields_in_words({sweep.shown(name): value for name, value in values.items()})


def _drawn_matrix(sweep: Sweep, cells: Mapping[tuple[Any, ...], list[RunRow]], is_timed: bool) -> str:
    """Return a row for each drawn combination, in draw order, and a column for each seed."""
    rows = [
        [
            *(value_in_words(value) for value in chosen),
            *(_cell(cells.get((*chosen, seed), []), is_timed) for seed in sweep.seeds),
        ]
        for chosen in dict.fromkeys(key[:-1] for key in cells)
    ]
    return table(
        [*map(label, sweep.fields), *(_in_words(sweep, {SEED: seed}) for seed in sweep.seeds)],
        rows,
        caption=CAPTION,
        even=True,
    )


def _cell(tried: Sequence[RunRow], is_timed: bool) -> str:
    """Return the newest attempt of a cell: of a finished run its result, or its time if the sweep `is_timed`."""
    if not tried:
        return "–"
    run = tried[-1]
    status, word = outcome(run)
    found = None if is_timed else ranked(run)
    result = amount(number(found.value, unit=found.metric.unit), found.metric.unit) if found else ""
    ended = result or _time(run.execution_time_s)
    says = {"finished": ended, "running": f"running {run.progress:.0%}"}.get(run.status, word)
    if run.disturbed:
        says += f", disturbed {in_words(run.disturbance or 0.0)}"
    if len(tried) > 1:
        says += f", attempt {len(tried)}"
    before = f" Earlier attempts: run {', '.join(str(each.id) for each in tried[:-1])}." if len(tried) > 1 else ""
    title = f"Run {run.id}: {word}. {cause_of(run)}".strip() + before
    return cell_link(says, run.id, status, "◎" if run.disturbed else STATUS_SIGNS[status], title)


def _time(seconds: float | None) -> str:
    """Return an execution time rounded for comparison."""
    return f"{number(seconds, 3)} s" if seconds is not None and seconds < 100 else duration(seconds)


# ---- The chart of a sweep with its metric selector, and the table below --------------------------------------------

RANK = "rank"


def results(sweep: Sweep, runs: Sequence[RunRow], reader: Reader, compares: Compares, *, with_disturbed: bool) -> None:
    """Show one metric of the complete runs against the first field, as a chart and a table; the selection is kept in
    the address, and the default is the one that the sweep asks about. Disturbed runs are crosses that no mean counts,
    unless `with_disturbed`.
    """
    asked = metric_asked(sweep, runs)
    choices = metric_choices(runs, asked)
    default = default_metric(choices, compares, asked)
    by_label = {metric(choice).heading: choice for choice in choices}
    if written := by_label.get(st.query_params.get("number", "")):
        addresses.write({"number": [written]})  # links of earlier versions have the label
    name = st.selectbox(
        "Metric",
        choices,
        format_func=lambda choice: metric_among(choice, runs).heading,
        width=320,
        **addresses.kept("number", default, choices),
    )
    page_capture.others(lambda: _other_metrics(sweep, runs, [one for one in choices if one != name], with_disturbed))
    drawn = _drawn(sweep, runs, name, reader, with_disturbed=with_disturbed)
    if drawn is None:
        st.write("Points appear as runs finish." if sweep.active else "Nothing to plot: no run of this sweep finished.")
        return
    components.figure(
        f"sweep-{sweep.id}-{name}",
        drawn.picture,
        alt=drawn.title,
        height=HEIGHT_PX,
        colours=drawn.colours,
        says=drawn.says,
    )
    if drawn.finding:
        st.markdown(f"**{as_text(drawn.finding)}**")
    for sentence in drawn.sentences:
        st.caption(as_text(sentence))
    page_capture.words([drawn.finding, *drawn.sentences] if drawn.finding else drawn.sentences)
    if drawn.rows is None:
        widgets.offer_disturbed()
        return
    by_rank = name in _rank_metrics(sweep)
    titles = {field: label(sweep.shown(field)) for field in sweep.across} | {RANK: "Rank"}
    headings = [titles.get(column, column) for column in drawn.rows.columns]
    st.html(_table(drawn.rows, headings, name, len(sweep.across) + by_rank, metric_among(name, runs).unit))
    page_capture.table(metric(name).label, drawn.rows, heading=lambda column: titles.get(column, column))


@dataclass(frozen=True)
class _Drawn:
    """One metric of a sweep as drawn."""

    picture: go.Figure
    colours: Sequence[int]
    title: str
    sentences: Sequence[str]
    rows: Table | None
    """None without a point that counts."""
    finding: str = ""
    """What repeats without a varied setting have in common; empty for other sweeps."""
    says: str = ""
    """What lines, markers and band of repeated runs are."""


def _other_metrics(
    sweep: Sweep, runs: Sequence[RunRow], names: Sequence[str], with_disturbed: bool
) -> Iterator[Chart | Grid]:
    """Yield the charts and tables of metrics for the report."""
    with Reader.open(Home.find()) as reader:
        for name in names:
            if drawn := _drawn(sweep, runs, name, reader, with_disturbed=with_disturbed):
                caption = " ".join([drawn.finding, *drawn.sentences]).strip()
                yield Chart(drawn.title, drawn.picture, caption, colours=drawn.colours, height=HEIGHT_PX)
                if drawn.rows:
                    yield Grid(metric(name).label, drawn.rows)


def _drawn(sweep: Sweep, runs: Sequence[RunRow], name: str, reader: Reader, *, with_disturbed: bool) -> _Drawn | None:
    """Return a metric as drawn; None without any point."""
    by_rank = name in _rank_metrics(sweep)
    crosses = disturbed_of(sweep, runs, name) if not with_disturbed else []
    apart = {point.run_id for point in crosses}
    every, runs = runs, [run for run in runs if run.id not in apart]
    groups = rank_groups_of(sweep, runs, name, reader) if by_rank else groups_of(sweep, runs, name)
    if not groups and not crosses:
        return None
    lines, lacking = references(sweep, runs, name, reader)
    picture, colours = chart(groups, name, sweep, _axis_title(sweep), lines, crosses, metric_among(name, every).unit)
    basis = (
        "the highest value in a run, per rank"
        if by_rank
        else metric(name).help
        if is_rate(name)
        else statistic_of(name, of_script=experiment_of(sweep) is None)
    )
    sentences = _captions(sweep, groups, name, basis, [explained(sweep)] if lines else [], lacking) if groups else []
    sentences += [said] if (said := left_out([run for run in every if run.id in apart])) else []
    if not groups:
        sentences.append("Crosses are single runs. All were disturbed, so there is no table.")
    rows = _rows(sweep, every, groups, name, lines, by_rank) if groups else None
    title = f"{metric(name).label} by {lower_title(sweep.shown(sweep.across[0]))}"
    repeats = groups and not sweep.fields and not by_rank
    unit, by_median = metric_among(name, every).unit, is_by_median(sweep, name)
    finding = _of_repeats(groups, unit, by_median=by_median) if repeats else ""
    says = sentences[0] if any(len(group.values) > 1 for group in groups) else ""
    return _Drawn(picture, colours, title, sentences, rows, finding, says)


def _captions(
    sweep: Sweep, groups: Sequence[Group], name: str, basis: str, of_lines: list[str], lacking: str
) -> list[str]:
    said = []
    if sweep.draw and len(sweep.fields) > 1:
        said.append(
            f"Each marker is one combination: the mean over its {sweep.shown(SEED)}s. The table lists its other values."
        )
    elif any(len(group.values) > 1 for group in groups):
        said.append(what_is_drawn(groups, sweep.shown(SEED), by_median=is_by_median(sweep, name)))
    if basis:
        said.append(f"{metric(name).heading}: {basis.rstrip('.')}.")
    return said + of_lines + ([lacking] if lacking else [])


def _of_repeats(groups: Sequence[Group], unit: str, *, by_median: bool) -> str:
    """Return the centre of runs that differ in their seed alone, with its spread, as a sentence."""
    every = Group((), {run_id: value for group in groups for run_id, value in group.values.items()})
    centre, low, high = _spread(every, by_median=by_median)
    said = [amount(number(each, unit=unit), unit) for each in (centre, low, high) if each is not None]
    spread = f", {'95 % interval' if by_median else 'from'} {' to '.join(said[1:])}" if len(said) == 3 else ""
    if spread and not by_median:
        spread += f", standard deviation {amount(number(stdev(every.values.values()), 2, unit), unit)}"
    return f"{'Median' if by_median else 'Mean'} over {counted(len(every.values), 'run')}: {said[0]}{spread}."


def what_is_drawn(groups: Sequence[Group], over: str = SEED, *, by_median: bool) -> str:
    """Return what lines, markers, bars and band of repeated runs are, as far as the chart has them."""
    centre = "medians" if by_median else f"means over {over}s"
    intervals = by_median and any(group.median_interval for group in groups)
    lines = [[group for group in groups if group.key[1:] == key] for key in {group.key[1:] for group in groups}]
    connected = any(len(line) > 1 for line in lines)
    has_band = any(len(line) > 1 and any(len(group.values) > 1 for group in line) for line in lines)
    unequal = "" if by_median else _unequal_counts(groups, over)
    return (
        f"{'Lines connect' if connected else 'Filled markers are'} {centre}"
        f"{' with their 95 % intervals' if intervals else ''}; small markers are single runs"
        f"{'; the band spans minimum to maximum' if has_band else ''}.{unequal}"
    )


def _unequal_counts(groups: Sequence[Group], over: str) -> str:
    """Return that means are over different numbers of runs, as a further sentence; empty if they are not."""
    counts = sorted({len(group.values) for group in groups})
    if len(counts) < 2:
        return ""
    return f" Means are over {counts[0]} to {counted(counts[-1], 'run')}, so they also differ by their {over}s."


def _table(found: Table, headings: Sequence[str], name: str, keys: int, unit: str) -> str:
    """Return the rows as HTML; the first `keys` columns identify them, followed by the number of finished runs and the
    measured values.
    """
    rows = [
        [
            *(value_in_words(value) for value in row[:keys]),
            f"{row[keys]} of {row[keys + 1]}{f', {row[keys + 2]}' if row[keys + 2] else ''}",
            *(number(value, unit=unit) for value in row[keys + len(COUNTED) :]),
        ]
        for row in found.rows
    ]
    headings = [heading for heading in headings if heading not in COUNTED[1:]]
    return table(headings, rows, caption=f"{metric(name).label} of the sweep")


def _rows(
    sweep: Sweep, runs: Sequence[RunRow], groups: Sequence[Group], name: str, lines: Lines, by_rank: bool
) -> Table:
    """Return a row for each combination with an ended run, with how many of its runs count, how the others ended, and
    the values of the reference lines if there are any.
    """
    unit = metric_among(name, runs).unit
    labels = list(dict.fromkeys(line.label for found in lines.values() for line in found))
    by_median = is_by_median(sweep, name)
    spread: tuple[str, ...] = ("Median", "Interval from", "Interval to") if by_median else ("Mean", "Lowest", "Highest")
    if not sweep.fields:  # a run each
        spread = ("Value",)
    words = (*spread, *(label.capitalize() for label in labels))
    headers = [
        *sweep.across,
        *([RANK] if by_rank else []),
        *COUNTED,
        *(f"{word} ({unit})" if unit else word for word in words),
    ]
    places: dict[object, int] = {value: place for place, value in enumerate(axis(sweep))} if lines else {}
    cells: dict[tuple[Hashable, ...], list[RunRow]] = {}
    for run in newest(sweep, runs):
        cells.setdefault(key_of(sweep, run), []).append(run)
    by_key: dict[tuple[Hashable, ...], Group | None] = {group.key: group for group in groups}
    counted = {key[: len(sweep.across)] for key in by_key}
    role = [""] if by_rank else []
    by_key |= {
        (*key, *role): None
        for key, own in cells.items()
        if key not in counted and any(run.status in ENDED for run in own)
    }
    rows = []
    for key in in_order(sweep, by_key):
        group, own = by_key[key], cells.get(key[: len(sweep.across)], [])
        known = {line.label: line.times_s for line in lines.get(key[1:], [])}
        rows.append(
            [
                *(value if is_numeric([value]) else value_in_words(value) for value in key),
                len(group.values) if group else 0,
                len(own),
                ends_in_words(own),
                *_spread(group, by_median=by_median)[: len(spread)],
                *(known[label][places[key[0]]] if label in known else None for label in labels),
            ]
        )
    return Table.of(headers, rows)


def _spread(group: Group | None, *, by_median: bool) -> tuple[float | None, ...]:
    """Return the mean and its range, or the median and its interval; empty values without a run that counts."""
    if group is None:
        return None, None, None
    if by_median:
        return group.median, *(group.median_interval or (None, None))
    return group.mean, group.low, group.high


def _rank_metrics(sweep: Sweep) -> tuple[str, ...]:
    known = experiment_of(sweep)
    return known.scaling.rank_metrics if known and known.scaling else ()


def _axis_title(sweep: Sweep) -> str:
    known, field = experiment_of(sweep), sweep.across[0]
    fields = known.config.model_fields if known else {}
    return label_of(field, fields[field]) if field in fields else sweep.shown(field)
