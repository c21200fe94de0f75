"""Time breakdown of ranks by count: seconds in each phase, the share of communication, and the break-even count.
Torch-free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from engine.analysis.scaling.scaling_data import TimedRun
from engine.registry import server_roles

WORK = ("compute", "update", "data", "evaluate")
"""Productive phases; all others except `serve` are overhead of parallelism."""
SHARES = {
    "work": WORK,
    "communication": ("communicate",),
    "waiting and locks": ("wait", "lock"),
    "other": ("other",),
}
"""Phases by the names under which they are summed."""
SERVE = "serve"
PhasesOf = Mapping[int, Mapping[str, Mapping[str, float]]]
"""Seconds by run, role and phase."""


@dataclass(frozen=True)
class PhaseBar:
    """The seconds of one rank, or the mean of several of the same kind, in each phase."""

    line: tuple[Any, ...]
    count: int
    rank: str
    """The role, or the kind of role (trainer, observer) if several were averaged."""
    seconds: Mapping[str, float]

    @property
    def whole_s(self) -> float:
        """Seconds of the main thread; the time of handler threads is not included."""
        return sum(spent for phase, spent in self.seconds.items() if phase != SERVE)

    def share(self, *phases: str) -> float:
        """Return the share (0 to 1) of some phases."""
        return sum(self.seconds.get(phase, 0.0) for phase in phases) / self.whole_s if self.whole_s else 0.0


@dataclass(frozen=True)
class CountStep:
    """Savings and costs of the step from one count to the next, in seconds per rank for the work of the
    smallest size.
    """

    line: tuple[Any, ...]
    first: int
    second: int
    saved_s: float
    cost_s: float

    @property
    def gain_s(self) -> float:
        """Seconds gained per added rank."""
        return (self.saved_s - self.cost_s) / (self.second - self.first)


def bars(timings: Sequence[TimedRun], phases: PhasesOf, *, each_rank: bool) -> list[PhaseBar]:
    """Return a bar for each line, count and rank (or kind of rank): the mean over seeds, in ascending order of
    counts.
    """
    groups: dict[tuple[tuple[Any, ...], int, str], list[Mapping[str, float]]] = {}
    for timing in sorted(timings, key=lambda timing: timing.count):
        for role, spent in phases.get(timing.run_id, {}).items():
            groups.setdefault((timing.line, timing.count, role if each_rank else kind_of(role)), []).append(spent)
    return [PhaseBar(*key, _mean(found)) for key, found in groups.items()]


def kind_of(role: str) -> str:
    """Return the kind of rank of a role: trainer for trainer3."""
    return role.rstrip("0123456789")


def steps(timings: Sequence[TimedRun], phases: PhasesOf) -> list[CountStep]:
    """Return savings and costs of each step to a larger count, by line; empty if phases or sizes are missing.

    Seconds are the mean over the ranks that compute, scaled to the same amount of work.
    """
    found = []
    for line in dict.fromkeys(timing.line for timing in timings):
        costs = _costs([timing for timing in timings if timing.line == line], phases)
        counts = sorted(costs)
        for first, second in pairwise(counts):
            (work, rest), (next_work, next_rest) = costs[first], costs[second]
            found.append(CountStep(line, first, second, work - next_work, next_rest - rest))
    return found


def break_even(found: Sequence[CountStep]) -> float | None:
    """Return the count at which an added rank costs what it saves, interpolated between the midpoints of the
    steps of one line; None if there is none.

    The first count if the first step already costs more than it saves.
    """
    middles = [((step.first + step.second) / 2, step.gain_s) for step in found]
    for place, (middle, gain) in enumerate(middles):
        if gain <= 0:
            if place == 0:
                return float(found[0].first)
            before, gained = middles[place - 1]
            return before + (middle - before) * gained / (gained - gain)
    return None


def _costs(timings: Sequence[TimedRun], phases: PhasesOf) -> dict[int, tuple[float, float]]:
    """Return the seconds of work and of overhead by count: the mean of the computing ranks, for the work of the
    smallest size.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    servers = server_roles()
    base = min(((timing.count, timing.work) for timing in timings), default=(0, 1.0))[1]
    for timing in timings:
        roles = [spent for role, spent in phases.get(timing.run_id, {}).items() if role not in servers]
        if roles:
            scale = base / timing.work
            own = sum(spent.get(phase, 0.0) for spent in roles for phase in WORK) / len(roles) * scale
            whole = (
                sum(seconds for spent in roles for phase, seconds in spent.items() if phase != SERVE)
                / len(roles)
                * scale
            )
            found.setdefault(timing.count, []).append((own, whole - own))
    return {
        count: (sum(one for one, _ in each) / len(each), sum(other for _, other in each) / len(each))
        for count, each in found.items()
    }


def _mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for spent in found for name in spent)
    return {name: sum(spent.get(name, 0.0) for spent in found) / len(found) for name in names}
