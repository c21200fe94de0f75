"""Time to a target, as the number of updates needed times the seconds per update. Torch-free and pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.analysis.duel import Better, easier
from engine.analysis.result import is_at_chance
from engine.analysis.scaling.scaling_data import TimedRun
from engine.analysis.scaling.speedup import is_unclear, ratio_of_rates
from engine.analysis.statistics.intervals import Interval, Statistic, mean_interval
from engine.filter.tree import duration
from engine.metrics import metric
from engine.store.records import RunRow

ALIKE = 0.05
"""Relative difference of times or amounts of work up to which they count as equal; also that of shares of a time."""


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
    times: tuple[tuple[int, float], ...] = ()
    """Seed and time (s) of each run that reached it."""
    statistic: Statistic = "mean"

    def is_like(self, other: "TargetReached") -> bool:
        """Return whether its times show no clear difference from another's, seed by seed as those of a speed-up."""
        if min(time_s for _, time_s in other.times) <= 0:
            return False
        return is_unclear(ratio_of_rates(self.times, dict(other.times), self.statistic))


@dataclass(frozen=True)
class Goal:
    """A target, and how configurations, by name, reached it."""

    words: str
    """Such as `a best test accuracy of 90 %`: the last one may be worse."""
    unit: str
    """What is counted until then: update or step."""
    reached: Mapping[str, TargetReached]

    def time(self, name: str) -> Interval | None:
        """Return the time until all runs of a configuration had reached it; None if some did not."""
        found = self.reached.get(name)
        return found.time_s if found and found.reached == found.runs else None

    def first(self) -> str:
        """Return which configuration reached it first, by mean or median time; empty with less than two."""
        return next(iter(self._order()), "")

    def last(self) -> str:
        """Return which configuration reached it last; empty with less than two."""
        return next(reversed(self._order()), "")

    def _order(self) -> list[str]:
        times = {name: known.mean for name in self.reached if (known := self.time(name))}
        return sorted(times, key=lambda name: times[name]) if len(times) > 1 else []

    def also(self, fastest: str) -> str:
        """Return that the configuration that does most work per second also reached it first, if so."""
        time = self.time(fastest)
        return f", also first at {self.words} ({time_text(time.mean)})" if time and self.first() == fastest else ""

    def before(self, name: str) -> str:
        """Return which configuration was first, and what another one needed compared with it, as a sentence after
        another; empty if they are the same, or one of them is unknown.
        """
        first = self.first()
        own, other = self.time(first), self.time(name)
        if first == name or not own or not other:
            return ""
        lead, time = f" First at {self.words}: {first} ({time_text(own.mean)})", time_text(other.mean)
        if self.reached[name].is_like(self.reached[first]):
            both = f"{first} ({time_text(own.mean)}) and {name} ({time})"
            return f" Time to {self.words}: no clear difference between {both}."
        updates = [interval.mean for each in (first, name) if (interval := self.reached[each].updates)]
        if len(updates) < 2 or not min(updates):
            return f"{lead}, before {name} ({time})."
        # Not the ratio of the mean seconds per update: with it the factors would not multiply to the whole.
        more, longer = updates[1] / updates[0], other.mean / own.mean
        return (
            f"{lead}, before {name} ({time}), which needed {more:.2g} times as many {self.unit}s, each taking "
            f"{longer / more:.2g} times as long."
        )


def choices(runs: Sequence[RunRow]) -> list[str]:
    """Return the metrics that finished runs can have a target for: tests, and running rewards."""
    found = {name for run in runs if run.status == "finished" for name in run.last}
    return sorted(name for name in found if name.startswith("test/") or name == "charts/running_length")


def way(name: str) -> Better:
    """Return whether a target is reached from below (max) or from above."""
    return metric(name).better or "max"


def usual_target(runs: Sequence[RunRow], name: str) -> float | None:
    """Return the hardest target, to three figures, that every finished run reached which learned; None without one."""
    rising = way(name) == "max"
    known = [
        value
        for run in runs
        if run.status == "finished"
        and (value := run.best.get(name, run.last.get(name))) is not None
        and not is_at_chance(run.config, name, value)
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
    groups: dict[tuple[tuple[object, ...], int], dict[int, int]] = {}
    for timing in sorted(timings, key=lambda timing: timing.count):
        groups.setdefault((timing.line, timing.count), {})[timing.run_id] = timing.seed
    return [_of(line, count, seeds, reached, statistic) for (line, count), seeds in groups.items()]


def _of(
    line: tuple[object, ...],
    count: int,
    seeds: Mapping[int, int],
    reached: Mapping[int, tuple[float, float]],
    statistic: Statistic,
) -> TargetReached:
    """Return how runs, whose seeds are given by id, reached a target."""
    found = [reached[run_id] for run_id in seeds if run_id in reached]
    if not found:
        return TargetReached(line, count, len(seeds), 0)
    seconds = [time_s / updates for updates, time_s in found if updates]
    updates, each_s, times = (
        mean_interval(values, statistic=statistic).within(0.0) if values else None
        for values in ([made for made, _ in found], seconds, [time_s for _, time_s in found])
    )
    by_seed = tuple((seed, reached[run_id][1]) for run_id, seed in seeds.items() if run_id in reached)
    return TargetReached(line, count, len(seeds), len(found), updates, each_s, times, by_seed, statistic)


def to_goal(
    name: str,
    target: float,
    unit: str,
    groups: Mapping[str, Mapping[int, int]],
    reached: Mapping[int, tuple[float, float]],
    statistic: Statistic = "mean",
) -> Goal:
    """Return how groups of runs, whose seeds are given by id, reached a target."""
    found = {title: _of((), 0, seeds, reached, statistic) for title, seeds in groups.items()}
    return Goal(f"a best {words_of_target(name, target, ' of')}", unit, found)


def words_of_target(name: str, target: float, of: str = "") -> str:
    """Return a target such as `test accuracy 90 %`."""
    known = metric(name)
    return f"{known.label[:1].lower()}{known.label[1:]}{of} {target:.4g} {known.unit}".strip()


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
    if last.is_like(first):
        lead = f"No clear difference in the time to target between {first.count} and {last.count} {plural} ({time})"
    else:
        lead = f"{last.count} {plural} take {time} the time to target of {first.count}"
    return f"{lead}: {more}.{missing}"


def time_text(time_s: float, *, beside: float = 0.0) -> str:
    """Return a time in words, with milliseconds if it and the one `beside` it are below one second."""
    if time_s >= 100:
        return duration(time_s)
    return f"{time_s:.3g} s" if max(time_s, beside) >= 1 else f"{time_s * 1e3:.3g} ms"
