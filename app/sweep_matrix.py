"""A sweep's runs as a matrix: values of the first field across, those of the second and the seeds down; each cell links to its run."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import product
from typing import Any

from app.durations import duration
from app.markup import number, table
from engine.store import Sweep
from engine.store.records import RunRow, Status
from engine.sweep import told

MOST_ACROSS = 12
"""With more columns than this, and more than rows, the matrix is turned round."""
SIGNS: dict[Status, str] = {
    "queued": "○",
    "starting": "◔",
    "running": "◑",
    "stopping": "◌",
    "finished": "●",
    "failed": "✕",
    "cancelled": "⊘",
    "lost": "?",
}


def matrix(sweep: Sweep, runs: Sequence[RunRow]) -> str:
    """Return the matrix as HTML; a cell that several runs share shows the newest."""
    cells = {_key(sweep, run.config): run for run in runs}
    first, *others = sweep.fields
    across = [{first: value} for value in sweep.grid[first]]
    names = (*others, "seed")
    down = [dict(zip(names, values, strict=True)) for values in product(*(sweep.grid[name] for name in names))]
    if len(across) > max(MOST_ACROSS, len(down)):
        across, down = down, across
    corner = "" if len(down) > 1 or len(across) > 1 else "run"
    rows = [[f'<span class="pl-nowrap">{escape(told(row))}</span>', *(_cell(cells.get(_key(sweep, row | column))) for column in across)] for row in down]
    return table([corner, *(told(column) for column in across)], rows, caption="The sweep's runs")


def _key(sweep: Sweep, values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values.get(name) for name in sweep.grid)


def _cell(run: RunRow | None) -> str:
    if run is None:
        return "–"
    says = {"finished": _time(run.execution_time_s), "running": f"running {run.progress:.0%}"}.get(run.status, run.status)
    title = escape(f"Run {run.id}: {run.status}. {run.cause}".strip())
    return f'<a class="pl-cell pl-{run.status}" href="/run?run={run.id}" title="{title}"><span aria-hidden="true">{SIGNS[run.status]}</span> {escape(says)}</a>'


def _time(seconds: float | None) -> str:
    """Return an execution time with the figures that one compares by."""
    return f"{number(seconds, 3)} s" if seconds is not None and seconds < 100 else duration(seconds)
