"""Groups of long runs on common bins, aggregated in the store: a million points are summed where they are stored
instead of being loaded.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.analysis.statistics.resample import (
    MOST_CELLS,
    Aligned,
    Floats,
    between,
    centres_of,
    edges_between,
    of_all,
)
from engine.store import Reader, RecordedMetric
from engine.store.curves.binned_sums import BinnedCell
from engine.store.curves.series import Axis
from engine.store.records import RunRow

LONG = 10_000
"""Number of points from which aggregation in the store pays off."""


def in_cells(
    reader: Reader, runs: Sequence[RunRow], who: Mapping[int, Sequence[RecordedMetric]], axis: Axis, *, log: bool
) -> Aligned | None:
    """Return the same as `aligned` for all raw points of the runs; None if `aligned` has to be used.

    That is the case for short curves, thinned or non-monotone ones, and for so few recorded positions that each is
    drawn separately.
    """
    every = [each for run in runs for each in who.get(run.id, ())]
    if not every or min(each.total for each in every) < LONG:
        return None
    known = {
        (each.run_id, each.rank): reader.multi_run.marks(each.run_id, each.metric, each.rank, axis) for each in every
    }
    there = [marks for marks in known.values() if marks]
    if len(there) < len(known):
        return None
    firsts = [first for marks in there if (first := marks.positive if log else marks.at[0]) is not None]
    low, high = min(firsts, default=0.0), max(marks.end for marks in there)
    if not firsts:
        return None
    edges, width = edges_between(low, high, log, MOST_CELLS)
    if max(reader.multi_run.positions(marks, axis, low, MOST_CELLS + 1) for marks in there) <= MOST_CELLS:
        return None
    centres = centres_of(edges, log)
    found = {key: reader.multi_run.cells(marks, axis, edges.tolist()) for key, marks in known.items() if marks}
    recorded = {key: cells for key, cells in found.items() if any(cell.finite for cell in cells)}
    ranks = [
        [recorded[key] for each in who.get(run.id, ()) if (key := (run.id, each.rank)) in recorded] for run in runs
    ]
    values = np.stack([of_all([_row(cells, centres) for cells in run], centres.size) for run in ranks])
    some = np.isfinite(values).any(axis=0)
    return Aligned(centres[some], values[:, some], False, width, np.array([bool(run) for run in ranks]))


def _row(cells: Sequence[BinnedCell], centres: Floats) -> Floats:
    """Return a rank's value in each bin: the mean of its finite points; in a bin without points, the straight line
    between its neighbouring points.
    """
    found: Floats = np.full(centres.size, np.nan)
    for place, cell in enumerate(cells):
        if cell.finite:
            found[place] = cell.total / cell.finite
        elif not cell.points and cell.before and cell.after:
            ends = ((x, np.nan if y is None else y) for x, y in (cell.before, cell.after))
            found[place] = between(centres[place], *ends)
    return found
