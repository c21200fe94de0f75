"""The running runs of the lab with their main curves, as HTML for the Home page."""

from math import isfinite
from statistics import fmean

from markupsafe import Markup

from app.core.base_path import at
from app.core.formatting import duration, since
from app.ui.html import bar, fact_row, joined, link, number, paragraph, run_link, sweep_link
from app.ui.run_state import place_in_words, time_left
from app.ui.sparkline import live_entry, sparkline
from app.ui.widgets import title_of
from engine.experiment.definition import HEADLINE
from engine.metrics import metric
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ALIVE, RunRow

MOST_RUNNING = 6
BINS, READ = 40, 200
"""Values of a sparkline, and points read of each rank."""
NOTHING = "Nothing running. Live runs appear here with their curves."
ACTIVE = "/runs?show=active"


def now_html(reader: Reader) -> Markup:
    """Return the live runs, newest first."""
    runs, total = reader.runs.find(statuses=ALIVE, limit=MOST_RUNNING), reader.runs.count(statuses=ALIVE)
    shown = joined((_running_entry(reader, run) for run in runs), "") or paragraph(NOTHING)
    return shown + paragraph(link(f"View all {total:,} running", at(ACTIVE))) if total > len(runs) else shown


def _running_entry(reader: Reader, run: RunRow) -> Markup:
    words = [
        f"by {run.owner}",
        *([f"on {place_in_words(run)}"] if run.target else []),
        *([f"{run.progress:.0%} done"] if run.status == "running" else []),
        time_left(run),
    ]
    if run.started_at:
        words.append(f"running for {duration(since(run.started_at))}")
    if run.sweep_id:
        words.append(sweep_link(f"part of sweep {run.sweep_id}", run.sweep_id))
    called = run_link(f"{run.id}: {title_of(run)}", run.id)
    name, values = main_curve(reader, run)
    known = metric(name)
    label = f"{known.label} of run {run.id}"
    beside = (
        " ".join(filter(None, (known.label, number(run.last.get(name), unit=known.unit), known.unit))) if name else ""
    )
    progress = bar(run.progress, f"Progress of run {run.id}")
    return live_entry(called, fact_row(words), sparkline(values, label), beside, progress)


def main_curve(reader: Reader, run: RunRow) -> tuple[str, list[float]]:
    """Return the metric by which runs of an experiment are ranked, or another one of its headline while that has no
    curve yet, and its values over time: means over all ranks.
    """
    known = known_experiment(run.experiment)
    names = (known.result.metric, *known.headline) if known else HEADLINE
    recorded = [name for name in dict.fromkeys(names) if name in run.last]
    for name in recorded:
        if len(values := _values(reader, run.id, name)) > 1:
            return name, values
    return next(iter(recorded), ""), []


def _values(reader: Reader, run_id: int, name: str) -> list[float]:
    """Return the values of a metric in order of time, as the means of at most `BINS` groups of equal size."""
    series = reader.curves.series(run_id, [name], max_points=READ)
    points = sorted(
        (time_s or 0.0, value)
        for each in series
        for time_s, value in zip(each.times_s, each.values, strict=True)
        if isfinite(value)
    )
    size = -(-len(points) // BINS) or 1
    return [fmean(value for _, value in points[at : at + size]) for at in range(0, len(points), size)]
