"""The table of runs in the browser (static/runs/table.js): cells, widths and states as plain data, ticks as the answer.

docs/decisions/runs-table.md says why it is not Streamlit's data frame.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

import streamlit as st

from app.core.assets import at, static_text
from app.core.formatting import chance, duration, in_percent_and_errors, signed, tone
from app.runs.columns import Column
from app.runs.frame import DIFFERENCE, SD
from app.runs.rows import TableRow, spans
from app.ui.run_state import DISTURBED, cause_of, outcome, status_counts, time_left
from engine.analysis.comparability import in_words
from engine.analysis.result import Ranked, not_learned
from engine.analysis.statistics.intervals import MeanDifference
from engine.errors import counted
from engine.filter.tree import metric_written
from engine.metrics import Result, metric
from engine.store.records import ENDED, RunRow, Status

_grid = st.components.v2.component(
    "parallab_runs",
    html='<div class="pl-runs" role="region" tabindex="0"></div>',
    css=static_text("runs/table.css"),
    js=static_text("page/cleanup.js", "page/ago.js", "runs/table.js"),
    isolate_styles=False,
)
KEY = "runs.table"
CHARACTER_PX, PADDING_PX = 6.6, 22
NARROWEST, WIDEST, AGE = 7, 28, 9
"""Limits of a column's width in characters, and the length of a relative time."""
LIMITS = {"Owner": 14, "Settings that differ": 26}
"""Other limits of some columns in characters, by heading."""
EDGE_PX = 14
"""Space to the right of the last column (static/runs/table.css)."""
TICK_PX, NAME_PX, STATE_PX, SPARK_PX = 36, (180, 300), (110, 210), 94
MOST_STATES_PX = 300
"""The widest column of statuses: those of a sweep are whole, only a note beside them is cut."""
TALLEST = "max(20rem, calc(100vh - 21rem))"
HEADINGS = {
    "differs": (
        "Settings that differ",
        "What sets this row apart: its settings (except the seed) that are not the same in all listed rows of its "
        "experiment; of a sweep, the values that it varies",
    ),
    "n": ("n", "Number of finished runs behind mean and sd (sample standard deviation)"),
    "runs": ("Runs", "Run numbers of this config"),
    "owner": ("Owner", "Person who launched it"),
    "launched": ("Launched", "Time of queueing"),
    "sweep": ("Sweep", "Sweep of this run"),
    "tags": ("Tags", "Tags of the run; of several, those that all have"),
}
FIRST = "duration"
"""The column, with its deviation and difference, that comes before all others."""
SORTS = {"owner": "owner", "launched": "created", "sweep": "sweep", "status": "status"}
"""Fields by which the fixed columns sort."""


MOST_TAGS = 2
_OPENING = re.compile("^(Its|The|It was) ")
"""The words of a cause that its narrow cell leaves out, for those that follow; the hover has all."""


@dataclass(frozen=True)
class RowFacts:
    """What the rows show besides the settings and numbers of `frame.cells_of`, by run id."""

    results: Mapping[int, Ranked]
    sparklines: Mapping[int, Sequence[float]]
    waits: Mapping[int, str]
    """Why each queued run waits, and how long each running one still takes."""


def opened() -> tuple[str, ...]:
    """Return the keys of the unfolded rows, as the browser last sent them."""
    return tuple((st.session_state.get(KEY) or {}).get("open") or ())


def show(data: Mapping[str, Any], on_sort: Callable[[], None]) -> tuple[str, ...]:
    """Show the table and return the keys of the ticked rows; `on_sort` is called before the page reruns, when a heading
    was pressed.
    """
    found = _grid(
        key=KEY,
        data=dict(data),
        default={"ticked": [], "open": []},
        on_ticked_change=_nothing,
        on_open_change=_nothing,
        on_sort_change=on_sort,
    )
    return tuple(found.get("ticked") or ())


def sort_pressed() -> str:
    """Return the order that a press on a heading asks for, such as `-created`."""
    return str(st.session_state[KEY].get("sort") or "")


def grid_of(
    rows: Sequence[TableRow],
    cells: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    facts: RowFacts,
    *,
    sort: tuple[str, bool] | None,
    view: str,
) -> dict[str, Any]:
    """Return the table as plain data; `sort` is the field and direction it is sorted by. While `view` (and what is
    unfolded) stays the same, rows keep their places under a moving pointer.
    """
    by_name = {column.written: column for column in columns}
    names = list(dict.fromkeys(name for row in cells for name in row if name in HEADINGS or _of(name, by_name)))
    apart = {name.removesuffix(DIFFERENCE) for row in cells for name in row if name.endswith(DIFFERENCE) and row[name]}
    names = [name for name in names if not name.endswith(DIFFERENCE) or name.removesuffix(DIFFERENCE) in apart]

    def is_other(name: str) -> bool:
        """Return whether it is a value of which no row has a difference, as of another experiment than the baseline."""
        return (
            bool(apart)
            and (column := _of(name, by_name)) is not None
            and column.written not in apart
            and column.field.source == "metric"
        )

    # Beside the result, in view on a small screen: the first column, then those with differences to the baseline.
    names.sort(key=lambda name: (not name.startswith(FIRST), is_other(name)))
    has_states = any(row.statuses for row in rows)
    has_sparks = any(row.run and row.run.id in facts.sparklines for row in rows)
    states = [_state(row, facts) for row in rows]
    heads: list[dict[str, Any]] = [
        {"kind": "tick", "label": "", "width": TICK_PX},
        {
            "kind": "name",
            "label": "Name",
            "help": "Opens the run, sweep or duel",
            "width": _between(NAME_PX, (len(_name(row)) for row in rows)),
        },
    ]
    if has_states:
        parts = [sum(len(part["text"]) + 3 for part in state["states"]) for state in states]
        lengths = (part + len(state["note"]) for part, state in zip(parts, states, strict=True))
        most = max(STATE_PX[1], min(MOST_STATES_PX, round(CHARACTER_PX * max(parts, default=0))))
        heads.append(
            {
                "kind": "text",
                "label": "Status",
                "help": f"Disturbed: {DISTURBED[0].lower()}{DISTURBED[1:]}",
                "sort": "status",
                "width": _between((STATE_PX[0], most), lengths),
            }
        )
    if has_sparks:
        heads.append({"kind": "spark", "label": "Trend", "help": "Course of the result", "width": SPARK_PX})
    results = [_result(row, facts) for row in rows]
    if any(results):
        heads.append(_result_heading({ranked.result for _, ranked in filter(None, results)}))
        results = _with_nouns(results)
    heads += [_heading(name, by_name, [row.get(name) for row in cells]) for name in names]
    body = []
    for row, values, state, result in zip(rows, cells, states, results, strict=True):
        said: list[Any] = [None, None]
        if has_states:
            said.append({**state, "hover": _hover(row, facts)})
        if has_sparks:
            said.append(list(facts.sparklines.get(row.run.id, ())) if row.run and not row.fold else None)
        if any(results):
            said.append(result[0] if result else None)
        said += [_cell(name, values.get(name), by_name) for name in names]
        body.append(_row(row, said))
    for place, head in enumerate(heads):
        head.setdefault("width", _width(head["label"], [row["cells"][place] for row in body]))
    heads[-1]["width"] += EDGE_PX
    return {
        "columns": heads,
        "rows": body,
        "sort": {"key": sort[0], "descending": sort[1]} if sort else None,
        "view": " ".join([view, *opened()]),
        "height": TALLEST,
        "label": "Runs: name, status, result, settings and metrics of each",
    }


def _row(row: TableRow, cells: list[Any]) -> dict[str, Any]:
    kind, _, number = row.key.partition("-")
    marks = [mark for mark in str(row.cells.get("marks") or "").split(", ") if mark]
    title = f"{row.run.id}: {row.cells['title']}" if row.run and row.is_child else _name(row)
    return {
        "key": row.key,
        "name": _name(row),
        "href": None if kind == "group" else at(f"/{kind}?{kind}={number}"),
        "title": "\n".join(filter(None, (title, row.origin))),
        "open": row.key in opened() if row.fold else None,
        "child": row.is_child,
        "marks": [*("★" if mark == "star" else mark for mark in marks), *_first(row.cells.get("tags") or ())],
        "cells": cells,
    }


def _first(tags: Sequence[str]) -> list[str]:
    """Return the first tags, which stand beside the name: their column may be out of view."""
    return [*tags[:MOST_TAGS], *([f"+{len(tags) - MOST_TAGS}"] if len(tags) > MOST_TAGS else [])]


def _name(row: TableRow) -> str:
    title = str(row.cells["title"])
    if row.fold:
        runs = len(row.run_ids)
        named = ": ".join(filter(None, (str(row.cells["run"]), title)))
        return f"{named} ({runs:,} of {row.total:,} runs)" if runs < row.total else f"{named} ({counted(runs, 'run')})"
    if not row.run:
        return title
    return f"{row.run.id}: {row.called or title}"


def _result(row: TableRow, facts: RowFacts) -> tuple[dict[str, str], Ranked] | None:
    """Return the cell of the result, and the result: of a run, or the best of a sweep or duel."""
    if row.fold and row.best:
        run_id, best = row.best
        hover = (
            f"Run {run_id}: {best.words}; {row.statuses['finished']:,} of {counted(len(row.run_ids), 'run')} finished"
        )
        return {"text": f"best {best.short}", "hover": hover}, best
    ranked = facts.results.get(row.run.id) if row.run and not row.fold else None
    return ({"text": ranked.short, "hover": ranked.words}, ranked) if ranked else None


def _state(row: TableRow, facts: RowFacts) -> dict[str, Any]:
    if row.fold or not row.run:
        ordered = {status: row.statuses[status] for status in get_args(Status) if status in row.statuses}
        counted = status_counts(ordered, row.fold.reached_budget if row.fold else 0)
        return {"states": [_part(status, words) for status, words in counted], "note": _not_learned(row)}
    run = row.run
    share = run.progress if run.status in ("running", "stopping") and not run.reported else None
    status, word = outcome(run)
    text = f"{word} {run.progress:.0%}".replace("%", " %") if share is not None else word
    return {"states": [_part(status, text, share)], "note": _note(run, facts)}


def _not_learned(row: TableRow) -> str:
    """Return how many finished runs of a sweep or duel did not learn, or of the best one alone, why."""
    if len(row.not_learned) > 1 or (row.not_learned and not row.best_not_learned):
        return f"{len(row.not_learned):,} did not learn"
    return f"best run {row.best_not_learned.short}" if row.best_not_learned else ""


def _part(status: Status, text: str, share: float | None = None) -> dict[str, Any]:
    return {"status": status, "text": text, "share": share}


def _note(run: RunRow, facts: RowFacts) -> str:
    if run.status == "queued":
        return facts.waits.get(run.id, "")
    left = facts.waits.get(run.id) or time_left(run)
    if run.status in ENDED:
        if run.status != "finished":
            return _OPENING.sub("", cause_of(run))
        if bad := not_learned(run):
            return bad.short  # both would be cut; the hover has both
        return f"disturbed {in_words(run.disturbance or 0.0)}" if run.disturbed else ""
    return f"on {run.target}, {left}" if run.target else left


def _hover(row: TableRow, facts: RowFacts) -> str:
    if row.best and row.best_not_learned:
        return f"Run {row.best[0]}, the best: {row.best_not_learned.sentence}"
    if row.not_learned:
        return f"{'Run' if len(row.not_learned) == 1 else 'Runs'} {spans(row.not_learned)} did not learn"
    if not row.run or row.fold:
        return ""
    if row.run.status != "finished":
        return cause_of(row.run) if row.run.status in ENDED else _note(row.run, facts)
    bad, share = not_learned(row.run), in_words(row.run.disturbance or 0.0)
    disturbed = f"Other programs took {share} of its CPU time: its times are not reliable." if row.run.disturbed else ""
    return " ".join(filter(None, (bad.sentence if bad else "", disturbed)))


def _of(name: str, columns: Mapping[str, Column]) -> Column | None:
    return columns.get(name.removesuffix(SD).removesuffix(DIFFERENCE))


def _heading(name: str, columns: Mapping[str, Column], values: Sequence[Any]) -> dict[str, Any]:
    column = _of(name, columns)
    if column is None:
        label, help_text = HEADINGS[name]
        kind = "number" if name == "n" else "text"
        return {"kind": kind, "label": label, "help": help_text, "sort": SORTS.get(name)}
    if name.endswith(SD):
        return {"kind": "number", "label": "± sd", "help": f"Standard deviation over finished runs{_in_points(column)}"}
    if name.endswith(DIFFERENCE):
        are_groups = any(isinstance(each, MeanDifference) and each.error for each in values)
        how = ", in percent and in standard errors (SE, Welch)" if are_groups else _in_points(column)
        said = f"{column.label}: difference to the baseline{how}"
        return {"kind": "number", "label": "Δ", "help": said}
    label = column.label.removesuffix(" (s)") if column.field.kind == "seconds" else column.label
    kind = "text" if any(isinstance(value, str | bool | datetime) for value in values) else "number"
    sort = None if column.step is not None or column.field.kind == "tags" else column.field.written
    return {"kind": kind, "label": label, "help": column.help, "sort": sort}


def _in_points(column: Column) -> str:
    """Return that differences in a column of percentages are in points."""
    return ", in percentage points" if _is_percentage(column) else ""


def _is_percentage(column: Column) -> bool:
    return column.field.source == "metric" and column.metric.unit == "%" and column.field.of != "count"


def _result_heading(results: Collection[Result]) -> dict[str, Any]:
    """Return the heading of the results, which sorts where all are of one metric."""
    metrics = {metric_written(each.metric, each.of) for each in results}
    labels = sorted({metric(each.metric).label for each in results})
    named = ". Here of several metrics, so not to be sorted: " if len(metrics) > 1 else ": "
    return {
        "kind": "number",
        "label": "Result",
        "help": f"Value by which its experiment ranks runs{named}{', '.join(labels)}",
        "sort": metrics.pop() if len(metrics) == 1 else None,
    }


def _with_nouns(results: Sequence[tuple[dict[str, str], Ranked] | None]) -> list[tuple[dict[str, str], Ranked] | None]:
    """Return the results with the noun of their metrics, such as `loss`: numbers without a unit, and percentages where
    the column has several metrics. A unit such as samples/s says enough.
    """
    of_several = len({each[1].result.metric for each in results if each}) > 1
    vague = ("", "%") if of_several else ("",)
    nouns = [
        "" if each is None or each[1].metric.unit not in vague else noun_of(each[1].metric.label) for each in results
    ]
    return [
        each and ({**each[0], "text": f"{each[0]['text']} {noun}".rstrip()}, each[1])
        for each, noun in zip(results, nouns, strict=True)
    ]


def noun_of(label: str) -> str:
    """Return what a metric is in a word: `reward` for `Mean reward of the last 100 episodes`."""
    return label.partition(" of ")[0].rpartition(" ")[2].lower()


def _cell(name: str, value: Any, columns: Mapping[str, Column]) -> Any:
    column = _of(name, columns)
    if value is None or value == [] or value == "":
        return None
    if isinstance(value, datetime):
        return {"time": round(value.timestamp() * 1000)}
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "sweep":
        return {"href": at(f"/sweep?sweep={value}"), "text": str(value)}
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if column is None or isinstance(value, str | int):
        return value if isinstance(value, str) else f"{value}"
    if isinstance(value, MeanDifference):
        is_percentage, plain = _is_percentage(column), signed(value.mean, _number(column, abs(value.mean), apart=True))
        words = in_percent_and_errors(value, plain if is_percentage else "")
        ends = [signed(end, _number(column, abs(end), apart=True)) for end in value.interval or ()]
        interval = f"95 % interval {' to '.join(ends)} (Welch)" if ends else ""
        hover = ", ".join(filter(None, ["" if is_percentage else plain, words, chance(value), interval]))
        better = column.metric.better if column.field.source == "metric" else "min" if column.is_timed else None
        return {"text": words if value.error else plain, "hover": hover, "tone": tone(value, better)}
    return _number(column, value, few=name.endswith(SD))


def _number(column: Column, value: float, *, apart: bool = False, few: bool = False) -> str:
    """Return a number of a column; `apart`: a difference of two, `few`: with the digits of a deviation."""
    if column.field.kind == "seconds":
        return duration(value)
    if _is_percentage(column):
        return f"{value:.2f}{' points' if apart else ''}"
    return f"{value:.{4 if apart else 3 if few else 5}g}"


def _width(label: str, cells: Sequence[Any]) -> int:
    widest = LIMITS.get(label, WIDEST)
    texts = [cell.get("text") if isinstance(cell, dict) else cell for cell in cells if cell is not None]
    lengths = [len(text) if isinstance(text, str) else AGE for text in texts]
    # Sort sign and letters of the heading, which are a little smaller than those of the cells.
    return round(CHARACTER_PX * min(widest, max([NARROWEST, len(label) + 1, *lengths])) + PADDING_PX)


def _between(limits: tuple[int, int], lengths: Any) -> int:
    return round(max(limits[0], min(limits[1], CHARACTER_PX * max(lengths, default=0) + PADDING_PX + 16)))


def _nothing() -> None:
    """Name the state; its value is read from the component's result."""
