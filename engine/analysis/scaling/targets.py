"""Time to a target, as the number of updates needed times the seconds per update. Torch-free and pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.analysis.scaling.scaling_data import TimedRun
from engine.analysis.statistics.confidence import Statistic
from engine.analysis.statistics.intervals import Interval, mean_interval
from engine.analysis.tuning import Better, easier
from engine.metrics import metric
from engine.store.records import RunRow


@dataclass(frozen=True)
class TargetReached:
    """How one line at one count reached a target; intervals are over the runs that reached it."""

    line: tuple[object, ...]
    count: int
    runs: int
    reached: int
    updates: Interval | None = None
    update_s: Interval | None = None
    """Seconds per update."""
    time_s: Interval | None = None


def choices(runs: Sequence[RunRow]) -> list[str]:
    """Return the metrics that finished runs can have a target for: tests, and running rewards."""
    found = {name for run in runs if run.status == "finished" for name in run.last}
    return sorted(name for name in found if name.startswith("test/") or name == "charts/running_length")


def way(name: str) -> Better:
    """Return whether a target is reached from below (max) or from above."""
    return metric(name).better or "max"


def usual_target(runs: Sequence[RunRow], name: str) -> float | None:
    """Return the hardest target, to three figures, that every finished run reached."""
    rising = way(name) == "max"
    known = [
        value
        for run in runs
        if run.status == "finished" and (value := run.best.get(name, run.last.get(name))) is not None
    ]
    if not known:
        return None
    return easier(min(known) if rising else max(known), way(name))


def to_target(
    timings: Sequence[TimedRun], reached: Mapping[int, tuple[float, float]], statistic: Statistic = "mean"
) -> list[TargetReached]:
    """Return each line and count with the runs that reached the target; `reached` has updates (or steps) and time (s)
    by run id.
    """
    groups: dict[tuple[tuple[object, ...], int], list[int]] = {}
    for timing in sorted(timings, key=lambda timing: timing.count):
        groups.setdefault((timing.line, timing.count), []).append(timing.run_id)
    return [
        _of(line, count, ids, [reached[run_id] for run_id in ids if run_id in reached], statistic)
        for (line, count), ids in groups.items()
    ]


def _of(
    line: tuple[object, ...],
    count: int,
    ids: Sequence[int],
    found: Sequence[tuple[float, float]],
    statistic: Statistic,
) -> TargetReached:
    if not found:
        return TargetReached(line, count, len(ids), 0)
    seconds = [time_s / updates for updates, time_s in found if updates]
    updates, each_s, times = (
        mean_interval(values, statistic=statistic).within(0.0) if values else None
        for values in ([made for made, _ in found], seconds, [time_s for _, time_s in found])
    )
    return TargetReached(line, count, len(ids), len(found), updates, each_s, times)


def split_in_words(reached: Sequence[TargetReached], plural: str, unit: str) -> str:
    """Return a comparison of the largest and the smallest count that reached the target, as a sentence; empty without
    two counts. `unit` is update or step.
    """
    there = sorted(
        (each for each in reached if each.reached and each.updates and each.update_s and each.time_s),
        key=lambda each: each.count,
    )
    if len(there) < 2:
        return ""
    first, last = there[0], there[-1]
    longer, steps = (
        after.mean / before.mean if before and after and before.mean else 0.0
        for before, after in ((first.time_s, last.time_s), (first.updates, last.updates))
    )
    # Not the ratio of the mean seconds per update: with it the factors would not multiply to the whole.
    time, updates, seconds = (f"{ratio:.2g} times" for ratio in (longer, steps, longer / steps if steps else 0.0))
    more = f"{updates} the {unit}s, {seconds} the time per {unit}"
    short = [f"{each.count} ({each.reached} of {each.runs})" for each in (first, last) if each.reached < each.runs]
    missing = f" Only runs that reached it count: {', '.join(short)}." if short else ""
    return f"{last.count} {plural} take {time} the time to target of {first.count}: {more}.{missing}"
