"""The Results page's table and what can be done with the rows that are ticked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from app.actions.annotations import baseline_beside, mark_selected
from app.export.downloads import download
from app.links import compare
from app.links.compare import query_of
from app.runs import query, table
from app.runs.columns import measured, told
from app.runs.import_dialog import import_button
from app.runs.query import RunsView
from app.runs.report import report_of
from app.runs.table import TableRow
from app.ui import widgets
from engine.store import Reader
from engine.store.records import ENDED
from engine.store.sweeps.sweeps import SEED

PAGE = 500
ROW_PX = 33
TALLEST = 21


@dataclass(frozen=True)
class Found:
    """One page of a view's rows."""

    lines: Sequence[TableRow]
    runs: int
    rows: int
    """How many runs match, and how many rows they make."""


def find(reader: Reader, view: RunsView) -> Found:
    """Ask for the rows of the page that is chosen, and show the choice where there are several."""
    runs = reader.runs.count(**view.asked)
    rows = reader.groups.count(**view.asked) if view.grouped else runs
    pages = -(-rows // PAGE)
    page = 1
    if pages > 1:
        if st.session_state.get("page", 1) > pages:
            st.session_state["page"] = pages
        page = st.pagination(pages, key="page", bind="query-params")
    asked = view.asked | {"order": view.order, "limit": PAGE, "offset": PAGE * (page - 1)}
    lines = (
        table.group_lines(reader.groups.find(**asked)) if view.grouped else table.run_lines(reader.runs.find(**asked))
    )
    return Found(lines, runs, rows)


def baselines(reader: Reader, view: RunsView, lines: Sequence[TableRow]) -> tuple[Mapping[str, TableRow], str]:
    """Return the row that each experiment's rows are compared with, and a sentence where the one asked for is not
    there.
    """
    there = dict.fromkeys(line.experiment for line in lines)
    if view.baseline is not None:
        runs = reader.runs.some([view.baseline])
        if not runs:
            return (
                {},
                (
                    f"No run has the id {view.baseline}, so there is nothing to compare with. Give the number of "
                    "another one under View."
                ),
            )
        pinned = dict.fromkeys(there, runs[0])
    else:
        pinned = {name: run for name, run in reader.runs.pinned().items() if name in there}
    rows = {run.id: run for run in pinned.values()}
    made = {
        run.id: table.group_lines([reader.groups.of(run.id)])[0] if view.grouped else table.run_lines([run])[0]
        for run in rows.values()
    }
    return {name: _marked(made[run.id]) for name, run in pinned.items()}, ""


def on_top(tops: Mapping[str, TableRow], lines: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows with the baselines first, each once."""
    first = list({line.run_ids: line for line in tops.values()}.values())
    taken = {run_id for line in first for run_id in line.run_ids}
    return [*first, *(line for line in lines if not taken.intersection(line.run_ids))]


def show(reader: Reader, view: RunsView, found: Found) -> None:
    """Show the rows, and above them what can be done with those that are ticked."""
    tops, problem = baselines(reader, view, found.lines)
    if problem:
        st.warning(problem)
    lines = on_top(tops, found.lines)
    numbers = measured(reader, [run_id for line in lines for run_id in line.counted], view.columns)
    words = told(reader, [run_id for line in lines for run_id in line.run_ids], view.columns)
    frame = table.table(
        lines,
        view.columns,
        numbers,
        words=words,
        spread=view.grouped,
        baselines=tops if view.compared and tops else None,
    )
    # One row high whatever is ticked (console.css): a table that moved would take the next tick for another row's.
    actions = st.container(horizontal=True, vertical_alignment="center", gap="small", key="results-actions")
    st.caption(_counted(view, found, bool(tops)))
    chosen = st.dataframe(
        frame,
        column_config=table.columns_shown(view.columns, spread=view.grouped),
        hide_index=True,
        height=min(TALLEST, len(lines) + 1) * ROW_PX + 2,
        row_height=ROW_PX,
        placeholder="",
        # Ticks are kept by a row's place: with other rows in the table they would mean other runs.
        key=f"results-{hash(tuple(line.run_ids for line in lines))}",
        on_select="rerun",
        selection_mode="multi-row",
        alt="One row a run or a config: what it is, its owner, status, times, settings and metrics",
    )
    ticked = [lines[row] for row in chosen.selection.rows]
    ids = [run_id for line in ticked for run_id in line.run_ids]
    with actions:
        if ticked:
            _act(reader, ids, compared(ticked, grouped=view.grouped))
        else:
            st.caption("Tick rows to open, compare or mark them.")
    with st.container(horizontal=True):
        statuses = reader.runs.statuses()
        ended = [
            run_id
            for run_id in ids or [run_id for line in lines for run_id in line.run_ids]
            if statuses.get(run_id) in ENDED
        ]
        shown = [run_id for line in lines for run_id in line.run_ids]
        download(
            "results", key="results", tables={"The table": frame}, runs=ended, report=report_of(view, frame, shown)
        )
        import_button()


def _marked(line: TableRow) -> TableRow:
    """Return a row that says that it is a baseline."""
    words = str(line.cells["marks"])
    return (
        line
        if "baseline" in words
        else replace(line, cells={**line.cells, "marks": ", ".join(filter(None, ("baseline", words)))})
    )


def nothing(reader: Reader, view: RunsView) -> None:
    """Say why no row is there, and what to do about it."""
    if not reader.runs.count():
        widgets.empty("No run has been launched yet; the results of every run will stand here.", "Launch one", "launch")
        return
    with st.container(border=True):
        away = reader.runs.count(**view.asked | {"archived": True}) if view.archived is False else 0
        if away:
            st.write(
                f"{away:,} {'run that matches is' if away == 1 else 'runs that match are'} archived: switch on "
                "Archived runs too, under View."
            )
        elif query.is_narrowed():
            st.write("No run matches. Take a condition away, or look at all runs.")
        else:
            st.write("All runs are archived: switch on Archived runs too, under View.")
        if query.is_narrowed():
            st.button("Look at all runs", on_click=query.clear)


def compared(ticked: Sequence[TableRow], *, grouped: bool) -> dict[str, str]:
    """Return the query of the Compare page for ticked rows: a row that stands for a group is the same group there, of
    the runs that its numbers are of.
    """
    if not grouped:
        return query_of(compare.CompareView(runs=tuple(run_id for line in ticked for run_id in line.run_ids)))
    names = dict.fromkeys(name for line in ticked for name in line.config)
    apart = [name for name in names if name != SEED and len({repr(line.config.get(name)) for line in ticked}) > 1]
    several = len({line.experiment for line in ticked}) > 1
    runs = tuple(run_id for line in ticked for run_id in line.counted or line.run_ids)
    return query_of(compare.CompareView(runs=runs, group=tuple(["experiment"] * (several or not apart) + apart)))


def _act(reader: Reader, ids: Sequence[int], comparison: dict[str, str]) -> None:
    runs = reader.runs.some(ids)
    st.caption(f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'} ticked.", width="content")
    if len(runs) == 1:
        st.page_link(
            widgets.PAGES["run"], label=f"Open run {runs[0].id}", query_params={"run": str(runs[0].id)}, width="content"
        )
    if "compare" in widgets.PAGES:
        st.page_link(widgets.PAGES["compare"], label="Compare", query_params=comparison, width="content")
    mark_selected(runs, baseline_beside(reader, runs[0].experiment) if len(runs) == 1 else None)


def _counted(view: RunsView, found: Found, has_baseline: bool) -> str:
    counted = f"{found.runs:,} {'run' if found.runs == 1 else 'runs'}"
    if view.grouped:
        counted += (
            f" of {found.rows:,} {'config' if found.rows == 1 else 'configs'}; means and sd are those of the runs "
            "that finished"
        )
    if found.rows > len(found.lines):
        counted += f", {len(found.lines):,} rows on this page"
    difference = " Δ is the difference to the baseline on top." if has_baseline and view.compared else ""
    return f"{counted}. A click on a column's head sorts this page, Sort by sorts all.{difference}"
