"""Data for the live charts: a run's curves and bands as plain lists, incrementally for curves, with no values that JSON
can't represent.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from app.charts.plotly_figures import range_mode
from engine.analysis.run_values import telling
from engine.errors import EngineError
from engine.home import Home
from engine.metrics import Metric, MetricSetting, as_set, metric
from engine.registry import definition, known_experiment
from engine.store import Reader, Stretch
from engine.store.curve_records import Band, Series
from engine.store.records import Run, Summary

FIRST_POINTS = 1_000
"""Maximum number of points per curve in the first answer; longer curves are down-sampled."""
LATER_POINTS = 2_000
MOST_MAIN = 6
"""Maximum number of curves of another program that its run's page shows outside of sections."""
BANDS_KEPT = 64
DIGITS, ALL_DIGITS = 9, 17
LOSSES = ("train/loss", "train/policy_loss")
_bands: dict[tuple[str, int, str], Band] = {}
"""Recent answers, by home, run and metric."""


def answer(
    home: Home, run_id: int, metrics: Sequence[str], after: int, within: Stretch | None = None
) -> dict[str, Any]:
    """Return the points after id `after` of the requested metrics (default: all live ones), optionally within a range.

    A long range is down-sampled separately. Raises NoSuchRun.
    """
    with Reader.open(home) as reader, reader.db.snapshot():  # else a metric that appears now lacks points
        run = reader.runs.one(run_id)
        summaries = reader.details.summaries(run_id)
        single = single_values(run, summaries)
        settings = reader.recipes.metric_settings(run.script_key)
        names = list(metrics) or live_metrics([summary.metric for summary in summaries], single, settings)
        shown = {name for name in names if metrics or is_shown(name, settings)}
        ranked_by = "" if known_experiment(run.experiment) else reader.runs.entry(run_id).ranked_by
        main = main_metrics(run, [name for name in names if name in shown], single, ranked_by)
        names = [*main, *(name for name in names if name not in main)]
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
        # Curves that are not shown come along: they have no gap when they are shown again.
        "metrics": [_label(as_set(name, settings), is_main=name in main) for name in names if name in shown],
        "series": [_curve(series, roles) for series in found if series.ids],
        "bands": [_band(band, sum(each.metric == band.metric for each in summaries)) for band in bands],
        "goals": goals(run),
        "last_id": max([after, *(series.ids[-1] for series in found if series.ids)]),
    }


def single_values(run: Run, summaries: Sequence[Summary]) -> frozenset[str]:
    """Return the metrics of a run of another program that have one value: their charts come after those of curves."""
    if known_experiment(run.experiment):
        return frozenset()
    return frozenset(each.metric for each in summaries) - {
        each.metric for each in summaries if each.count + each.nonfinite > 1
    }


def is_shown(name: str, settings: Mapping[str, MetricSetting]) -> bool:
    """Return whether a metric has a chart; `settings` are those that a person has set for the script."""
    return name not in settings or settings[name].is_shown


def live_metrics(
    names: Sequence[str], single: Collection[str] = (), settings: Mapping[str, MetricSetting] = MappingProxyType({})
) -> list[str]:
    """Return the metrics that have curves, without duplicates: for RL rewards and tests, else training before tests;
    throughput, then those that have a `single` value, last.
    """
    found = {name for name in names if metric(name).live}
    played = any(name.startswith("charts/") for name in found)
    order = {"charts": 0, "test": 1, "train": 2, "perf": 3} if played else {"train": 0, "test": 1, "perf": 2}
    better = {"max": 0, "min": 1, None: 2}
    return sorted(
        found,
        key=lambda name: (
            *(name in single, order.get(name.partition("/")[0], 4)),
            *(better[as_set(name, settings).better], name),
        ),
    )


def main_metrics(run: Run, names: Sequence[str], single: Collection[str] = (), ranked_by: str = "") -> list[str]:
    """Return those of a run's live metrics that its page shows first: the two of its result and of what training
    minimizes. Of another program the first curves: that which ranks its runs (`ranked_by`), those that tell most, then
    others but of speed and parallelism; the same ones in the same order during the run and after it. Without any, two
    of what there is, during a run none of speed and parallelism: they are often the first to be recorded.
    """
    known = known_experiment(run.experiment)
    learning = [name for name in names if metric(name).section == "Learning"]
    if known is None:
        told = telling(learning, single)
        place = {name: at for at, name in enumerate(told)}
        learning.sort(key=lambda name: (name != ranked_by, place.get(name, len(place))))
        curves = [name for name in learning if name not in single]
        return curves[:MOST_MAIN] or (learning or ([] if run.active else list(names)))[:2]
    first = known.result.metric
    likely = [name for name in names if not run.active or name == first or name in learning]
    return sorted(likely, key=lambda name: (name in single, name != first, name not in LOSSES))[:2]


def _label(known: Metric, *, is_main: bool) -> dict[str, str | bool]:
    return {
        "name": known.name,
        "section": "" if is_main else known.section,
        "label": known.label,
        "unit": known.unit,
        "better": known.better or "",
        "help": known.help,
        "smooth": known.smooth,
        "range_mode": range_mode(known.name),
    }


def _curve(series: Series, roles: dict[int, str]) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "rank": -1 if series.rank is None else series.rank,
        "role": "run" if series.rank is None else roles.get(series.rank, f"rank {series.rank}"),
        "ids": series.ids,
        "steps": series.steps,
        "times": _numbers(series.times_s),
        "passes": _numbers(series.passes),
        "values": _numbers(series.values),
        "total": series.total,
    }


def goals(run: Run) -> dict[str, float]:
    """Return the target value of each metric of a run that has one."""
    try:
        known = definition(run)
        return dict(known.goals(known.config.check(run.config)))
    except EngineError:  # a config of an older version, or an environment not installed here
        return {}


def _counted(home: Home, reader: Reader, run_id: int, name: str) -> Band | None:
    """Return a metric's band; for a recently requested one, only new points are read."""
    key = (str(home.path), run_id, name)
    band = reader.curves.band(run_id, name, _bands.pop(key, None))
    if band:
        _bands[key] = band
    for old in list(_bands)[:-BANDS_KEPT]:
        _bands.pop(old, None)
    return band


def _band(band: Band, ranks: int) -> dict[str, Any]:
    """Return a band. Several ranks are at different steps at a time: their line is kept monotone. The axis of one rank
    may go back, as where a run was resumed.
    """

    def along(at: Sequence[float]) -> list[float]:
        return list(accumulate(at, max)) if ranks > 1 else list(at)

    bins = band.bins
    return {
        "metric": band.metric,
        "width": band.width,
        "total": band.total,
        "steps": along([round(each.step, 1) for each in bins]),
        "times": along([round(each.time_s, 3) for each in bins]),
        "counts": [each.count for each in bins],
        "means": _numbers([each.mean for each in bins]),
        "lows": _numbers([max(each.low, each.mean - each.deviation) for each in bins]),
        "highs": _numbers([min(each.high, each.mean + each.deviation) for each in bins]),
        "running": _numbers([each.running for each in bins]),
    }


def _numbers(values: Sequence[float | None]) -> list[float | None]:
    """Return numbers with nine significant digits (all of a float32), or more where they differ by little of their
    size; None (a gap in the curve) for NaN and infinity.
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    size, spread = max(map(abs, finite), default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    digits = min(ALL_DIGITS, DIGITS + max(0, math.ceil(math.log10(size / spread)))) if spread else ALL_DIGITS
    return [None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}") for value in values]
