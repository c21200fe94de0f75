"""Rules for one metric: plausible, near a published value, or beyond one. Pure."""

from dataclasses import dataclass

from engine.analysis.statistics.intervals import equivalence, mean_interval
from engine.metrics import metric, unit_of_difference
from engine.published.readings import Readings, at, xs_of
from engine.published.rules import FEWEST_SEEDS, LEVEL, Check, Kind, Outcome, Side, compared, effect, lacks, unit_of


@dataclass(frozen=True)
class Plausible:
    """The mean over runs lies within bounds that every working run meets; judged before all other rules. An x of None
    uses the runs of all points.
    """

    number: str
    words: str
    least: float
    most: float | None = None
    x: float | None = None
    kind: Kind = "floor"

    @property
    def statement(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        values = [found.value for found in readings.get(self.number, ()) if self.x in (None, found.x)]
        unit, by = unit_of(self.number), unit_of_difference(self.number)
        above = effect(self, [value - self.least for value in values], 0.0, f"above {self.least:g}{unit} by", by)
        if self.most is None or above.outcome != "holds":
            return above
        return effect(self, [self.most - value for value in values], 0.0, f"below {self.most:g}{unit} by", by)


@dataclass(frozen=True)
class Near:
    """The mean over seeds at x equals the published value, within a tolerance."""

    number: str
    x: float
    value: float
    tolerance: float
    of: str = ""
    """Unit of x, such as passes."""
    line: str = ""
    kind: Kind = "value"

    @property
    def statement(self) -> str:
        where = f"{self.line}, " if self.line else ""
        stop = f"{self.x:g} {self.of}".strip()
        return (
            f"{metric(self.number).label} at {where}{stop} is {self.value:g}{unit_of(self.number)} within "
            f"{self.tolerance:g}"
        )

    def judge(self, readings: Readings) -> Check:
        values = list(at(readings, self.number, self.line, self.x).values())
        if len(values) < FEWEST_SEEDS:
            return Check(self.kind, self.statement, "undecided", lacks(len(values)))
        found, lies = mean_interval(values, LEVEL), equivalence(values, self.value, self.tolerance, LEVEL)
        outcome: Outcome = {"within": "holds", "outside": "fails", "undecided": "undecided"}[lies]  # type: ignore[assignment]
        words = {
            "within": "within tolerance",
            "outside": "outside tolerance",
            "undecided": "partly within tolerance; add seeds to decide",
        }[lies]
        numbers = f"{found.mean:.5g} (98 % CI {found.low:.5g} to {found.high:.5g}, {found.count} seeds): {words}"
        return Check(self.kind, self.statement, outcome, numbers)


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
    def statement(self) -> str:
        return self.words

    def judge(self, readings: Readings) -> Check:
        x = self.x if self.x is not None else max(xs_of(readings, self.number, self.line), default=0.0)
        values = at(readings, self.number, self.line, x)
        return compared(
            self,
            values,
            dict.fromkeys(values, self.value),
            self.side,
            f"{self.side} {self.value:g}{unit_of(self.number)} by",
        )
