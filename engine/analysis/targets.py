"""Time to a target, split into the steps that it needed times the seconds of a step. Torch-free and pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.analysis.intervals import Interval, mean_interval
from engine.analysis.study import Timing
from engine.metrics import metric
from engine.store.records import RunRow


@dataclass(frozen=True)
class Reached:
    """How one line at one count got to a target; intervals are over the runs that did."""

    line: tuple[object, ...]
    count: int
    runs: int
    reached: int
    steps: Interval | None = None
    step_s: Interval | None = None
    """Seconds of a step."""
    time_s: Interval | None = None


def choices(runs: Sequence[RunRow]) -> list[str]:
    """Return the metrics that finished runs can have a target for: tests, and running rewards."""
    found = {name for run in runs if run.status == "finished" for name in run.last}
    return sorted(name for name in found if name.startswith("test/") or name == "charts/running_length")


def way(name: str) -> Literal["max", "min"]:
    """Return whether a target is reached from below (max) or from above."""
    return metric(name).better or "max"


def usual_target(runs: Sequence[RunRow], name: str) -> float | None:
    """Return the hardest target, to three figures, that every finished run reached."""
    rising = way(name) == "max"
    known = [value for run in runs if run.status == "finished" and (value := run.best.get(name, run.last.get(name))) is not None]
    if not known:
        return None
    hardest = min(known) if rising else max(known)
    rounded = float(f"{hardest:.3g}")
    step = 10.0 ** (len(str(int(abs(hardest)))) - 3) if abs(hardest) >= 1 else 0.001
    return rounded if (rounded <= hardest if rising else rounded >= hardest) else round(rounded - step if rising else rounded + step, 6)


def to_target(timings: Sequence[Timing], reached: Mapping[int, tuple[int, float]]) -> list[Reached]:
    """Return each line and count with the runs that reached the target; `reached` has step and time (s) by run id."""
    groups: dict[tuple[tuple[object, ...], int], list[int]] = {}
    for timing in sorted(timings, key=lambda timing: timing.count):
        groups.setdefault((timing.line, timing.count), []).append(timing.run_id)
    return [_of(line, count, ids, [reached[run_id] for run_id in ids if run_id in reached]) for (line, count), ids in groups.items()]


def _of(line: tuple[object, ...], count: int, ids: Sequence[int], found: Sequence[tuple[int, float]]) -> Reached:
    if not found:
        return Reached(line, count, len(ids), 0)
    steps, times = [float(step) for step, _ in found], [time_s for _, time_s in found]
    seconds = [time_s / step for step, time_s in zip(steps, times, strict=True) if step]
    return Reached(line, count, len(ids), len(found), mean_interval(steps), mean_interval(seconds) if seconds else None, mean_interval(times))
