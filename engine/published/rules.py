"""What a published figure claims, as rules that seeds can bear out or refute: values within a tolerance, signs, orders, growth, crossovers. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.analysis.intervals import crossing, equivalence, kendall, mean_interval, sign
from engine.metrics import metric
from engine.published.readings import Readings, at, means, slopes, xs_of

Outcome = Literal["holds", "fails", "undecided", "not judged"]
Kind = Literal["value", "shape"]
SAME_ORDER = 0.66
"""Kendall's tau from which two rows count as in the same order: of four points all but one pair."""
FEWEST_SEEDS = 3


@dataclass(frozen=True)
class Check:
    """How one rule came out, and the numbers that led to it."""

    kind: Kind
    rule: str
    outcome: Outcome
    numbers: str


class Rule(Protocol):
    """One claim that can be judged."""

    @property
    def kind(self) -> Kind: ...

    @property
    def said(self) -> str: ...

    def judge(self, readings: Readings) -> Check: ...


@dataclass(frozen=True)
class Near:
    """The mean over seeds at x equals the published value, within a tolerance."""

    number: str
    x: float
    value: float
    tolerance: float
    of: str = ""
    """What x counts, such as passes."""
    line: str = ""
    kind: Kind = "value"

    @property
    def said(self) -> str:
        where = f"{self.line}, " if self.line else ""
        stop = f"{self.x:g} {self.of}".strip()
        return f"{metric(self.number).label} at {where}{stop} is {self.value:g}{_unit(self.number)} within {self.tolerance:g}"

    def judge(self, readings: Readings) -> Check:
        values = list(at(readings, self.number, self.line, self.x).values())
        if len(values) < FEWEST_SEEDS:
            return Check(self.kind, self.said, "undecided", _lacks(len(values)))
        found, lies = mean_interval(values, 0.9), equivalence(values, self.value, self.tolerance)
        outcome: Outcome = {"within": "holds", "outside": "fails", "undecided": "undecided"}[lies]  # type: ignore[assignment]
        words = {"within": "inside of the tolerance", "outside": "outside of it", "undecided": "partly inside, so more seeds would tell"}[lies]
        numbers = f"{found.mean:.5g} (90 % interval {found.low:.5g} to {found.high:.5g}, {found.count} seeds): {words}"
        return Check(self.kind, self.said, outcome, numbers)


@dataclass(frozen=True)
class Ahead:
    """One line (or x) is below or above another, seed by seed. An x of None is the largest at which both lines have readings."""

    number: str
    first: str
    second: str
    side: Literal["below", "above"]
    words: str
    first_x: float | None = None
    second_x: float | None = None
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        common = {*xs_of(readings, self.number, self.first)} & {*xs_of(readings, self.number, self.second)}
        last = max(common, default=0.0)
        one, other = (at(readings, self.number, line, last if x is None else x) for line, x in ((self.first, self.first_x), (self.second, self.second_x)))
        where = "" if self.first_x is not None or not common else f" at {last:g}"
        return _of_differences(self.said, [one[seed] - other[seed] for seed in one if seed in other], self.side, self.number, where)


@dataclass(frozen=True)
class Beyond:
    """The mean over seeds at x is above or below a value."""

    number: str
    value: float
    side: Literal["below", "above"]
    words: str
    line: str = ""
    x: float | None = None
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        x = self.x if self.x is not None else max(xs_of(readings, self.number, self.line), default=0.0)
        values = at(readings, self.number, self.line, x).values()
        return _of_differences(self.said, [value - self.value for value in values], self.side, self.number)


@dataclass(frozen=True)
class Order:
    """Means over seeds at some xs are in the order of the published ys (Kendall's tau)."""

    number: str
    published: Mapping[float, float]
    words: str
    line: str = ""
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        ours = means(readings, self.number, self.line)
        xs = list(self.published)
        if lacks := _thin(readings, self.number, self.line, xs):
            return Check(self.kind, self.said, "undecided", lacks)
        tau = kendall([ours[x] for x in xs], [self.published[x] for x in xs])
        told = ", ".join(f"{ours[x]:.4g} at {x:g}" for x in xs)
        return Check(self.kind, self.said, "holds" if tau >= SAME_ORDER else "fails", f"{told}: Kendall's tau {tau:.2f}, wanted at least {SAME_ORDER:g}")


@dataclass(frozen=True)
class Slower:
    """One line grows more slowly along x than another, seed by seed (slopes of least squares)."""

    number: str
    first: str
    second: str
    words: str
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        one, other = (slopes(readings, self.number, line) for line in (self.first, self.second))
        return _of_differences(self.said, [one[seed] - other[seed] for seed in one if seed in other], "below", self.number, " a step along x")


@dataclass(frozen=True)
class Crosses:
    """From some x on at the latest, one line stays below another (means over seeds)."""

    number: str
    first: str
    second: str
    by: float
    words: str
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        one, other = (means(readings, self.number, line) for line in (self.first, self.second))
        xs = sorted({*one} & {*other})
        if len(xs) < 2:
            return Check(self.kind, self.said, "undecided", "fewer than 2 points have finished runs of both lines")
        if lacks := _thin(readings, self.number, self.first, xs) or _thin(readings, self.number, self.second, xs):
            return Check(self.kind, self.said, "undecided", lacks)
        place = crossing(xs, [one[x] for x in xs], [other[x] for x in xs])
        if place is None:
            return Check(self.kind, self.said, "fails", f"{self.first} is not below {self.second} at {xs[-1]:g}")
        return Check(self.kind, self.said, "holds" if place <= self.by else "fails", f"below from {place:.3g} on, wanted by {self.by:g}")


def _of_differences(said: str, differences: Sequence[float], side: Literal["below", "above"], number: str, more: str = "") -> Check:
    if len(differences) < FEWEST_SEEDS:
        return Check("shape", said, "undecided", _lacks(len(differences)))
    found, lies = mean_interval(differences, 0.9), sign(differences)
    wanted = -1 if side == "below" else 1
    outcome: Outcome = "undecided" if lies == 0 else "holds" if lies == wanted else "fails"
    unit = " points" if metric(number).unit == "%" else _unit(number)
    told = f"difference {found.mean:+.4g}{unit}{more} (90 % interval {found.low:+.4g} to {found.high:+.4g}, {found.count} seeds)"
    return Check("shape", said, outcome, told + (": its sign is open, more seeds would tell" if lies == 0 else ""))


def _thin(readings: Readings, number: str, line: str, xs: Sequence[float]) -> str:
    """Return which of some points has too few seeds, in words; empty where all have enough."""
    counts = {x: len(at(readings, number, line, x)) for x in xs}
    thin = [f"{count} at {x:g}" for x, count in counts.items() if count < FEWEST_SEEDS]
    return f"finished seeds: {', '.join(thin)}, and {FEWEST_SEEDS} are needed at each point" if thin else ""


def _lacks(count: int) -> str:
    return f"{count} {'seed' if count == 1 else 'seeds'} here, and {FEWEST_SEEDS} are needed"


def _unit(number: str) -> str:
    unit = metric(number).unit
    return f" {unit}" if unit else ""
