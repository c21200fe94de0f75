"""The x-axes of curves: their names, and the one on which given runs compare."""

from collections.abc import Iterable

from engine.filter.tree import metric_quoted, metric_written
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.records import ENDED, Run, RunRow

AXES = {"step": "Step", "passes": "Passes", "updates": "Updates", "time": "Time"}

BYTES = "bytes"
OWN_COLUMNS = {"run", "name", "rank", "group", "value", "low", "high", "band", "n"}
"""Columns of a chart's data besides its axis or values."""
TAKEN = {*AXES, BYTES, *OWN_COLUMNS}


def axis_of(metric: str) -> str:
    """Return the name of a metric as an x-axis, as in addresses; one that means something else as in filters:
    `metric["time"]`.
    """
    return metric_written(metric) if metric in TAKEN or metric_quoted(metric) else metric


def metric_of(axis: str) -> str:
    """Return the name of the metric that is an x-axis."""
    name, of = metric_quoted(axis) or (axis, "")
    return axis if of else name


def usual_axis(reader: Reader, runs: Iterable[Run | RunRow]) -> str:
    """Return the x-axis on which the runs compare: passes where all train on a data set; within one experiment else its
    updates, or steps (of which each rank counts its own) if nothing counts them; else time.
    """
    runs = list(runs)
    known = {run.experiment: known_experiment(run.experiment) for run in runs}
    if all(each and each.duel for each in known.values()) and all(has_passes(reader, run) for run in runs):
        return "passes"
    if len(known) > 1:
        return "time"
    return "updates" if all(each and each.update_clock for each in known.values()) else "step"


def has_passes(reader: Reader, run: Run | RunRow) -> bool:
    """Return whether the points of a run have passes; one that is still active and trains on a data set soon has."""
    known = known_experiment(run.experiment)
    return reader.details.counts_passes(run.id) or bool(run.status not in ENDED and known and known.duel)
