"""What a published figure claims, as rules that seeds can bear out or refute: plausibility, values, signs, orders,
growth. Pure.

Every rule but a value compares an effect, run by run of the same seed, with the least effect that counts: it holds
where the effect's 98 % interval lies above that, fails where it lies below, and is undecided else. So an effect that is
not there is taken for one in at most 1 % of sweeps, and one too small to matter is refuted by enough seeds. Numbers
that are equal in all seeds are taken as exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Literal, Protocol

from engine.analysis.statistics.intervals import equivalence, mean_interval, slope
from engine.metrics import metric
from engine.published.readings import Readings, at, whole, xs_of

Outcome = Literal["holds", "fails", "undecided", "not judged"]
Kind = Literal["floor", "value", "shape"]
Side = Literal["below", "above"]
LEVEL = 0.98
"""Of the intervals that rules judge by: 1 % at either side."""
FEWEST_SEEDS = 3
SHARE, POINTS = 0.05, 0.3
"""The least effect that counts: a share of a time or a rate, points of a percentage."""


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
class Plausible:
    """The mean over runs lies between bounds that no working run leaves; judged before all other rules. An x of None
    takes the runs of all points.
    """

    number: str
    words: str
    least: float
    most: float | None = None
    x: float | None = None
    kind: Kind = "floor"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        values = [found.value for found in readings.get(self.number, ()) if self.x in (None, found.x)]
        unit = _unit(self.number)
        above = _effect(self, [value - self.least for value in values], 0.0, f"above {self.least:g}{unit} by", unit)
        if self.most is None or above.outcome != "holds":
            return above
        return _effect(self, [self.most - value for value in values], 0.0, f"below {self.most:g}{unit} by", unit)


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
        return (
            f"{metric(self.number).label} at {where}{stop} is {self.value:g}{_unit(self.number)} within "
            f"{self.tolerance:g}"
        )

    def judge(self, readings: Readings) -> Check:
        values = list(at(readings, self.number, self.line, self.x).values())
        if len(values) < FEWEST_SEEDS:
            return Check(self.kind, self.said, "undecided", _lacks(len(values)))
        found, lies = mean_interval(values, LEVEL), equivalence(values, self.value, self.tolerance, LEVEL)
        outcome: Outcome = {"within": "holds", "outside": "fails", "undecided": "undecided"}[lies]  # type: ignore[assignment]
        words = {
            "within": "inside of the tolerance",
            "outside": "outside of it",
            "undecided": "partly inside, so more seeds would tell",
        }[lies]
        numbers = f"{found.mean:.5g} (98 % interval {found.low:.5g} to {found.high:.5g}, {found.count} seeds): {words}"
        return Check(self.kind, self.said, outcome, numbers)


@dataclass(frozen=True)
class Ahead:
    """One line (or x) is below or above another, seed by seed. An x of None is the largest at which both lines have
    readings.
    """

    number: str
    first: str
    second: str
    side: Side
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
        one, other = (
            at(readings, self.number, line, last if x is None else x)
            for line, x in ((self.first, self.first_x), (self.second, self.second_x))
        )
        where = "" if self.first_x is not None or not common else f"at {last:g} "
        return _compared(self, one, other, self.side, f"{where}{self.side} by")


@dataclass(frozen=True)
class Beyond:
    """The mean over seeds at x is above or below a value."""

    number: str
    value: float
    side: Side
    words: str
    line: str = ""
    x: float | None = None
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        x = self.x if self.x is not None else max(xs_of(readings, self.number, self.line), default=0.0)
        values = at(readings, self.number, self.line, x)
        return _compared(
            self,
            values,
            dict.fromkeys(values, self.value),
            self.side,
            f"{self.side} {self.value:g}{_unit(self.number)} by",
        )


@dataclass(frozen=True)
class OrderRule:
    """Numbers at some xs are in the order of the published ys, seed by seed: each pair of xs whose published ys lie
    apart by the least effect that counts.
    """

    number: str
    published: Mapping[float, float]
    words: str
    line: str = ""
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        pairs = sorted(
            (first, second) if self.published[first] < self.published[second] else (second, first)
            for first, second in combinations(self.published, 2)
        )
        apart = [
            (low, high)
            for low, high in pairs
            if _gap(self.number, self.published[low], self.published[high]) >= _least(self.number)
        ]
        values = {x: at(readings, self.number, self.line, x) for x in self.published}
        return _worst(
            self,
            [
                _compared(self, values[low], values[high], "below", f"at {low:g} below that at {high:g} by")
                for low, high in apart
            ],
        )


@dataclass(frozen=True)
class Slower:
    """One line grows more slowly along x than another, seed by seed: its slope of least squares over the whole stretch,
    as a share of the other's mean.
    """

    number: str
    first: str
    second: str
    words: str
    kind: Kind = "shape"

    @property
    def said(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        one, other = (whole(readings, self.number, line) for line in (self.first, self.second))
        effects = [
            (_growth(other[seed]) - _growth(one[seed])) / abs(fmean(other[seed].values()))
            for seed in one
            if seed in other and min(len(one[seed]), len(other[seed])) > 1 and any(other[seed].values())
        ]
        return _effect(self, [100 * effect for effect in effects], 100 * SHARE, "grows less by", " % of the mean")


@dataclass(frozen=True)
class Crosses:
    """From some x on at the latest, one line is below another at every x, seed by seed."""

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
        common = sorted({*xs_of(readings, self.number, self.first)} & {*xs_of(readings, self.number, self.second)})
        beyond = [x for x in common if x >= self.by]
        if len(common) < 2 or not beyond:
            return Check(
                self.kind,
                self.said,
                "undecided",
                "fewer than 2 points have finished runs of both lines, or none of them is from there on",
            )
        sides = (
            (at(readings, self.number, self.first, x), at(readings, self.number, self.second, x), x) for x in beyond
        )
        return _worst(self, [_compared(self, one, other, "below", f"at {x:g} below by") for one, other, x in sides])


def _compared(rule: Rule, one: Mapping[int, float], other: Mapping[int, float], side: Side, words: str) -> Check:
    """Return how a rule comes out by one number's lead over another, seed by seed."""
    number: str = rule.number  # type: ignore[attr-defined]
    leads = [_gap(number, one[seed], other[seed]) * (1 if side == "below" else -1) for seed in one if seed in other]
    points = metric(number).unit == "%"
    return _effect(
        rule,
        leads if points else [100 * lead for lead in leads],
        POINTS if points else 100 * SHARE,
        words,
        " points" if points else " %",
    )


def _effect(rule: Rule, effects: Sequence[float], least: float, words: str, unit: str) -> Check:
    """Return how a rule comes out by an effect, larger for what is claimed, of which `least` counts."""
    if len(effects) < FEWEST_SEEDS:
        return Check(rule.kind, rule.said, "undecided", _lacks(len(effects)))
    found = mean_interval(effects, LEVEL)
    lies = found.side(least)
    outcome: Outcome = "undecided" if lies == 0 else "holds" if lies > 0 else "fails"
    told = f"{words} {found.mean:.4g}{unit} (98 % interval {found.low:.4g} to {found.high:.4g}, {found.count} runs)"
    wanted = f", wanted more than {least:g}" if least else ""
    return Check(rule.kind, rule.said, outcome, told + wanted + (": open, more seeds would tell" if lies == 0 else ""))


def _worst(rule: Rule, checks: Iterable[Check]) -> Check:
    """Return the worst of several checks of one rule, with how many came out so."""
    found = list(checks)
    for outcome in ("fails", "undecided"):
        if bad := [check for check in found if check.outcome == outcome]:
            return replace(
                bad[0],
                numbers=(
                    f"{len(bad)} of {len(found)} pairs {'fail' if outcome == 'fails' else 'are open'}: {bad[0].numbers}"
                ),
            )
    return Check(rule.kind, rule.said, "holds", "; ".join(check.numbers for check in found))


def _gap(number: str, one: float, other: float) -> float:
    """Return how far one number lies below another: in points of a percentage, else as a share of the larger."""
    if metric(number).unit == "%":
        return other - one
    larger = max(abs(one), abs(other))
    return (other - one) / larger if larger else 0.0


def _least(number: str) -> float:
    return POINTS if metric(number).unit == "%" else SHARE


def _growth(values: Mapping[float, float]) -> float:
    xs = sorted(values)
    return slope(xs, [values[x] for x in xs]) * (xs[-1] - xs[0])


def _lacks(count: int) -> str:
    return f"{count} {'seed' if count == 1 else 'seeds'} here, and {FEWEST_SEEDS} are needed"


def _unit(number: str) -> str:
    unit = metric(number).unit
    return f" {unit}" if unit else ""
