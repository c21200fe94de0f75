"""Rules that compare lines and points: order, growth and crossings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from engine.analysis.statistics.intervals import slope
from engine.published.readings import Readings, at, whole, xs_of
from engine.published.rules import SHARE, Check, Kind, Side, compared, effect, gap, least_effect, worst


@dataclass(frozen=True)
class Ahead:
    """One line (or x) is below or above another, paired by seed. An x of None is the largest with readings of both."""

    number: str
    first: str
    second: str
    side: Side
    words: str
    first_x: float | None = None
    second_x: float | None = None
    kind: Kind = "shape"

    @property
    def statement(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        common = {*xs_of(readings, self.number, self.first)} & {*xs_of(readings, self.number, self.second)}
        last = max(common, default=0.0)
        one, other = (
            at(readings, self.number, line, last if x is None else x)
            for line, x in ((self.first, self.first_x), (self.second, self.second_x))
        )
        where = "" if self.first_x is not None or not common else f"at {last:g} "
        return compared(self, one, other, self.side, f"{where}{self.side} by")


@dataclass(frozen=True)
class OrderRule:
    """Values at some xs are in the published order, paired by seed: each pair of xs whose published ys differ by at
    least the minimum effect.
    """

    number: str
    published: Mapping[float, float]
    words: str
    line: str = ""
    kind: Kind = "shape"

    @property
    def statement(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        pairs = sorted(
            (first, second) if self.published[first] < self.published[second] else (second, first)
            for first, second in combinations(self.published, 2)
        )
        apart = [
            (low, high)
            for low, high in pairs
            if gap(self.number, self.published[low], self.published[high]) >= least_effect(self.number)
        ]
        values = {x: at(readings, self.number, self.line, x) for x in self.published}
        return worst(
            self,
            [
                compared(self, values[low], values[high], "below", f"at {low:g} below that at {high:g} by")
                for low, high in apart
            ],
        )


@dataclass(frozen=True)
class Slower:
    """One line grows more slowly along x than another, paired by seed: least-squares slope over the whole range, as a
    fraction of the other's mean.
    """

    number: str
    first: str
    second: str
    words: str
    kind: Kind = "shape"

    @property
    def statement(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        one, other = (whole(readings, self.number, line) for line in (self.first, self.second))
        effects = [
            (_growth(other[seed]) - _growth(one[seed])) / abs(fmean(other[seed].values()))
            for seed in one
            if seed in other and min(len(one[seed]), len(other[seed])) > 1 and any(other[seed].values())
        ]
        return effect(self, [100 * effect for effect in effects], 100 * SHARE, "grows less by", " % of the mean")


@dataclass(frozen=True)
class Crosses:
    """One line is below another at every x from `by` on, paired by seed."""

    number: str
    first: str
    second: str
    by: float
    words: str
    kind: Kind = "shape"

    @property
    def statement(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        common = sorted({*xs_of(readings, self.number, self.first)} & {*xs_of(readings, self.number, self.second)})
        beyond = [x for x in common if x >= self.by]
        if len(common) < 2 or not beyond:
            return Check(
                self.kind,
                self.statement,
                "undecided",
                f"needs 2 points with finished runs of both lines, one of them at {self.by:g} or more",
            )
        sides = (
            (at(readings, self.number, self.first, x), at(readings, self.number, self.second, x), x) for x in beyond
        )
        return worst(self, [compared(self, one, other, "below", f"at {x:g} below by") for one, other, x in sides])


def _growth(values: Mapping[float, float]) -> float:
    xs = sorted(values)
    return slope(xs, [values[x] for x in xs]) * (xs[-1] - xs[0])
