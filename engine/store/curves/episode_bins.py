"""Bands of per-episode metrics over all ranks: a bounded number of bins with mean and spread; every episode counts."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from engine.store.connection import Connection
from engine.store.curve_records import Band, Bin
from engine.store.curves.heatmap import FINITE_POINTS

BINS = 64
"""Maximum number of bins; beyond it, pairs are merged."""
RUNNING = 100
"""Window of the running mean: the number of episodes in gymnasium's definition of a solved environment."""

_NEW = (
    "SELECT id, step, time_s, value FROM points WHERE metric_id IN (SELECT id FROM metrics WHERE run_id = ? "
    "AND name = ?) "
    "AND id > ? AND value IS NOT NULL ORDER BY id"
)


def count_band(reader: Connection, run_id: int, metric: str, before: Band | None = None) -> Band | None:
    """Return the band of a metric; None if the run has no finite point of it.

    Values of all ranks are in recording order. Only points newer than `before`, an earlier result, are read; all are
    read if it does not match the run.
    """
    nothing = Band(metric, (), 1, (), 0)
    with reader.snapshot():
        total = reader.rows(FINITE_POINTS, [run_id, metric])[0][0] or 0
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
    """Return two adjacent bins as one (Chan, Golub and LeVeque's method for means and squares)."""
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
