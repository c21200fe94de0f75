"""Claims of published figures as rules that seeds confirm or refute: plausibility, values, signs, orders, growth. Pure.

Every rule except a value compares an effect, paired by seed, with the minimum effect. It holds where the effect's 98 %
interval lies above the minimum, fails where it lies below, and is undecided otherwise. An absent effect is accepted in
at most 1 % of sweeps, and enough seeds refute one that is too small to matter. Values equal in all seeds are exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from engine.analysis.statistics.intervals import mean_interval
from engine.metrics import metric, unit_of_difference
from engine.published.readings import Readings

Outcome = Literal["holds", "fails", "undecided", "not judged"]
Kind = Literal["floor", "value", "shape"]
Side = Literal["below", "above"]
LEVEL = 0.98
"""Confidence level of the rules' intervals: 1 % at either side."""
LEVEL_EXPLAINED = (
    "98 % CI: 1 % at either side, so that an absent effect is accepted in at most 1 % of sweeps; intervals of other "
    "pages have 95 %. Over 3 to 8 skewed values it covers about 93 % (86 to 91 % if strongly skewed)."
)
FEWEST_SEEDS = 3
SHARE, POINTS = 0.05, 0.3
"""The minimum effect: a fraction of a time or rate, points of a percentage."""


@dataclass(frozen=True)
class Check:
    """The outcome of one rule, and the values behind it."""

    kind: Kind
    rule: str
    outcome: Outcome
    numbers: str


class Rule(Protocol):
    """One claim that can be judged."""

    @property
    def kind(self) -> Kind: ...

    @property
    def statement(self) -> str: ...

    def judge(self, readings: Readings) -> Check: ...


def compared(rule: Rule, one: Mapping[int, float], other: Mapping[int, float], side: Side, words: str) -> Check:
    """Check a rule by the lead of one metric over another, paired by seed."""
    number: str = rule.number  # type: ignore[attr-defined]
    leads = [gap(number, one[seed], other[seed]) * (1 if side == "below" else -1) for seed in one if seed in other]
    points = metric(number).unit == "%"
    return effect(
        rule,
        leads if points else [100 * lead for lead in leads],
        POINTS if points else 100 * SHARE,
        words,
        unit_of_difference(number) if points else " %",
    )


def effect(rule: Rule, effects: Sequence[float], least: float, words: str, unit: str) -> Check:
    """Check a rule by an effect that is positive in the claimed direction, against the minimum `least`."""
    if len(effects) < FEWEST_SEEDS:
        return Check(rule.kind, rule.statement, "undecided", lacks(len(effects)))
    found = mean_interval(effects, LEVEL)
    lies = found.side(least)
    outcome: Outcome = "undecided" if lies == 0 else "holds" if lies > 0 else "fails"
    numbers = f"{words} {found.mean:.4g}{unit} (98 % CI {found.low:.4g} to {found.high:.4g}, {found.count} runs)"
    minimum = f", required: more than {least:g}" if least else ""
    return Check(rule.kind, rule.statement, outcome, numbers + minimum + ("; add seeds to decide" if lies == 0 else ""))


def level_explained(checks: Iterable[Check]) -> str:
    """Return what the level of the checks' intervals means; empty where none has one."""
    return LEVEL_EXPLAINED if any("98 % CI" in check.numbers for check in checks) else ""


def worst(rule: Rule, checks: Iterable[Check]) -> Check:
    """Return the worst of several checks of one rule, with the count of that outcome."""
    found = list(checks)
    for outcome in ("fails", "undecided"):
        if bad := [check for check in found if check.outcome == outcome]:
            return replace(
                bad[0],
                numbers=(
                    f"{len(bad)} of {len(found)} pairs {'fail' if outcome == 'fails' else 'are undecided'}: "
                    f"{bad[0].numbers}"
                ),
            )
    return Check(rule.kind, rule.statement, "holds", "; ".join(check.numbers for check in found))


def gap(number: str, one: float, other: float) -> float:
    """Return how far one value lies below another: in points for a percentage, else as a fraction of the larger."""
    if metric(number).unit == "%":
        return other - one
    larger = max(abs(one), abs(other))
    return (other - one) / larger if larger else 0.0


def least_effect(number: str) -> float:
    """Return the minimum effect, in the terms of `gap`."""
    return POINTS if metric(number).unit == "%" else SHARE


def lacks(count: int) -> str:
    """Return the message for too few seeds."""
    return f"at least {FEWEST_SEEDS} seeds required; got {count}"


def unit_of(number: str) -> str:
    """Return a metric's unit suffix; empty where it has none."""
    unit = metric(number).unit
    return f" {unit}" if unit else ""
