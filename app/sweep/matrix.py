"""A sweep's runs as a matrix: columns are values of the first field, rows are values of the second field and seeds;
each cell links to its run.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from app.core.formatting import duration
from app.ui.html import cell_link, nowrap, number, table
from app.ui.run_state import STATUS_SIGNS, cause_of, outcome
from engine.analysis.comparability import in_words
from engine.analysis.run_values import cell_of, fields_in_words, label, tries
from engine.config_values import value_in_words
from engine.store import Sweep
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

MOST_ACROSS = 12
"""With more columns than this, and more columns than rows, the matrix is transposed."""
CAPTION = "Sweep runs"


def matrix(sweep: Sweep, runs: Sequence[RunRow]) -> str:
    """Return the matrix as HTML; a cell with several attempts shows the newest and the number of attempts."""
    cells = tries(sweep, runs)
    if sweep.draw:
        return _drawn_matrix(sweep, cells)
    first, *others = sweep.fields
    across = [{first: value} for value in sweep.grid[first]]
    names = (*others, SEED)
    down = [dict(zip(names, values, strict=True)) for values in product(*(sweep.grid[name] for name in names))]
    if len(across) > max(MOST_ACROSS, len(down)):
        across, down = down, across
    corner = "" if len(down) > 1 or len(across) > 1 else "run"
    rows = [
        [
            nowrap(fields_in_words(row)),
            *(_cell(cells.get(cell_of(sweep, row | column), [])) for column in across),
        ]
        for row in down
    ]
    return table([corner, *map(fields_in_words, across)], rows, caption=CAPTION, even=True)


def _drawn_matrix(sweep: Sweep, cells: Mapping[tuple[Any, ...], list[RunRow]]) -> str:
    """Return a row for each drawn combination, in draw order, and a column for each seed."""
    rows = [
        [
            *(value_in_words(value) for value in chosen),
            *(_cell(cells.get((*chosen, seed), [])) for seed in sweep.seeds),
        ]
        for chosen in dict.fromkeys(key[:-1] for key in cells)
    ]
    return table(
        [*map(label, sweep.fields), *(f"seed {seed}" for seed in sweep.seeds)], rows, caption=CAPTION, even=True
    )


def _cell(tried: Sequence[RunRow]) -> str:
    if not tried:
        return "–"
    run = tried[-1]
    status, word = outcome(run)
    says = {"finished": _time(run.execution_time_s), "running": f"running {run.progress:.0%}"}.get(run.status, word)
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
