"""Bands: what is recorded once an episode, over all ranks, in a bounded number of bins with mean and spread; no episode
is left out.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from engine.store.connection import Connection
from engine.store.curve_records import Band, Bin

BINS = 64
"""At most so many bins; when there are more, they join two by two, each then of twice as many values."""
RUNNING = 100
"""The running mean is over so many values: the count over which gymnasium's registry calls an environment solved."""

_NEW = (
    "SELECT id, step, time_s, value FROM points WHERE metric_id IN (SELECT id FROM metrics WHERE run_id = ? "
    "AND name = ?) "
    "AND id > ? AND value IS NOT NULL ORDER BY id"
)
_TOTAL = "SELECT sum(count) FROM metrics WHERE run_id = ? AND name = ?"


def count_band(reader: Connection, run_id: int, metric: str, before: Band | None = None) -> Band | None:
    """Return the band of a metric; None where the run has no finite point of it.

    Values of all ranks stand in the order recorded. Only points newer than `before`, an earlier answer, are read; where
    it does not fit the run, all are.
    """
    nothing = Band(metric, (), 1, (), 0)
    with reader.snapshot():
        total = reader.rows(_TOTAL, [run_id, metric])[0][0] or 0
        found = _with_new(reader, run_id, before or nothing)
        if found.total != total:
            found = _with_new(reader, run_id, nothing)
    return found if found.bins else None


def _with_new(reader: Connection, run_id: int, known: Band) -> Band:
    bins, width, recent, last_id = list(known.bins), known.width, deque(known.recent, RUNNING), known.last_id
    for point_id, step, time_s, value in reader.rows(_NEW, [run_id, known.metric, known.last_id]):
        last_id = point_id
        recent.append(value)
        one = Bin(1, step, time_s, value, 0.0, value, value, sum(recent) / len(recent))
        if bins and bins[-1].count < width:
            bins[-1] = joined(bins[-1], one)
        else:
            bins.append(one)
        if len(bins) > BINS:
            bins, width = _paired(bins), 2 * width
    return replace(known, bins=tuple(bins), width=width, recent=tuple(recent), last_id=last_id)


def _paired(bins: Sequence[Bin]) -> list[Bin]:
    pairs = [joined(first, second) for first, second in zip(bins[::2], bins[1::2], strict=False)]
    return pairs + list(bins[2 * len(pairs) :])


def joined(first: Bin, second: Bin) -> Bin:
    """Return two neighbours as one (Chan, Golub and LeVeque's way of joining means and squares)."""
    count = first.count + second.count
    share, shift = second.count / count, second.mean - first.mean
    return Bin(
        count,
        first.step + (second.step - first.step) * share,
        first.time_s + (second.time_s - first.time_s) * share,
        first.mean + shift * share,
        first.squares + second.squares + shift * shift * first.count * share,
        min(first.low, second.low),
        max(first.high, second.high),
        second.running,
    )
