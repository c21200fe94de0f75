"""The one value that a run has for a name: a config field (`trainers`), or a metric with which of its values counts
(`test/accuracy.best`).

Names are those of configs and metrics, never labels, so that a link outlives a new wording. Torch-free.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from engine.metrics import metric
from engine.store.records import RunRow

Way = Literal["last", "best", "mean"]
WAYS: tuple[Way, ...] = get_args(Way)
SEEDING = "seeding"
ABOUT = ("experiment", "preset", "owner", SEEDING)
"""What else of a run counts as a field, beside its config."""
EXECUTION, STARTUP = "perf/execution_time_s", "perf/startup_time_s"
Value = float | int | str | bool | None


def split(name: str) -> tuple[str, Way] | None:
    """Return metric and way of a name such as `test/accuracy.best`; None where it names a field."""
    of, _, way = name.rpartition(".")
    return next(((of, known) for known in WAYS if known == way and "/" in of), None)


def value(run: RunRow, name: str) -> Value:
    """Return a run's value for a name, None where it has none; what is neither number nor text comes as text."""
    found = split(name)
    if found is None:
        return field(run, name)
    of, way = found
    if of in (EXECUTION, STARTUP):
        return run.execution_time_s if of == EXECUTION else run.startup_time_s
    known: Mapping[str, float] = getattr(run, way)
    return known.get(of)


def field(run: RunRow, name: str) -> Value:
    """Return a field of a run: of its config, or one of ABOUT. The rule that it draws by tells runs apart and is no
    amount: it comes as text.
    """
    if name == SEEDING and name not in run.config:
        return f"{SEEDING} {run.seeding}"
    found = run.config.get(name, getattr(run, name) if name in ABOUT else None)
    return found if isinstance(found, int | float | str | None) else str(found)


def number(run: RunRow, name: str) -> float | None:
    """Return a run's value as a finite number; a truth counts 0 or 1, a text is none."""
    found = value(run, name)
    return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def metric_names(runs: Iterable[RunRow]) -> list[str]:
    """Return the metrics that any of the runs has a finite value of: tests first, then rewards, training, speed."""
    found = {name for run in runs for name in run.last}
    order = ("test/", "charts/", "train/", "perf/")
    place = {name: next((at for at, start in enumerate(order) if name.startswith(start)), len(order)) for name in found}
    return sorted(found, key=lambda name: (place[name], metric(name).better is None, name))


def field_names(runs: Sequence[RunRow], *, that_differ: bool = False) -> list[str]:
    """Return the fields of the runs, those of ABOUT last; on request only those that have more than one value over the
    runs.
    """
    names = [*dict.fromkeys(name for run in runs for name in run.config), *ABOUT]
    return [name for name in names if not that_differ or len({str(field(run, name)) for run in runs}) > 1]


def names(runs: Sequence[RunRow]) -> list[str]:
    """Return every name that a chart of numbers can be asked for: metrics in each of their ways, times, then fields."""
    found = [f"{name}.{way}" for name in metric_names(runs) if name not in (EXECUTION, STARTUP) for way in ways(name)]
    times = [
        f"{name}.last" for name in (EXECUTION, STARTUP) if any(value(run, f"{name}.last") is not None for run in runs)
    ]
    return [*found, *times, *field_names(runs)]


def ways(name: str) -> tuple[Way, ...]:
    """Return which values of a metric there are: the last alone of one that is no curve, no best where neither end is
    better.
    """
    known = metric(name)
    if not known.live:
        return ("last",)
    return WAYS if known.better else ("last", "mean")


def label(name: str) -> str:
    """Return what a name is called on a chart."""
    found = split(name)
    if found is None:
        return name
    known = metric(found[0])
    unit = f" ({known.unit})" if known.unit else ""
    return f"{known.label}{unit}" if not known.live else f"{known.label}, {found[1]}{unit}"
