"""The table of the Runs page: its rows, its downloads, and the actions on selected rows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from app.actions.annotations import baseline_beside, mark_selected, undo_last
from app.actions.queue_actions import cancel_selected, delete_selected, in_short, queue_selected
from app.core.formatting import duration
from app.export.view_report import RUNS, Seen, download, here, rows_of, view_report
from app.links import compare
from app.links.compare import query_of
from app.links.launch import clone_query
from app.report import page_capture
from app.report.document import of_frame
from app.runs import frame, grid, query, rows
from app.runs.columns import disturbed, measured, texts, with_units
from app.runs.import_dialog import import_button
from app.runs.query import RunsView
from app.runs.rows import TableRow
from app.ui import current_user, widgets
from app.ui.html import as_text, nowrap, run_link, table, wide
from app.ui.run_state import time_left, waiting
from app.ui.widgets import title_of
from engine.analysis.result import Ranked, ranked
from engine.analysis.run_values import changed, shown_config
from engine.errors import EngineError
from engine.home import Home
from engine.queue.forecast import Wait
from engine.registry import known_experiment
from engine.store import Reader, RunRow
from engine.store.records import ENDED
from engine.store.sweeps.sweeps import SEED
from engine.transfer.tables import Table

PAGE = 200
MOST_AT_ONCE = 2_000
"""Runs that are selected at most, beyond a page."""
_EVERY = "runs.every.of"
"""The address of the view whose matching runs are all selected."""
MOST_DOWNLOADED = 10_000


@dataclass(frozen=True)
class Found:
    """One page of rows."""

    rows: Sequence[TableRow]
    runs: int
    total: int
    """Number of matching runs, and number of rows that they make."""


def find(reader: Reader, view: RunsView) -> Found:
    """Return the rows of the selected page, and show the page control if there are several."""
    runs = reader.runs.count(**view.asked)
    total = (
        reader.groups.count(**view.asked)
        if view.grouped
        else reader.folds.count(**view.asked)
        if view.is_folded
        else runs
    )
    pages = -(-total // PAGE)
    page = 1
    if pages > 1:
        if st.session_state.get("table-page", 1) > pages:
            st.session_state["table-page"] = pages
        page = st.pagination(pages, key="table-page", bind="query-params")
    asked = view.asked | {"limit": PAGE, "offset": PAGE * (page - 1)}
    if view.is_folded:
        return Found(rows.fold_rows(reader, reader.folds.find(**asked), grid.opened()), runs, total)
    asked |= {"order": view.order}
    found = rows.group_rows(reader.groups.find(**asked)) if view.grouped else rows.run_rows(reader.runs.find(**asked))
    return Found(found, runs, total)


def baselines(reader: Reader, view: RunsView, shown: Sequence[TableRow]) -> tuple[Mapping[str, TableRow], str]:
    """Return the baseline row of each experiment, and an error message if the requested baseline doesn't exist."""
    there = dict.fromkeys(row.experiment for row in shown)
    if view.baseline is not None:
        runs = reader.runs.some([view.baseline])
        if not runs:
            return {}, f"Baseline run {view.baseline} doesn't exist. Enter another run number under Display."
        pinned = dict.fromkeys(there, runs[0])
    else:
        pinned = {name: run for name, run in reader.runs.pinned().items() if name in there}
    made = {
        run.id: rows.group_rows([reader.groups.of(run.id)])[0] if view.grouped else rows.run_rows([run])[0]
        for run in {run.id: run for run in pinned.values()}.values()
    }
    return {name: _marked(made[run.id]) for name, run in pinned.items()}, ""


def on_top(tops: Mapping[str, TableRow], shown: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows with the baselines first, and not again below, except within their sweep or duel."""
    first = list({row.run_ids: row for row in tops.values()}.values())
    taken = {run_id for row in first for run_id in row.run_ids}
    return [*first, *(row for row in shown if row.fold or row.is_child or not taken.intersection(row.run_ids))]


def show(reader: Reader, view: RunsView, found: Found, waits: Mapping[int, Wait]) -> None:
    """Show the rows, with the actions on selected rows above them."""
    tops, problem = baselines(reader, view, found.rows)
    if problem:
        st.warning(problem)
    shown = _with_origins(reader, on_top(tops, found.rows))
    values = _values(reader, view, shown, tops)
    columns = with_units(view.columns, _runs_of(reader, shown))
    cells = frame.cells_of(shown, columns, **values)
    data = grid.grid_of(
        shown,
        cells,
        columns,
        _facts(reader, shown, waits),
        sort=(view.order.field.written, view.order.descending) if view.order else None,
        view=here(""),
    )
    # Fixed height (console.css): if the table moved, the next click would select another row.
    actions = st.container(horizontal=True, vertical_alignment="center", gap="small", key="runs-actions")
    chosen = grid.show(data, query.sort_by_heading)
    ticked = [row for row in shown if row.key in chosen]
    ids = list(dict.fromkeys(run_id for row in ticked for run_id in row.run_ids))
    every = bool(ticked) and len(ticked) == len(shown) and found.total > len(shown)
    if every and st.session_state.get(_EVERY) == here(""):
        ids = reader.runs.ids(limit=MOST_AT_ONCE, **view.asked)
    else:
        st.session_state.pop(_EVERY, None)
    with actions:
        if ticked:
            one = ticked[0] if len(ticked) == 1 and not ticked[0].fold else None
            comparison = compared(ticked, grouped=view.grouped)
            if _EVERY in st.session_state:
                few = len(ids) <= compare.MOST_RUNS
                comparison = query_of(compare.CompareView(runs=tuple(ids))) if few else {}
            _act(reader, ids, _of_all(found, reader.runs.count()), comparison, one)
            if every and _EVERY not in st.session_state:
                most = f"all {found.runs:,}" if found.runs <= MOST_AT_ONCE else f"the newest {MOST_AT_ONCE:,}"
                label = f"Select {most} that match"
                st.button(label, key="runs.every", on_click=st.session_state.update, args=({_EVERY: here("")},))
        else:
            st.caption(_counted(view, found, tops, values["disturbed"], reader.runs.count()), width="content")
        if query.is_narrowed():
            st.button("Clear filters", key="runs.clear", on_click=query.clear, type="tertiary")
        undo_last()
    with st.container(horizontal=True, vertical_alignment="center"):
        statuses = reader.runs.statuses()
        on_page = list(dict.fromkeys(run_id for row in shown for run_id in row.run_ids))
        download(
            "runs",
            key="runs",
            tables={"The table as shown": lambda: _whole(view), RUNS: lambda: rows_of(_matching(view, ids))},
            runs=[run_id for run_id in ids or on_page if statuses.get(run_id) in ENDED],
            report=report_of(view, lambda: _whole(view), on_page),
        )
        import_button()
        with st.container(key="runs-keys", width="content"):
            st.caption("Keys: j and k move, x selects, Enter opens, o unfolds, c compares, Esc clears the selection.")


def _matching(view: RunsView, ids: Sequence[int]) -> Sequence[RunRow]:
    """Return the selected runs, else all matching ones, up to `MOST_DOWNLOADED`."""
    with Reader.open(Home.find()) as reader:
        if ids:
            return reader.runs.some(ids)
        return reader.runs.find(**view.asked | {"order": view.order, "limit": MOST_DOWNLOADED})


def _whole(view: RunsView) -> Table:
    """Return all matching rows, one per run or config, up to `MOST_DOWNLOADED`."""
    with Reader.open(Home.find()) as reader:
        asked = view.asked | {"order": view.order, "limit": MOST_DOWNLOADED}
        found = (
            rows.group_rows(reader.groups.find(**asked)) if view.grouped else rows.run_rows(reader.runs.find(**asked))
        )
        tops, _ = baselines(reader, view, found)
        shown = on_top(tops, found)
        columns = with_units(view.columns, _runs_of(reader, shown))
        made = frame.table(shown, columns, **_values(reader, view, shown, tops))
        return of_frame(made.rename(columns=frame.headings(columns)))


def _runs_of(reader: Reader, shown: Sequence[TableRow]) -> list[RunRow]:
    """Return a run of each row."""
    return [
        *(row.run for row in shown if row.run),
        *reader.runs.some([row.run_ids[-1] for row in shown if not row.run and row.run_ids]),
    ]


def _values(reader: Reader, view: RunsView, shown: Sequence[TableRow], tops: Mapping[str, TableRow]) -> dict[str, Any]:
    """Return the arguments of `frame.cells_of` beside rows and columns."""
    return {
        "numbers": measured(reader, counted := [run_id for row in shown for run_id in row.counted], view.columns),
        "disturbed": disturbed(reader, counted),
        "words": texts(reader, [run_id for row in shown for run_id in row.run_ids], view.columns),
        "spread": view.grouped,
        "baselines": tops if view.compared and tops else None,
    }


def _facts(reader: Reader, shown: Sequence[TableRow], waits: Mapping[int, Wait]) -> grid.RowFacts:
    runs = [row.run for row in shown if row.run and not row.fold]
    results: dict[int, Ranked] = {run.id: found for run in runs if (found := ranked(run))}
    by_metric: dict[str, list[int]] = {}
    for run in runs:
        if known := known_experiment(run.experiment):
            by_metric.setdefault(known.result.metric, []).append(run.id)
        elif result := results.get(run.id):
            by_metric.setdefault(result.result.metric, []).append(run.id)
    sparklines = {
        run_id: values
        for metric, ids in by_metric.items()
        for run_id, values in reader.sparklines.of(ids, metric).items()
    }
    reasons = {
        run.id: in_short(run, waits.get(run.id), reader) if run.status == "queued" else time_left(run, reader)
        for run in runs
        if run.status in ("queued", "running")
    }
    return grid.RowFacts(results, sparklines, reasons)


def _with_origins(reader: Reader, rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows, those of clones marked with the run that each began as and with what changed since."""
    clones = reader.runs.clones_among([row.run.id for row in rows if row.run and not row.fold])
    origins = {run.id: run for run in reader.runs.some(list(set(clones.values())))}

    def marked(row: TableRow) -> TableRow:
        if not row.run or row.fold or row.run.id not in clones:
            return row
        of = clones[row.run.id]
        known = origins.get(of)
        change = changed(shown_config(known), shown_config(row.run)) or "the same settings" if known else "deleted"
        return replace(_with_mark(row, f"clone of {of}"), origin=f"clone of {of}: {change}")

    return list(map(marked, rows))


def _marked(row: TableRow) -> TableRow:
    """Return a row marked as a baseline."""
    return row if "baseline" in str(row.cells["marks"]) else _with_mark(row, "baseline")


def _with_mark(row: TableRow, word: str) -> TableRow:
    return replace(row, cells={**row.cells, "marks": ", ".join(filter(None, (word, str(row.cells["marks"]))))})


def nothing(reader: Reader, view: RunsView) -> None:
    """Explain why there are no rows, and offer a fix."""
    if not reader.runs.count():
        widgets.empty("No runs yet. Runs and their results appear here.", "Launch a run", "launch")
        return
    undo_last()
    with st.container(border=True):
        away = reader.runs.count(**view.asked | {"archived": True}) if view.archived is False else 0
        if away:
            st.write(
                f"{away:,} {'matching run is' if away == 1 else 'matching runs are'} archived. Turn on Archived runs "
                f"under Display to show {'it' if away == 1 else 'them'}."
            )
        elif query.is_narrowed():
            st.write(as_text(f"No matching runs. {query.conditions()}. Remove a condition or clear all filters."))
        else:
            st.write("All runs are archived. Turn on Archived runs under Display to show them.")
        if query.is_narrowed():
            st.button("Clear filters", on_click=query.clear)


def compared(ticked: Sequence[TableRow], *, grouped: bool) -> dict[str, str]:
    """Return the Compare query for the selected rows. A grouped row becomes the same group there, with the runs behind
    its numbers.
    """
    if not grouped:
        ids = dict.fromkeys(run_id for row in ticked for run_id in sorted(row.run_ids))
        return query_of(compare.CompareView(runs=tuple(ids)))
    names = dict.fromkeys(name for row in ticked for name in row.config)
    apart = [name for name in names if name != SEED and len({repr(row.config.get(name)) for row in ticked}) > 1]
    several = len({row.experiment for row in ticked}) > 1
    runs = tuple(run_id for row in ticked for run_id in row.counted or row.run_ids)
    return query_of(compare.CompareView(runs=runs, group=tuple(["experiment"] * (several or not apart) + apart)))


def _act(reader: Reader, ids: Sequence[int], shown: str, comparison: dict[str, str], one: TableRow | None) -> None:
    """Show the actions on selected runs, of those `shown`; `one` is the only selected row, if that is a run or a
    group.
    """
    runs = reader.runs.some(ids)
    stands = next((run for run in runs if run.pinned_by), None)  # a group is pinned by one of its runs
    if one and not stands:
        stands = next((run for run in runs if run.id == max(one.counted or one.run_ids)), None)
    st.caption(f"{len(runs):,} {'run' if len(runs) == 1 else 'runs'} selected, {shown}", width="content")
    if len(runs) == 1:
        st.page_link(
            widgets.PAGES["run"], label=f"Open run {runs[0].id}", query_params={"run": str(runs[0].id)}, width="content"
        )
        _clone_link(runs[0])
    if comparison:
        st.page_link(widgets.PAGES["compare"], label="Compare", query_params=comparison, width="content")
    else:
        st.caption(f"Compare: of at most {compare.MOST_RUNS} runs", width="content")
    queue_selected(runs)
    cancel_selected(runs)
    mark_selected(runs, stands if one else None, baseline_beside(reader, stands.experiment) if one and stands else None)
    delete_selected(runs)


def _clone_link(run: RunRow) -> None:
    """Show a link to the launch form with the run's settings, if its experiment is known and the person may launch."""
    if not current_user.may("launch"):
        return
    with suppress(EngineError):
        st.page_link(widgets.PAGES["launch"], label="Clone", query_params=clone_query(run), width="content")


def _of_all(found: Found, of: int) -> str:
    """Return how many runs are shown, of all if a control narrows them."""
    if query.is_narrowed():
        return f"{found.runs:,} of {of:,} runs"
    return f"{found.runs:,} {'run' if found.runs == 1 else 'runs'}"


def _counted(view: RunsView, found: Found, tops: Mapping[str, TableRow], disturbed: Collection[int], of: int) -> str:
    counted = _of_all(found, of)
    if view.grouped:
        counted += f" in {found.total:,} {'config' if found.total == 1 else 'configs'}; mean and sd over finished runs"
    if found.total > len(found.rows):
        counted += f", {PAGE:,} rows per page"
    difference = " Δ: difference to the baseline (top row)." if tops and view.compared else ""
    if difference and any(set(row.counted) <= set(disturbed) for row in tops.values()):
        difference += " A baseline was disturbed: no differences of times."
    if view.grouped and disturbed:
        difference += " Means of times leave out disturbed runs."
    return f"{counted}. Select rows to open, compare or mark them.{difference}"


# ------------------------------------------------------------------------------------------------------------------
# The queue on the Runs page: waiting runs in start order, with the reason and the estimated start of each.


def show_queue(waits: Mapping[int, Wait], total: int, held: int) -> None:
    """Show the queue, collapsed; nothing if no run is waiting. `held` of its `total` runs are on hold."""
    if not waits:
        return
    with st.expander(f"Queue: {waiting(total, held)}"):
        rows = [_row(wait) for wait in waits.values()]
        headers = ("Position", "Run", "Owner", "Priority", "Duration", "Estimated start", "Reason")
        st.html(table(headers, rows, caption="Queue in start order"))
        st.caption("To hold or move queued runs, select them in the table above and press Queue.")
        if total > len(waits):
            st.caption(f"First {len(waits)} of {total:,}")


def _row(wait: Wait) -> list[str]:
    run = wait.run
    place = "–" if wait.position is None else f"{wait.position:,}"
    limited = " (limit)" if wait.takes and wait.takes.whole_s is not None else ""
    takes = f"{duration(wait.takes.median)}{limited}" if wait.takes else "–"
    starts = wait.start or "–"
    return [
        place,
        wide(run_link(f"{run.id}: {title_of(run)}", run.id)),
        run.owner,
        run.priority,
        *map(nowrap, (takes, starts)),
        wide(wait.reason),
    ]


# ------------------------------------------------------------------------------------------------------------------
# The table of runs as a report: the query, the table as shown, and settings, environments and commands of its runs.


def report_of(view: RunsView, whole: Callable[[], Table], run_ids: Sequence[int]) -> Callable[[], bytes]:
    """Return the function that makes the report of the rows shown, for these run ids; data is read only when it is
    called.
    """
    title = "Runs, grouped by seed" if view.grouped else "Runs"
    address, by, ids = widgets.page_address(here("/runs")), current_user.whoever(), list(run_ids)
    with page_capture.keeping() as shown:
        page_capture.facts("Query", query_facts(view))
        page_capture.table("The table as shown", whole)

    def made() -> bytes:
        with Reader.open(Home.find()) as reader:
            runs = tuple(reader.runs.some(ids))
        return view_report(Seen(title, address, shown, runs), by)

    return made


def query_facts(view: RunsView) -> list[tuple[str, str]]:
    """Return the query of a view in words: its conditions and order."""
    return [
        ("Filter", view.matching.text if view.matching else ""),
        ("Search", view.search),
        ("Experiments", ", ".join(view.experiments)),
        ("Owners", ", ".join(view.owners)),
        ("Status", ", ".join(view.statuses or ())),
        ("Archived runs", "included" if view.archived is None else ""),
        (
            "Sorted by",
            f"{view.order.field.written}, {'descending' if view.order.descending else 'ascending'}"
            if view.order
            else "highest number first",
        ),
    ]
