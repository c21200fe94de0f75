"""Groups of long runs on common bins, aggregated in the store: a million points are summed where they are stored
instead of being loaded.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.analysis.statistics.resample import MOST_CELLS, Aligned, Floats, edges_between
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
    found = {key: reader.multi_run.cells(marks, axis, edges.tolist()) for key, marks in known.items() if marks}
    rows = [_member([found[each.run_id, each.rank] for each in who.get(run.id, ())], edges.size - 1) for run in runs]
    values = np.stack(rows)
    lows, highs = edges[:-1], edges[1:]
    some = np.isfinite(values).any(axis=0)
    centres = np.sqrt(lows * highs) if log else (lows + highs) / 2
    return Aligned(centres[some], values[:, some], False, width)


def _member(ranks: Sequence[Sequence[BinnedCell]], count: int) -> Floats:
    """Return a run's value in each bin, over its ranks: the mean of the finite points; in a bin without points, the
    last earlier point, within the run's range.
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
