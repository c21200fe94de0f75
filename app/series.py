"""What the live chart is told: a run's curves as plain lists, only what is new, and never a number JSON can't carry."""

import math
from collections.abc import Sequence
from typing import Any

from engine.home import Home
from engine.metrics import metric
from engine.store import Reader
from engine.store.records import Series

FIRST_POINTS = 1_000
"""Points of one curve in a first answer; a longer one is down-sampled."""
LATER_POINTS = 2_000


def answer(home: Home, run_id: int, metrics: Sequence[str], after: int, version: int) -> dict[str, Any]:
    """Return the points after id `after` of the metrics asked for (none named: every live one).

    Where the run's version still is `version` the answer says so and holds nothing else.
    """
    with Reader.open(home) as reader:
        token = reader.token(run_id)
        if version and token == version:
            return {"version": token, "unchanged": True}
        run = reader.run(run_id)
        names = list(metrics) or live_metrics([summary.metric for summary in reader.summaries(run_id)])
        found = reader.series(run_id, names, after_id=after, max_points=LATER_POINTS if after else FIRST_POINTS) if names else []
        roles = {row.rank: row.role for row in reader.ranks(run_id)} if found else {}
    return {
        "version": run.version,
        "status": run.status,
        "active": run.active,
        "metrics": [_label(name) for name in names],
        "series": [_curve(series, roles) for series in found if series.ids],
        "last_id": max((series.ids[-1] for series in found if series.ids), default=after),
    }


def live_metrics(names: Sequence[str]) -> list[str]:
    """Return the metrics that are curves, once each, training before tests before speed."""
    found = {name for name in names if metric(name).live}
    order = {"train": 0, "charts": 1, "test": 2, "perf": 3}
    better = {"max": 0, "min": 1, None: 2}
    return sorted(found, key=lambda name: (order.get(name.partition("/")[0], 4), better[metric(name).better], name))


def _label(name: str) -> dict[str, str]:
    known = metric(name)
    return {"name": name, "label": known.label, "unit": known.unit, "better": known.better or "", "help": known.help}


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


def _finite(value: float) -> float | None:
    """Return the value to six figures, or None (a gap in the curve) where it is NaN or infinite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
