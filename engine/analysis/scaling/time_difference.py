"""Why one run, or one configuration, was faster than another: amounts of work, disturbance, and the recorded phases.
Torch-free and pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean, median
from typing import Literal

from engine.access.quotas import DISTURBED_ABOVE_PERCENT
from engine.analysis.comparability import MOST_NAMED, crowded, unlike
from engine.analysis.run_values import other_task
from engine.analysis.scaling.scaling_data import SERVE, PhasesOf
from engine.analysis.scaling.speedup import is_unclear, ratio_of_rates
from engine.analysis.scaling.targets import ALIKE, Goal, time_text
from engine.analysis.statistics.intervals import Interval, Statistic
from engine.registry import known_experiment, server_roles
from engine.store import Surroundings
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

Compares = Literal["time", "rate", "neither"]
"""What can be compared between runs: their times; after unequal amounts of work, only the work per second."""
EXPLAINS, TOGETHER = 0.5, 0.7
"""Part of a difference in time that one activity, or two together, must account for to explain it."""
MOST_DISTURBED = 0.99
SAME_COMPUTATION = 0.25
"""Relative difference of the computation of all ranks up to which only their number differs."""
COMPUTED = "computed"
WAITED, COMMUNICATED = "waited", "communicated"
NOTHING = 0.005
"""Share of a time below which it is not mentioned."""
ACTIVITIES = {
    COMPUTED: ("compute", "update"),
    "loaded data": ("data",),
    "tested": ("evaluate",),
    COMMUNICATED: ("communicate",),
    WAITED: ("wait", "lock"),
    "did other things": ("other",),
}
"""Phases by what their ranks did."""


@dataclass(frozen=True)
class TimeSpent:
    """What a run, or the runs of one configuration, did and how long it took."""

    name: str
    times_s: tuple[float, ...]
    work: tuple[float, ...]
    """Units of work of each run; 0 if not counted."""
    unit: str
    ranks: int
    """Ranks besides servers."""
    seconds: Mapping[str, float]
    """Mean seconds of these ranks by activity; empty if not recorded."""
    time_s: float
    """The mean, or median, of the times."""
    disturbance: float = 0.0
    """Mean share (0 to 1) of the CPU time that others took."""
    disturbed_above: float = DISTURBED_ABOVE_PERCENT / 100
    """The lab's threshold of that share."""
    crowded: str = ""
    """Why it is oversubscribed; empty if it isn't."""
    seeds: tuple[int, ...] = ()
    """The seed of each run, by which two are compared; empty if unknown."""
    statistic: Statistic = "mean"

    @property
    def amount(self) -> float:
        """Mean units of work of a run."""
        return fmean(self.work)


def time_spent(
    groups: Mapping[str, Sequence[RunRow]],
    around: Mapping[int, Surroundings],
    phases: PhasesOf,
    *,
    by_median: bool = False,
) -> list[TimeSpent]:
    """Return the runs of each group by its name; groups without a known time are omitted. The time of a run that was
    ended at a budget is that of its ranks.
    """
    found, servers = [], server_roles()
    statistic: Statistic = "median" if by_median else "mean"
    for name, runs in groups.items():
        ranks = {
            run.id: [spent for role, spent in phases.get(run.id, {}).items() if role not in servers] for run in runs
        }
        times = {
            run.id: time_s
            for run in runs
            if run.id in around and (time_s := run.execution_time_s or _longest(ranks[run.id]))
        }
        every_rank = [spent for run_id in times for spent in ranks[run_id]]
        if not times:
            continue
        seconds = {
            word: fmean(sum(spent.get(phase, 0.0) for phase in named) for spent in every_rank)
            for word, named in (ACTIVITIES.items() if every_rank else ())
        }
        found.append(
            TimeSpent(
                name,
                tuple(times.values()),
                tuple(float(around[run_id].work) for run_id in times),
                next(around[run_id].unit for run_id in times),
                max(len(ranks[run_id]) for run_id in times),
                seconds,
                (median if by_median else fmean)(times.values()),
                fmean(run.disturbance or 0.0 for run in runs if run.id in times),
                runs[0].disturbed_above,
                next(filter(None, (crowded(around[run_id]) for run_id in times)), ""),
                tuple(int(run.config.get(SEED, 0)) for run in runs if run.id in times),
                statistic,
            )
        )
    return found


def _longest(ranks: Sequence[Mapping[str, float]]) -> float:
    return max((sum(spent for phase, spent in rank.items() if phase != SERVE) for rank in ranks), default=0.0)


def not_comparable(runs: Sequence[RunRow], around: Mapping[int, Surroundings]) -> str:
    """Return why the times of some runs say nothing about each other, as a sentence; else an empty text."""
    known = [around[run.id] for run in runs if run.id in around]
    if len(units := sorted({about.unit for about in known if about.unit})) > 1:
        return f"Times do not compare: the runs count different work ({' and '.join(units)})."
    if apart := other_task(runs):
        return f"Times do not compare: the runs differ in {apart}."
    machines = unlike(known)
    return f"Times do not compare: the runs used different machines ({machines})." if machines else ""


def is_speed_unknown(runs: Sequence[RunRow], around: Mapping[int, Surroundings]) -> bool:
    """Return whether nothing is known of how the times of some runs compare: one of another program beside those of a
    further experiment, or without its machine.
    """
    foreign = [run for run in runs if known_experiment(run.experiment) is None]
    return bool(foreign) and (
        len({run.experiment for run in runs}) > 1 or not all(run.id in around and around[run.id].cores for run in runs)
    )


def is_work_unequal(found: Sequence[TimeSpent]) -> bool:
    """Return whether the runs did different amounts of work, so that only their work per second compares."""
    amounts = [amount for each in found for amount in each.work]
    return min(amounts, default=0.0) > 0 and max(amounts) > (1 + ALIKE) * min(amounts)


def why_faster(found: Sequence[TimeSpent], goal: Goal | None = None, *, explained: bool = True) -> str:
    """Return which was fastest and, `explained`, why, as some sentences; empty with less than two.

    Different amounts of work are named first; then, and with a goal, work per second is compared. The fastest is
    compared with the slowest, and with the first at the goal. Last come the oversubscribed ones.
    """
    if len(found) < 2:
        return ""
    shared = [f"{each.name} ({each.crowded})" for each in found if each.crowded]
    more = f" and {len(shared) - MOST_NAMED} more" if len(shared) > MOST_NAMED else ""
    named = f"{', '.join(shared[:MOST_NAMED])}{more}"
    caution = f" Oversubscribed: {named}; these timings are not valid for speed-up." if shared else ""
    if is_work_unequal(found):
        lead = "After unequal work, times alone do not compare. "
        return lead + _compared(found, lambda each: each.time_s / each.amount, found[0].unit, goal, explained) + caution
    if goal and goal.first() and all(amount > 0 for each in found for amount in each.work):
        return _compared(found, lambda each: each.time_s / each.amount, found[0].unit, goal, explained) + caution
    return _compared(found, lambda each: each.time_s, "", None, explained) + caution


def _compared(
    found: Sequence[TimeSpent], cost: Callable[[TimeSpent], float], unit: str, goal: Goal | None, explained: bool
) -> str:
    """Return the comparison of the lowest and highest time, or time per unit of work, and which reached the goal
    first.
    """
    fast, slow = min(found, key=cost), max(found, key=cost)
    first = goal.before(goal.last()) if goal else ""
    fast_time, slow_time = (time_text(each.time_s, beside=max(fast.time_s, slow.time_s)) for each in (fast, slow))
    if cost(slow) <= (1 + ALIKE) * cost(fast):
        every = "Both" if len(found) == 2 else "All"
        return (
            f"{every} did about as much per second: {_span(_rate(slow), _rate(fast))} {unit}.{first}"
            if unit
            else f"{every} took about as long: {_span(fast_time, slow_time)}."
        )
    if is_unclear(times := ratio(fast, slow, unit)):
        by_rate = unit and is_work_unequal(found)
        most, least = (
            (f"did {_rate(fast)} {unit} per second", _rate(slow)) if by_rate else (f"took {fast_time}", slow_time)
        )
        average = "on average" if fast.statistic == "mean" else "by median"
        return (
            f"No clear difference{' per second' if by_rate else ''}: {average}, "
            f"{fast.name} {most} (fastest) and {slow.name} {least} (slowest), but the "
            f"{'interval' if times.is_known else 'range'} of their ratio includes 1.{first}"
        )
    also = goal.also(fast.name) if goal else ""
    said = (
        f"Fastest by {unit} per second: {fast.name} ({_rate(fast)}){also}; slowest: {slow.name} ({_rate(slow)})."
        if unit
        else f"Fastest: {fast.name} ({fast_time}); slowest: {slow.name} ({slow_time})."
    )
    near = [each.name for each in found if each is not fast and cost(each) <= (1 + ALIKE) * cost(fast)]
    alike = f" Within {100 * ALIKE:.0f} % of the fastest: {', '.join(near)}." if near else ""
    reason = f" {_reason(fast, slow, cost, unit)}" if explained else ""
    return f"{said}{alike}{reason}{goal.before(fast.name) if goal else ''}"


def ratio(fast: TimeSpent, slow: TimeSpent, unit: str) -> Interval:
    """Return the speed-up of one to another, with its interval, as under Scaling; of work per time with a unit."""
    own, other = (
        [
            (seed, (work if unit else 1.0) / time_s)
            for seed, work, time_s in zip(seeds, each.work, each.times_s, strict=True)
        ]
        for each, seeds in (
            (fast, fast.seeds or range(len(fast.work))),
            (slow, slow.seeds or range(-len(slow.work), 0)),
        )
    )
    return ratio_of_rates(own, dict(other), fast.statistic)


def _reason(fast: TimeSpent, slow: TimeSpent, cost: Callable[[TimeSpent], float], unit: str) -> str:
    """Return what explains the difference, and a caution about disturbance, as sentences."""
    times = cost(slow) / cost(fast)
    shares = [min(each.disturbance, MOST_DISTURBED) for each in (fast, slow)]
    by_others = log((1 - shares[0]) / (1 - shares[1])) / log(times)
    others = (
        f"ther programs took {100 * slow.disturbance:.0f} % of the CPU time of the slowest, "
        f"{100 * fast.disturbance:.0f} % of that of the fastest"
    )
    if slow.disturbance > slow.disturbed_above and by_others >= EXPLAINS:
        return f"O{others}: measure again without them."
    caution = f" O{others}." if max(fast.disturbance, slow.disturbance) > slow.disturbed_above else ""
    if not fast.seconds or not slow.seconds:
        return f"The phases of their ranks were not recorded, so the reason is unknown.{caution}"
    own, theirs = (
        {word: spent / (each.amount if unit else 1.0) for word, spent in each.seconds.items()} for each in (fast, slow)
    )
    named = explaining(own, theirs, cost(slow) - cost(fast))
    if not named:
        return f"No recorded phase of their ranks explains the difference.{_overhead(fast, slow)}{caution}"
    overhead = "" if {WAITED, COMMUNICATED} & set(named) else _overhead(fast, slow)
    return " ".join(_phrase(word, fast, slow, own[word], theirs[word], unit) for word in named) + overhead + caution


def explaining(own: Mapping[str, float], theirs: Mapping[str, float], difference_s: float) -> tuple[str, ...]:
    """Return the activity, or the two, whose seconds account for most of a difference in time; none if none does."""
    parts = {word: (theirs[word] - own[word]) / difference_s for word in ACTIVITIES}
    first, second = sorted(parts, key=lambda word: -parts[word])[:2]
    if parts[first] >= EXPLAINS:
        return (first,)
    return (first, second) if parts[second] > 0 and parts[first] + parts[second] >= TOGETHER else ()


def _overhead(fast: TimeSpent, slow: TimeSpent) -> str:
    """Return the share of waiting and communication in both, as a sentence; empty if both have none."""
    shares = [
        (each.seconds[WAITED] + each.seconds[COMMUNICATED]) / (sum(each.seconds.values()) or 1.0)
        for each in (fast, slow)
    ]
    if max(shares) < NOTHING:
        return ""
    return (
        f" Waiting and communication took {100 * shares[0]:.0f} % of the time of the fastest, "
        f"{100 * shares[1]:.0f} % of that of the slowest."
    )


def _phrase(word: str, fast: TimeSpent, slow: TimeSpent, own: float, theirs: float, unit: str) -> str:
    """Return the difference in one activity, whose seconds (per unit of work) are given, as a sentence."""
    computed = word == COMPUTED
    apart = computed and fast.ranks != slow.ranks
    if apart and abs(own * fast.ranks / (theirs * slow.ranks) - 1) <= SAME_COMPUTATION:
        return f"The computation was shared by {_ranks(fast)} in the fastest, by {_ranks(slow)} in the slowest."
    shares = [each.seconds[word] / sum(each.seconds.values()) for each in (fast, slow)]
    if not computed and shares[1] - shares[0] > ALIKE:
        both = f"{100 * shares[0]:.0f} % of the time, those of the slowest {100 * shares[1]:.0f} %"
        return f"Ranks of the fastest {word} {both}."
    each, size = (f"Per 1,000 {unit} of the run, each", 1_000) if unit else ("Each", 1)
    counts = [f" ({_ranks(one)})" if apart else "" for one in (fast, slow)]
    return (
        f"{each} rank of the fastest{counts[0]} {word} {time_text(own * size)}, each of the slowest{counts[1]} "
        f"{time_text(theirs * size)}."
    )


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _ranks(each: TimeSpent) -> str:
    return f"{each.ranks} {'rank' if each.ranks == 1 else 'ranks'}"


def _rate(each: TimeSpent) -> str:
    rate = each.amount / each.time_s
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
