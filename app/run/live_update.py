"""Live state of a run: the parts of its page that update continuously, rendered once for all viewers, and a frame
number for the rest of the page.

A Streamlit script run costs about 20 times as much as one of our responses, so a run's page reruns only when its
`frame` changes. Everything that changes continuously is in slots (app.ui.html.slot) and figures, which pulse.js updates
from our route.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from app.charts import plotly_figures
from app.charts.plotly_figures import range_mode
from app.run import summary_html
from app.ui.html import Slot
from app.ui.run_state import tab_title
from engine.errors import EngineError
from engine.home import Home
from engine.metrics import metric
from engine.registry import experiment, known_experiment
from engine.rl.kinds import PICTURE
from engine.store import Reader, Stretch
from engine.store.curve_records import Band, Series
from engine.store.records import Run

MACHINE = "Machine"
"""The overview with its fold of the machine's load open."""
Figures = dict[str, dict[str, Any]]
Slots = dict[Slot, Markup]


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one version: its frame (the token that pulse.js compares), the HTML of each slot, and the figures by
    key.
    """

    version: int
    token: int
    title: str
    """Of the browser's tab."""
    slots: Mapping[Slot, Markup]
    figures: Figures


def standing(home: Home, run_id: int, section: str) -> RunSnapshot:
    """Return the live state of a run for viewers with `section` open; raises NoSuchRun."""
    with Reader.open(home) as reader, reader.db.snapshot():
        run, entry = reader.runs.one(run_id), reader.runs.entry(run_id)
        slots: Slots = {
            "cause": summary_html.cause(run, entry, reader),
            "bar": summary_html.progress(entry),
            "result": summary_html.result(entry),
        }
        live, figures = content(run, reader, section)
        token = frame(run, reader, section, has_picture(home, run_id), (live, figures))
        return RunSnapshot(run.version, token, tab_title(entry), slots | live, figures)


def content(run: Run, reader: Reader, section: str) -> tuple[Slots, Figures]:
    """Return the slots and figures of a section that update continuously."""
    known = LIVE.get(section)
    return (known.slots(run, reader), known.figures(run, reader)) if known else ({}, {})


def has_picture(home: Home, run_id: int) -> bool:
    """Return whether an episode picture exists. A page checks once and reuses the answer: the file may appear
    meanwhile.
    """
    return (home.run_folder(run_id) / PICTURE).exists()


def frame(run: Run, reader: Reader, section: str, picture: bool, live: tuple[Slots, Figures] | None = None) -> int:
    """Return a number that changes with everything on the run's page outside slots and figures, and when a slot or a
    figure first has data; `picture` is the result of has_picture, `live` that of content.
    """
    still = replace(run, version=0, heartbeat_at=None, progress_done=0, progress_total=0, progress_unit="")
    there: list[object] = [
        section,
        still,
        len(reader.details.events(run.id)),
        reader.runs.resumed_as(run.id),
        reader.details.counts_passes(run.id),
        reader.details.logs(run.id),
    ]
    if run.target and (job := reader.cluster_jobs.of(run.id)):
        there.append((job.job_id, job.state, job.reason, job.nodes))
    details = reader.details
    there += [details.has_spans(run.id), details.has_histograms(run.id), details.has_machine_samples(run.id), picture]
    if section in LIVE:
        slots, figures = live or content(run, reader, section)
        there += [sorted(slots), sorted(figures)]
    elif section not in STATIC:
        there.append(run.version)
    return zlib.crc32(repr(there).encode())


def phases(run: Run, reader: Reader) -> Figures:
    """Return the time per rank and phase as a figure; empty if no time was recorded."""
    seconds = reader.details.phases(run.id)
    if not _spent(seconds):
        return {}
    picture = plotly_figures.phases(seconds, {row.rank: row.role for row in reader.details.ranks(run.id)})
    colours = plotly_figures.phase_colours(plotly_figures.phases_shown(seconds))
    return {
        f"phases-{run.id}": plotly_figures.shown(
            picture,
            alt="Time per rank by phase, in seconds",
            height=plotly_figures.phases_height(len(seconds)),
            colours=colours,
            table=True,
        ),
    }


def machine(run: Run, reader: Reader) -> Figures:
    """Return the machine samples taken during the run, one figure per quantity."""
    found: Figures = {}
    samples = reader.details.machine(run.id)
    for name in plotly_figures.machine_names(samples):
        picture = plotly_figures.machine(samples, run.started_at, name)
        alt = f"{plotly_figures.machine_label(name)} during the run"
        found[f"machine-{run.id}-{name}"] = plotly_figures.shown(
            picture, alt=alt, height=220, colours=range(len(picture["data"])), table=True
        )
    return found


def _spent(seconds: Mapping[int, Mapping[str, float]]) -> bool:
    return any(value > 0 for spent in seconds.values() for value in spent.values())


def ranks(run: Run, reader: Reader) -> Slots:
    found = reader.details.ranks(run.id)
    health = reader.details.health(run.id) if run.active else None
    return {"ranks": summary_html.ranks_table(found, health)} if found else {}


def overview(run: Run, reader: Reader) -> Slots:
    """Return the slots of a run's first tab."""
    entry, details = reader.runs.entry(run.id), reader.details
    return {
        "showed": summary_html.showed(run, entry, reader),
        "tiles": summary_html.tiles(details.summaries(run.id), entry),
        "strip": summary_html.rank_strip(details.phases(run.id), details.ranks(run.id)),
        "facts": summary_html.facts_of(run, reader.origins.of(run.id), entry, reader.cluster_jobs.of(run.id)),
    }


def _events(run: Run, reader: Reader) -> Slots:
    return {"events": summary_html.events_table(reader.details.events(run.id))}


def _no_slots(run: Run, reader: Reader) -> Slots:
    return {}


def _no_figures(run: Run, reader: Reader) -> Figures:
    return {}


@dataclass(frozen=True)
class LiveSection:
    """What of a section updates continuously; empty while there is no data."""

    slots: Callable[[Run, Reader], Slots] = _no_slots
    figures: Callable[[Run, Reader], Figures] = _no_figures


LIVE = {
    "Overview": LiveSection(slots=overview),
    MACHINE: LiveSection(slots=overview, figures=machine),
    "Ranks": LiveSection(slots=ranks, figures=phases),
    "Events": LiveSection(slots=_events),
}
STATIC = ("Log", "Config", "Environment", "Notes")
"""Sections without live data. While a section is open that is neither live nor static, each update reruns the page."""


# ---- Data for the live charts --------------------------------------------------------------------------------------
# a run's curves and bands as plain lists, incrementally for curves, with no values that JSON can't represent.

FIRST_POINTS = 1_000
"""Maximum number of points per curve in the first answer; longer curves are down-sampled."""
LATER_POINTS = 2_000
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
        names = list(metrics) or live_metrics([summary.metric for summary in summaries])
        main = main_metrics(run, names)
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
        "metrics": [_label(name, is_main=name in main) for name in names],
        "series": [_curve(series, roles) for series in found if series.ids],
        "bands": [_band(band, sum(each.metric == band.metric for each in summaries)) for band in bands],
        "goals": goals(run),
        "last_id": max([after, *(series.ids[-1] for series in found if series.ids)]),
    }


def live_metrics(names: Sequence[str]) -> list[str]:
    """Return the metrics that have curves, without duplicates: for RL rewards and tests, else training before tests;
    throughput last.
    """
    found = {name for name in names if metric(name).live}
    played = any(name.startswith("charts/") for name in found)
    order = {"charts": 0, "test": 1, "train": 2, "perf": 3} if played else {"train": 0, "test": 1, "perf": 2}
    better = {"max": 0, "min": 1, None: 2}
    return sorted(found, key=lambda name: (order.get(name.partition("/")[0], 4), better[metric(name).better], name))


def main_metrics(run: Run, names: Sequence[str]) -> list[str]:
    """Return the two of a run's live metrics that its page shows first: its result, then what training minimizes.
    During a run others of speed and parallelism are none of them: they are often the first to be recorded.
    """
    result = known.result.metric if (known := known_experiment(run.experiment)) else ""
    likely = [name for name in names if not run.active or name == result or metric(name).section == "Learning"]
    return sorted(likely, key=lambda name: (name != result, name not in LOSSES))[:2]


def _label(name: str, *, is_main: bool) -> dict[str, str | bool]:
    known = metric(name)
    return {
        "name": name,
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
        known = experiment(run.experiment)
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
