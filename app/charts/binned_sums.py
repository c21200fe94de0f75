"""Groups of long runs on common cells that the store adds up itself: a million points are summed where they lie, not
brought here first.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.analysis.statistics.resample import MOST_CELLS, Aligned, Floats, edges_between
from engine.store import Reader, RecordedMetric
from engine.store.curves.binned_sums import BinnedCell
from engine.store.curves.series import Axis
from engine.store.records import RunRow

LONG = 10_000
"""Points from which on a curve is worth it."""


def in_cells(
    reader: Reader, runs: Sequence[RunRow], who: Mapping[int, Sequence[RecordedMetric]], axis: Axis, *, log: bool
) -> Aligned | None:
    """Return what `aligned` gives for all raw points of the runs, None where it takes these themselves.

    That is where a curve is short, was thinned or goes back along the axis, and where so few positions were recorded
    that they are drawn one by one.
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
    found = {key: reader.multi_run.cells(marks, axis, edges.tolist()) for key, marks in known.items() if marks}
    rows = [_member([found[each.run_id, each.rank] for each in who.get(run.id, ())], edges.size - 1) for run in runs]
    values = np.stack(rows)
    lows, highs = edges[:-1], edges[1:]
    some = np.isfinite(values).any(axis=0)
    centres = np.sqrt(lows * highs) if log else (lows + highs) / 2
    return Aligned(centres[some], values[:, some], False, width)


def _member(ranks: Sequence[Sequence[BinnedCell]], count: int) -> Floats:
    """Return a run's value in each cell, over its ranks: the mean of the finite points; where none has a point, the
    last one before, between its ends.
    """
    found: Floats = np.full(count, np.nan)
    filled = [place for place in range(count) if any(of_rank[place].points for of_rank in ranks)]
    for place in range(filled[0], filled[-1] + 1) if filled else ():
        own = [of_rank[place] for of_rank in ranks]
        if any(cell.points for cell in own):
            finite = sum(cell.finite for cell in own)
            found[place] = sum(cell.total for cell in own) / finite if finite else np.nan
        else:
            _, value = max((cell.before for cell in own if cell.before), key=lambda before: before[0])
            found[place] = np.nan if value is None else value
    return found
