"""The lines of the Compare page, runs or groups: which come first, which are shown alone, and the table beside the
charts that is their legend, with columns that sort it and differences to the baseline.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from app.charts.curve_charts import possible
from app.charts.plotly_figures import Look, look, looks
from app.compare import session_state
from app.compare.groups import STATISTICS, ComparedGroup, band_named, groups_of, usual_grouping
from app.compare.selection import NOTES, names_of
from app.core.assets import at
from app.core.formatting import TOO_FEW, chance, in_percent_and_errors, signed, tone
from app.links.compare import UNGROUPED, CompareView, ids_text
from app.report import page_capture
from app.ui import components
from app.ui.html import as_text
from app.ui.run_state import outcome
from engine.analysis.result import better_values, few_images, unfinished
from engine.analysis.run_values import field_names, is_timed, label, metric_among, number, shown, split, value
from engine.analysis.run_values import names as number_names
from engine.analysis.statistics.groups import BandLine
from engine.analysis.statistics.groups import line as statistic_of
from engine.analysis.statistics.intervals import FEWEST, METHODS, MeanDifference, difference_of_means
from engine.config_values import value_in_words
from engine.filter import Names, read_field
from engine.store import Reader
from engine.store.records import RunRow
from engine.transfer.tables import Table

TABS = ("curves", "bars", "scatter")
"""Tabs with the table of lines beside their charts."""
KEY = "compare.lines"
COLUMNS_HELP = (
    "Values, settings that differ, and notes beside each run or group. A heading sorts; a pin puts a line first in "
    "every chart; Δ makes it the baseline of the others. A press on a group, here or in a chart, shows its runs; on a "
    "run, that run alone; a second press shows the others again."
)
SYMMETRIC = ("sd", "se")
"""Bands that reach as far above a value as below it."""
MOST_TEXTS = 3
"""Maximum number of different texts in one cell."""


@dataclass(frozen=True)
class ComparedLine:
    """A run, or the runs of a group, as one line of each chart."""

    name: str
    runs: tuple[RunRow, ...]
    look: Look
    is_group: bool = False

    def has(self, run_id: int | None) -> bool:
        """Return whether a run is in it."""
        return any(run.id == run_id for run in self.runs)


@dataclass(frozen=True)
class Compared:
    """The runs with their names and styles, and their groups (empty: no grouping, or the runs of one are shown)."""

    runs: tuple[RunRow, ...]
    names: Mapping[int, str]
    looks: Mapping[int, Look]
    groups: tuple[ComparedGroup, ...]
    group_looks: Sequence[Look]
    fields: tuple[str, ...]
    """The fields by which they are grouped."""
    ids: tuple[int, ...]
    """All runs of the view, also where some are shown alone."""

    @property
    def lines(self) -> list[ComparedLine]:
        if self.groups:
            pairs = zip(self.groups, self.group_looks, strict=True)
            return [ComparedLine(group.name, group.runs, of_group, is_group=True) for group, of_group in pairs]
        return [ComparedLine(self.names[run.id], (run,), self.looks[run.id]) for run in self.runs]


def compared(runs: tuple[RunRow, ...], view: CompareView, usual: tuple[str, ...] | None = None) -> Compared:
    """Return the named and styled runs of a view, the baseline and pinned ones first; a pin changes no style. `usual`
    is their usual grouping, where it is known.
    """
    fields = view.group if view.group is not None else usual_grouping(runs) if usual is None else usual
    styled = [(group, look(place)) for place, group in enumerate(groups_of(runs, fields) if fields else ())]
    first = [baseline_of(runs, view), *(view.pins or pinned(runs))]

    def place(run_ids: Sequence[int]) -> int:
        return min((first.index(each) for each in run_ids if each in first), default=len(first))

    styled.sort(key=lambda pair: place([run.id for run in pair[0].runs]))
    of_run = {run.id: place([each.id for each in group.runs]) for group, _ in styled for run in group.runs}
    ordered = tuple(sorted(runs, key=lambda run: (of_run.get(run.id, 0), place([run.id]))))
    ids = tuple(sorted(run.id for run in runs))
    groups, group_looks = [group for group, _ in styled], [of_group for _, of_group in styled]
    return Compared(ordered, names_of(runs), looks(ids), tuple(groups), group_looks, fields, ids)


def pinned(runs: Sequence[RunRow]) -> list[int]:
    """Return the runs that are pinned in Runs."""
    return [run.id for run in runs if run.pinned_by]


def baseline_of(runs: Sequence[RunRow], view: CompareView) -> int | None:
    """Return the run that is, or whose group is, the baseline: the chosen one, else the only one that is pinned in
    Runs.
    """
    if view.base is not None:
        return view.base if any(run.id == view.base for run in runs) else None
    found = pinned(runs)
    return found[0] if len(found) == 1 else None


def is_shown_alone(line: ComparedLine, view: CompareView) -> bool:
    """Return whether a view shows only this run, or only runs of this group."""
    return line.has(view.only) if view.only or not line.is_group else line.has(view.members)


def alone(found: Compared, view: CompareView) -> Compared:
    """Return only the runs that the view shows alone: those of one group, or one run; all if it names none of them."""
    own = next((line for line in found.lines if is_shown_alone(line, view)), None)
    if own is None:
        return found
    runs = own.runs if own.is_group else found.runs
    kept = tuple(run for run in runs if run.id == view.only) or runs
    styles = _looks_of_members(own, found.lines) if own.is_group else found.looks
    return replace(found, runs=kept, looks=styles, groups=(), group_looks=())


def alone_in_words(whole: Compared, shown: Compared) -> str:
    """Return which of all runs the charts show alone, as a sentence; empty where they show all."""
    if len(shown.runs) == len(whole.runs):
        return ""
    run_id = shown.runs[0].id
    name = next((group.name for group in whole.groups if any(run.id == run_id for run in group.runs)), "")
    few = f"run {run_id} is" if len(shown.runs) == 1 else f"the runs of {name} are"
    every = f"{len(whole.groups)} groups" if len(whole.groups) > 1 else f"{len(whole.runs)} runs"
    return f"Only {few} shown in the charts; the sentences are about all {every}."


def _looks_of_members(group: ComparedLine, lines: Sequence[ComparedLine]) -> dict[int, Look]:
    """Return the styles of a group's runs, of other colours than the groups beside it while there are some: the same
    wherever they are shown.
    """
    beside = [line.look for line in lines if not line.has(group.runs[0].id)]
    return looks((run.id for run in group.runs), beside)


# ---- The table beside the charts -----------------------------------------------------------------------------------


def known_columns(runs: Sequence[RunRow]) -> list[str]:
    """Return the columns to choose from: settings that differ, notes, then values."""
    metrics = [name for name in number_names(runs) if split(name)]
    return [*field_names(runs, that_differ=True), *NOTES, *metrics]


def column_title(name: str) -> str:
    """Return the heading of a column."""
    return NOTES.get(name) or label(name)


def table(
    reader: Reader, found: Compared, view: CompareView, columns: Sequence[str], drawn: Mapping[str, Sequence[str]]
) -> None:
    """Show all lines as the legend of the charts, with columns and, where there is a baseline, differences to it.
    `drawn` has, by group, in which charts its line holds fewer runs than it has.
    """
    lines, pins = found.lines, view.pins or tuple(pinned(found.runs))
    base_id, presses = baseline_of(found.runs, view), dict[str, dict[str, str]]()
    base = next((line for line in lines if line.has(base_id)), None)
    cells = {name: _Column(name, reader, found, view, base) for name in columns}
    is_narrowed = any(is_shown_alone(line, view) for line in lines)
    entries = list[dict[str, Any]]()
    for line in _sorted(lines, cells, view, pins, base):
        first, is_pinned, is_open = line.runs[0].id, any(map(line.has, pins)), is_shown_alone(line, view)
        kind = "g" if line.is_group else ""
        for run in line.runs:  # a chart names a group by any of its runs
            if line.is_group:
                closed = is_open and not view.only
                presses[f"show g{run.id}"] = {"members": "" if closed else str(run.id), "only": ""}
            is_only = view.only == run.id
            group = {"members": str(first)} if line.is_group else {}
            presses[f"show {run.id}"] = {"only": "" if is_only else str(run.id), **group}
        rest = [each for each in pins if not line.has(each)]
        presses[f"pin {first}"] = {"pins": ids_text(rest if is_pinned else [*rest, first])}
        presses[f"base {first}"] = {"base": UNGROUPED if line is base else str(first)}
        size, fewer = len(line.runs), drawn.get(line.name, ())
        entries.append(
            {
                **vars(line.look),
                "show": f"show {kind}{first}",
                "label": line.name,
                "on": is_open,
                "dim": is_narrowed and not is_open,
                "href": "" if line.is_group else at(f"/run?run={first}"),
                "id": first,
                "n": str(size),
                "pinned": is_pinned,
                "base": line is base,
                "about": " · ".join(
                    filter(None, ["baseline" * (line is base), "pinned: first" * is_pinned, _ends(line)])
                ),
                "fewer": "; ".join(fewer),
                "cells": [column.cell(line) for column in cells.values()],
            }
        )
        members = line.runs if is_open and line.is_group else ()
        styles = _looks_of_members(line, lines) if members else {}
        for run in members:
            own = ComparedLine(found.names[run.id], (run,), styles[run.id])
            entries.append(
                {
                    **vars(own.look),
                    "show": f"show {run.id}",
                    "label": own.name,
                    "on": view.only == run.id,
                    "child": True,
                    "about": _ends(own),
                    "href": at(f"/run?run={run.id}"),
                    "dim": view.only not in (0, run.id),
                    "cells": [column.cell(own) for column in cells.values()],
                }
            )
    heads = list[dict[str, Any]]()
    for name in columns:
        turns = ["", f"-{name}", name] if split(name) else ["", name, f"-{name}"]
        turn = turns.index(view.sort) if view.sort in turns else 0
        presses[f"sort {name}"] = {"sort": turns[(turn + 1) % 3]}
        order = "" if not turn else "descending" if view.sort.startswith("-") else "ascending"
        heads.append(
            {"label": column_title(name), "press": f"sort {name}", "order": order, "number": cells[name].is_number}
        )
    st.session_state[f"{KEY}.presses"] = presses | {"show all": {"members": "", "only": ""}}
    data = {"rows": entries, "columns": heads, "grouped": bool(found.groups), "narrowed": is_narrowed}
    components.lines(KEY, data, on_press=partial(pressed, KEY))
    page_capture.table("Lines beside the charts", lambda: _frame(lines, list(cells.values())))
    if len(lines) > 1:
        st.caption("A name shows its runs alone. The pin puts one first in every chart; Δ compares the others with it.")
    notes = list[str]()
    if base and any(map(split, columns)):
        parts = {
            "points" if metric_among(of[0], found.runs).unit == "%" else "percent"
            for name in columns
            if (of := split(name))
        }
        amount = " or ".join(sorted(parts))
        said = (
            f"Differences of means to {base.name}, in {amount} and in standard errors (SE, Welch). More than chance: "
            f"the 95 % interval excludes 0, which takes {FEWEST['mean']} runs on both sides."
            if base.is_group
            else f"Differences to {base.name}, in {amount}. Single runs have no standard error: group them."
        )
        notes.append(said)
    if any(line.is_group and len(column.values(line)) > 1 for column in cells.values() for line in lines):
        notes.append(f"Groups: {_statistic(found, view)} of the values of their runs.")
    for said in notes:
        st.caption(as_text(said))
        page_capture.words([said])


def _ends(line: ComparedLine) -> str:
    """Return how a line's runs ended if not complete, such as `1 failed`; a run's status alone."""
    if line.is_group:
        return ", ".join(f"{count} {status}" for status, count in Counter(unfinished(line.runs)).items())
    return "".join(unfinished(line.runs))


def _statistic(found: Compared, view: CompareView) -> str:
    """Return what the value and the band of a group are, such as `mean ± standard deviation`."""
    band = band_named(view.band, found.groups, view.stat)  # type: ignore[arg-type]
    between = "" if view.band == "none" else f" {band}" if view.band in SYMMETRIC else f" and {band}"
    return STATISTICS[view.stat].lower() + between


def pressed(key: str) -> None:
    """Change the view as a press on the table or on a line of a chart, or a zoom of a chart, asks; before the page
    reruns.
    """
    presses: Mapping[str, dict[str, str]] = st.session_state.get(f"{KEY}.presses", {})
    asked = str(st.session_state[key].get("press") or "")
    if asked.partition(" ")[0] == "zoom":
        session_state.change({"zoom": asked.partition(" ")[2]})
    elif change := presses.get(asked):
        session_state.change(change)


class _Column:
    """One column: its values of each line, and their differences to the baseline's."""

    def __init__(
        self, name: str, reader: Reader, found: Compared, view: CompareView, base: ComparedLine | None
    ) -> None:
        self.name, self.base, self._view, self._runs = name, base, view, found.runs
        self._metric = metric_among(of[0], found.runs) if (of := split(name)) else None
        self._better = better_values(of[0], found.runs) if of else None
        is_left_out = bool(found.groups) and is_timed(name) and not view.disturbed
        self._apart = {run.id for run in found.runs if run.disturbed} if is_left_out else set[int]()
        if len(self._apart) == len(found.runs):
            self._apart = set()
        note = read_field("note", Names.usual())
        self._notes = reader.fields.texts(found.ids, [note])[note] if name == "note" else {}

    def values(self, line: ComparedLine) -> list[float]:
        """Return the numbers of a line's runs; empty where the column has text."""
        counted = [run for run in line.runs if run.id not in self._apart] if self._metric else []
        return [held for run in counted if (held := number(run, self.name)) is not None]

    @property
    def is_number(self) -> bool:
        """Whether all of its values are numbers."""
        held = [value(run, self.name) for run in self._runs] if self.name not in NOTES else []
        there = [each for each in held if each is not None]
        return bool(there) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in there)

    def texts(self, line: ComparedLine) -> list[str]:
        """Return the different texts of a line's runs."""
        return list(dict.fromkeys(filter(None, map(self._text, line.runs))))

    def order(self, line: ComparedLine) -> tuple[bool, float, str]:
        """Return what a line is sorted by: numbers before texts."""
        values = self.values(line) or [held for run in line.runs if (held := number(run, self.name)) is not None]
        return (not values, self._band(values).centre[0] if values else 0.0, ", ".join(self.texts(line)))

    def _band(self, values: Sequence[float]) -> BandLine:
        """Return the statistic and the band of a line's values, as in the charts."""
        found = statistic_of(np.array(values)[:, None], self._view.stat, self._view.band)  # type: ignore[arg-type]
        return possible(found, self._metric.name) if self._metric and found.method[0] not in SYMMETRIC else found

    def difference(self, line: ComparedLine) -> MeanDifference | None:
        """Return the difference of a line to the baseline; None of the baseline and its runs, and without values."""
        own, theirs = self.values(line), self.values(self.base) if self.base else []
        is_of_base = self.base is None or self.base.has(line.runs[0].id)
        return None if is_of_base or not own or not theirs else difference_of_means(own, theirs)

    def cell(self, line: ComparedLine) -> dict[str, str]:
        """Return the cell of a line for the browser."""
        if self._metric is None:
            texts = self.texts(line)
            return {"text": ", ".join(texts[:MOST_TEXTS]) + (" …" if len(texts) > MOST_TEXTS else "") or "–"}
        if not (values := self.values(line)):
            return {"text": "–", "title": "No value" + (" of a run that was not disturbed" if self._apart else "")}
        band = self._band(values)
        cell = {"text": self._number(band.centre[0]), "title": ""}
        if method := METHODS[band.method[0]]:
            centre, low, high = (each[0] for each in (band.centre, band.low, band.high))
            is_symmetric = band.method[0] in SYMMETRIC
            ends = (
                f"± {self._number(high - centre, 2)}"
                if is_symmetric
                else f"({self._number(low)} – {self._number(high)})"
            )
            statistic = STATISTICS[self._view.stat] + ("" if is_symmetric else ",")
            cell = {"text": f"{cell['text']} {ends}", "title": f"{statistic} {method}, n={len(values)}"}
        return cell | self._delta(line, found) if (found := self.difference(line)) and self.base else cell

    def _delta(self, line: ComparedLine, found: MeanDifference) -> dict[str, str]:
        assert self.base
        said = [f"Difference of means to {self.base.name}: {signed(found.mean, self._number(abs(found.mean)))}"]
        few = [f"n={len(self.values(line))}", f"n={len(self.values(self.base))} in the baseline"]
        words, size = chance(found), ""
        if found.error is None:
            single = [each for each in few if each.split()[0] == "n=1"]
            if line.is_group or self.base.is_group:
                words, size = TOO_FEW if single else "equal values", few[0] if few[0] in single else ""
            said.append(f"No standard error: {' and '.join(single) or 'the values of each side are equal'}")
        else:
            ends = [signed(end, self._number(abs(end))) for end in found.interval or ()]
            few = [*few, f"it takes {FEWEST['mean']}"]
            said.append(f"95 % interval {' to '.join(ends)}" if ends else f"No 95 % interval: {', '.join(few)}")
        images = few_images(self._metric.name, [*line.runs, *self.base.runs], found.mean) if self._metric else ""
        is_percentage = self._metric is not None and self._metric.unit == "%"
        points = f"{signed(found.mean, self._number(abs(found.mean)))} points" if is_percentage else ""
        amount = " · ".join(filter(None, (in_percent_and_errors(found, points), size)))
        return {
            "delta": "\n".join(filter(None, (amount, words))),
            "tone": tone(found, self._better),
            "why": ". ".join(filter(None, (*said, images))),
        }

    def _text(self, run: RunRow) -> str:
        if self.name in NOTES:
            of_run = {"note": self._notes.get(run.id, ""), "tags": ", ".join(run.tags), "status": outcome(run)[1]}
            return str(of_run[self.name])
        held = shown(run, self.name)
        return "" if held is None else value_in_words(held)

    def _number(self, value: float, digits: int = 4) -> str:
        if abs(value) >= 1_000:
            return f"{value:,.0f}"
        return f"{value:.2f}" if self._metric and self._metric.unit == "%" else f"{value:.{digits}g}"

    @property
    def heads(self) -> list[str]:
        """The headings of its plain values in files."""
        parts = ("difference", "standard error", "difference, low", "difference, high") if self.base else ()
        return [column_title(self.name), *(f"{column_title(self.name)}, {part}" for part in parts if self._metric)]

    def plain(self, line: ComparedLine) -> list[float | str | None]:
        """Return the unrounded values of a line: its statistic, and its mean's difference to the baseline."""
        if not self._metric:
            return [", ".join(self.texts(line))]
        values, found = self.values(line), self.difference(line)
        low, high = (found.interval if found else None) or (None, None)
        of_base = [found.mean, found.error, low, high] if found else [None] * 4
        return [float(self._band(values).centre[0]) if values else None, *(of_base if self.base else ())]


def _sorted(
    lines: Sequence[ComparedLine],
    columns: Mapping[str, _Column],
    view: CompareView,
    pins: Sequence[int],
    base: ComparedLine | None,
) -> list[ComparedLine]:
    """Return the lines by the view's column, those without a value last; pinned ones stay first. Without a column the
    baseline is first of all.
    """
    column = columns.get(view.sort.removeprefix("-"))
    first = [line for line in lines if any(map(line.has, pins)) or (line is base and not column)]
    rest = [line for line in lines if line not in first]
    if column:
        orders = {line.runs[0].id: column.order(line) for line in rest}
        rest.sort(key=lambda line: orders[line.runs[0].id], reverse=view.sort.startswith("-"))
        rest.sort(key=lambda line: orders[line.runs[0].id][::2] == (True, ""))
    return [*first, *rest]


def _frame(lines: Sequence[ComparedLine], columns: Sequence[_Column]) -> Table:
    heads = [head for column in columns for head in column.heads]
    rows = [[line.name, len(line.runs), *(each for column in columns for each in column.plain(line))] for line in lines]
    return Table.of(("name", "n", *heads), rows)
