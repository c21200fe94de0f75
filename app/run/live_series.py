"""What the live chart is told: a run's curves and bands as plain lists, of curves only what is new, and never a number
JSON can't carry.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from engine.errors import EngineError
from engine.home import Home
from engine.metrics import metric
from engine.registry import experiment
from engine.store import Reader, Stretch
from engine.store.curve_records import Band, Series
from engine.store.records import Run

FIRST_POINTS = 1_000
"""Points of one curve in a first answer; a longer one is down-sampled."""
LATER_POINTS = 2_000
BANDS_KEPT = 64
_bands: dict[tuple[str, int, str], Band] = {}
"""Answers given lately, by home, run and metric."""


def answer(
    home: Home, run_id: int, metrics: Sequence[str], after: int, within: Stretch | None = None
) -> dict[str, Any]:
    """Return the points after id `after` of the metrics asked for (none named: every live one), of a stretch alone
    where one is given.

    A long stretch is down-sampled by itself. Raises NoSuchRun.
    """
    with Reader.open(home) as reader:
        run = reader.runs.one(run_id)
        names = list(metrics) or live_metrics([summary.metric for summary in reader.details.summaries(run_id)])
        lines = [name for name in names if not metric(name).band]
        found = (
            reader.curves.series(
                run_id, lines, after_id=after, max_points=LATER_POINTS if after else FIRST_POINTS, within=within
            )
            if lines
            else []
        )
        bands = [band for name in names if metric(name).band and (band := _counted(home, reader, run_id, name))]
        roles = {row.rank: row.role for row in reader.details.ranks(run_id)} if found else {}
    return {
        "version": run.version,
        "status": run.status,
        "active": run.active,
        "metrics": [_label(name) for name in names],
        "series": [_curve(series, roles) for series in found if series.ids],
        "bands": [_band(band) for band in bands],
        "goals": goals(run),
        "last_id": max([after, *(series.ids[-1] for series in found if series.ids)]),
    }


def live_metrics(names: Sequence[str]) -> list[str]:
    """Return the metrics that are curves, once each: rewards and tests of what plays, else training before tests; speed
    last.
    """
    found = {name for name in names if metric(name).live}
    played = any(name.startswith("charts/") for name in found)
    order = {"charts": 0, "test": 1, "train": 2, "perf": 3} if played else {"train": 0, "test": 1, "perf": 2}
    better = {"max": 0, "min": 1, None: 2}
    return sorted(found, key=lambda name: (order.get(name.partition("/")[0], 4), better[metric(name).better], name))


def _label(name: str) -> dict[str, str | bool]:
    known = metric(name)
    return {
        "name": name,
        "label": known.label,
        "unit": known.unit,
        "better": known.better or "",
        "help": known.help,
        "smooth": known.smooth,
    }


def _curve(series: Series, roles: dict[int, str]) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "rank": -1 if series.rank is None else series.rank,
        "role": "run" if series.rank is None else roles.get(series.rank, f"rank {series.rank}"),
        "steps": series.steps,
        "times": [round(time, 3) for time in series.times_s],
        "passes": [None if passes is None else round(passes, 5) for passes in series.passes],
        "values": [_finite(value) for value in series.values],
        "total": series.total,
    }


def goals(run: Run) -> dict[str, float]:
    """Return the value that each metric of a run is to reach, where there is one."""
    try:
        known = experiment(run.experiment)
        return dict(known.goals(known.config.check(run.config)))
    except EngineError:  # a config of an older version, or an environment that this machine hasn't got
        return {}


def _counted(home: Home, reader: Reader, run_id: int, name: str) -> Band | None:
    """Return a metric's band; of one asked for lately only what is new is read."""
    key = (str(home.path), run_id, name)
    band = reader.curves.band(run_id, name, _bands.pop(key, None))
    if band:
        _bands[key] = band
    for old in list(_bands)[:-BANDS_KEPT]:
        _bands.pop(old, None)
    return band


def _band(band: Band) -> dict[str, Any]:
    bins = band.bins
    return {
        "metric": band.metric,
        "width": band.width,
        "total": band.total,
        "steps": list(
            accumulate((round(each.step, 1) for each in bins), max)
        ),  # one rank may be ahead of another: a line never goes back
        "times": list(accumulate((round(each.time_s, 3) for each in bins), max)),
        "counts": [each.count for each in bins],
        "means": [_finite(each.mean) for each in bins],
        "lows": [_finite(max(each.low, each.mean - each.deviation)) for each in bins],
        "highs": [_finite(min(each.high, each.mean + each.deviation)) for each in bins],
        "running": [_finite(each.running) for each in bins],
    }


def _finite(value: float) -> float | None:
    """Return the value to six figures, or None (a gap in the curve) where it is NaN or infinite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
