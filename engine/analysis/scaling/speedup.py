"""Speed-up and efficiency of each size relative to the reference point, with intervals over seeds. Torch-free
and pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, median, variance

from engine.analysis.run_values import lower_title
from engine.analysis.scaling.scaling_data import TimedRun
from engine.analysis.statistics.intervals import FEWEST, LEVEL, Interval, Statistic, mean_interval, student

NEAR = 0.05
"""Relative difference of speed-ups up to which one is no more than the other."""
REFERENCE = 1
"""The reference count of speed-up."""


@dataclass(frozen=True)
class SpeedupPoint:
    """All runs of one line at one count."""

    count: int
    runs: int
    time_s: Interval
    per_second: Interval
    """Throughput in units of work per second."""
    speed_up: Interval | None
    """Throughput relative to the reference point (ratio_of_rates); None without one."""
    efficiency: Interval | None
    """Speed-up divided by the number of concurrent workers (0 to 1)."""
    crowded: str
    """Why it is oversubscribed; empty if it isn't."""


def sizes(timings: Sequence[TimedRun], workers: int | None = None, statistic: Statistic = "mean") -> list[SpeedupPoint]:
    """Return the sizes of one line in ascending order of counts.

    `workers` is the number of concurrent workers if it is not the count itself: the number of stages if splits are
    counted; `statistic` is that over seeds. Speed-up compares throughput, so it is valid whether all runs do the same
    work or each rank adds its own.
    """
    reference = {timing.seed: timing.per_second for timing in timings if timing.count == REFERENCE}
    return [
        _size(count, [timing for timing in timings if timing.count == count], reference, workers, statistic)
        for count in _counts(timings)
    ]


def why_no_fit(timings: Sequence[TimedRun], field: str) -> str:
    """Return why no law can be fitted to a line, with a remedy; empty if one can."""
    counts = _counts(timings)
    if REFERENCE not in counts:
        return (
            f"No reference point: speed-up needs a finished run with {lower_title(field)} {REFERENCE}. Add it with "
            "Extend on the sweep's page."
        )
    if len(counts) < 3:
        return (
            f"A fit needs at least 3 sizes of {field}; got {len(counts)}. Add values with Extend on the sweep's page."
        )
    return ""


def in_words(found: Sequence[SpeedupPoint], plural: str, singular: str) -> str:
    """Return how the measured speed-up develops with the count, as a sentence; empty without two sizes and a
    reference.
    """
    known = [(size.count, size.speed_up) for size in found if size.speed_up]
    if len(known) < 2:
        return ""
    last, there = known[-1]
    one = f"{REFERENCE} {singular}"
    faster = [(count, ratio) for count, ratio in known if _is_faster(ratio)]
    if not faster:
        if all(is_unclear(ratio) for _, ratio in known):
            return f"No clear difference in work per second from {REFERENCE} to {last} {plural}{_why(known)}."
        return f"No clear speed-up: {last} {plural} {_in_full(there, one)}."
    best, most = max(faster, key=lambda each: each[1].mean)
    knee, reached = next(each for each in faster if each[1].mean >= (1 - NEAR) * most.mean)
    if last != best and (there.mean < (1 - NEAR) * most.mean or is_unclear(there)):
        if _is_faster(there) and min(there.count, most.count) > 1 and there.high >= most.low:
            beside = f"without a clear difference from {last} ({there.mean:.2g} times)"
            return f"{best} {plural} {_in_full(most, one)}, {beside}."
        level = f", {knee} within {100 * NEAR:.0f} % of it" if knee != best else ""
        return f"Fastest at {best} {plural} ({_times(most, one)}){level}; {_in_short(last, there, plural, one)}."
    if knee < last:
        return f"No gain beyond {knee} {plural} ({_times(reached, one)}); {_in_short(last, there, plural, one)}."
    return f"{last} {plural} {_in_full(there, one)}."


def is_flat(found: Sequence[SpeedupPoint]) -> bool:
    """Return whether no size is clearly faster than the reference."""
    return not any(_is_faster(size.speed_up) for size in found if size.speed_up)


def is_unclear(ratio: Interval) -> bool:
    """Return whether a ratio shows no clear difference: it is near 1, or its interval or range over several runs
    includes 1.
    """
    return abs(ratio.mean - 1) < NEAR or (ratio.count > 1 and ratio.low <= 1 <= ratio.high)


def opposite_in_words(found: Sequence[SpeedupPoint], plural: str, singular: str) -> str:
    """Return why some sizes took longer than the reference with more work per second, or the reverse, as a sentence;
    empty if none did.
    """
    base = next((size.time_s.mean for size in found if size.count == REFERENCE), 0.0)
    counts = [
        str(size.count)
        for size in found
        if size.speed_up
        and abs(size.time_s.mean - base) > NEAR * base > 0
        and (size.speed_up.mean - 1) * (size.time_s.mean - base) > 0
    ]
    if not counts:
        return ""
    return (
        f"Mean times and speed-up rank {', '.join(counts)} {plural} differently from {REFERENCE} {singular}: speed-up "
        "counts work per second, averaged over the ratios of single runs."
    )


def _is_faster(ratio: Interval) -> bool:
    return ratio.mean > 1 and not is_unclear(ratio)


def _times(ratio: Interval, one: str) -> str:
    return f"{ratio.mean:.2g} times the work per second of {one}"


def _in_full(ratio: Interval, one: str) -> str:
    """Return what a size does, after its count."""
    return f"do {_times(ratio, one)}" if not is_unclear(ratio) else _alike(ratio, one, "are", "show ")


def _in_short(count: int, ratio: Interval, plural: str, one: str) -> str:
    """Return what another size does, after a first one."""
    return f"{count} {plural}:{_alike(ratio, one)}" if is_unclear(ratio) else f"{count} do {ratio.mean:.2g} times"


def _alike(ratio: Interval, one: str, near: str = "", apart: str = " ") -> str:
    return f"{near} about as fast as {one}" if abs(ratio.mean - 1) < NEAR else f"{apart}no clear difference from {one}"


def _why(known: Sequence[tuple[int, Interval]]) -> str:
    """Return why there is no clear difference, after a sentence."""
    others = [ratio for count, ratio in known if count != REFERENCE]
    if all(ratio.count > 1 and ratio.low <= 1 <= ratio.high for ratio in others):
        kind = "interval" if all(ratio.is_known for ratio in others) else "range"
        return f": the {kind} of {'each' if len(others) > 1 else 'the'} speed-up includes 1"
    return f": all within {100 * NEAR:.0f} %" if all(abs(ratio.mean - 1) < NEAR for ratio in others) else ""


def _counts(timings: Sequence[TimedRun]) -> list[int]:
    return sorted({timing.count for timing in timings})


def _size(
    count: int,
    timings: Sequence[TimedRun],
    reference: Mapping[int, float],
    workers: int | None,
    statistic: Statistic,
) -> SpeedupPoint:
    rates = [(timing.seed, timing.per_second) for timing in timings]
    speed_up = ratio_of_rates(rates, reference, statistic).within(0.0) if reference else None
    at_once = workers or count
    return SpeedupPoint(
        count,
        len(timings),
        mean_interval([timing.execution_time_s for timing in timings], statistic=statistic).within(0.0),
        mean_interval([timing.per_second for timing in timings], statistic=statistic).within(0.0),
        speed_up,
        replace(speed_up, mean=speed_up.mean / at_once, low=speed_up.low / at_once, high=speed_up.high / at_once)
        if speed_up
        else None,
        next((timing.crowded for timing in timings if timing.crowded), ""),
    )


def ratio_of_rates(own: Sequence[tuple[int, float]], reference: Mapping[int, float], statistic: Statistic) -> Interval:
    """Return the ratio of rates (or times) by seed to those of a reference: seed by seed over their common seeds, if
    these are all of `own` or enough for an interval; else of means or medians.
    """
    ratios = [rate / reference[seed] for seed, rate in own if seed in reference]
    if len(ratios) >= min(len(own), FEWEST[statistic]):
        return mean_interval(ratios, statistic=statistic)
    above, below = [rate for _, rate in own], [*reference.values()]
    if statistic == "mean":
        return ratio_of_means(above, below)
    pairs = [one / other for one in above for other in below]
    return Interval(median(above) / median(below), min(pairs), max(pairs), len(above), "range")


def ratio_of_means(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Return the ratio of two independent means with Fieller's interval (1954); both errors count.

    Degrees of freedom are those of the smaller sample: Welch's cover only 92 % with 3 values in the denominator and 20
    in the numerator. With too few values on either side, or a denominator that may be 0, the bounds are the minimum and
    maximum ratio.
    """
    ratio = fmean(above) / fmean(below)
    pairs = [one / other for one in above for other in below]
    extremes = Interval(ratio, min(pairs), max(pairs), len(above), "range")
    if min(len(above), len(below)) < FEWEST["mean"]:
        return extremes
    error, base = variance(above) / len(above), variance(below) / len(below)
    if not error + base:
        return extremes
    reach = student(LEVEL, min(len(above), len(below)) - 1)
    share = reach**2 * base / fmean(below) ** 2
    if share >= 1:
        return extremes
    middle, half = ratio / (1 - share), reach * sqrt(error * (1 - share) + ratio**2 * base) / fmean(below) / (1 - share)
    return Interval(ratio, middle - half, middle + half, len(above), "fieller")
