"""What a duel came to: values by strategy and seed, paired differences, the verdict, time to the target, and what to
know when reading it. Torch-free.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from engine.analysis.duel import (
    Difference,
    StrategyTarget,
    differences,
    joined,
    reached,
    unflattered,
    usual_target,
    verdict,
)
from engine.analysis.seedings import mixture
from engine.analysis.tuning import Better, Spent
from engine.duel.evidence import DuelEvidence, Tried
from engine.duel.tuning import Tuned, is_missing, tuned
from engine.metrics import metric

FAR = 0.9
"""Tests that stand at less than this share of the budget are worth a word."""
SHORT = 0.98
"""A run that ended before this share of a budget of seconds had nothing left to do."""


@dataclass(frozen=True)
class DuelOutcome:
    """A duel as far as it has come."""

    evidence: DuelEvidence
    tuned: Tuned
    values: Mapping[str, Mapping[int, float]]
    """What each strategy reached within the budget, by seed."""
    found: tuple[Difference, ...]
    verdict: str
    """Who won; empty while no run that is judged has ended."""
    target: float | None
    reached: tuple[StrategyTarget, ...]
    cautions: tuple[str, ...]

    @property
    def better(self) -> Better:
        return metric(self.evidence.duel.metric).better or "max"

    @property
    def unit(self) -> str:
        """What follows a difference of the metric that is judged."""
        return unit_of(self.evidence.duel.metric)


def outcome(found: DuelEvidence) -> DuelOutcome:
    """Return what the runs came to."""
    duel, better = found.duel, metric(found.duel.metric).better or "max"
    judged = {one.name: found.of("judging", place) for place, one in enumerate(duel.strategies)}
    judged, older = _by_one_rule(judged)
    values = {name: {each.seed: each.value for each in own if each.value is not None} for name, own in judged.items()}
    known = any(values.values())
    pairs = (
        unflattered(
            differences(values, better, duel.margin),
            [name for name, own in judged.items() if any(each.failed for each in own)],
        )
        if known
        else []
    )
    tests: dict[str, dict[int, Sequence[Spent]]] = {
        name: {each.seed: each.tests for each in own if each.value is not None} for name, own in judged.items()
    }
    target = duel.target if duel.target is not None else usual_target(tests, duel.budget.amount, better)
    with_failed = {
        name: tests[name] | {each.seed: each.tests for each in own if each.failed} for name, own in judged.items()
    }
    return DuelOutcome(
        found,
        tuned(found),
        values,
        tuple(pairs),
        verdict(list(values), pairs, duel.margin, unit_of(duel.metric)) if known else "",
        target,
        tuple(reached(with_failed, target, duel.budget.amount, better)) if target is not None and known else (),
        (*_of_rules(found, older), *_cautions(found, judged)),
    )


def unit_of(name: str) -> str:
    """Return what follows a difference of a metric: ` points` for one in percent."""
    unit = metric(name).unit
    return " points" if unit == "%" else f" {unit}" if unit else ""


def amount_in_words(kind: str, amount: float) -> str:
    """Return an amount of a budget, such as `12 passes` or `3.5 MB`."""
    if kind == "bytes":
        return f"{amount / 1e6:,.4g} MB"
    told = f"{amount:,.0f}" if amount >= 1_000 or amount == round(amount) else f"{amount:.3g}"
    singular = {"passes": "pass"}.get(kind, kind[:-1])
    return f"{told} {singular if amount == 1 else kind}"


def _cautions(found: DuelEvidence, judged: Mapping[str, Sequence[Tried]]) -> Iterator[str]:
    duel = found.duel
    yield from _of_tuning(found)
    for name, own in judged.items():
        if failed := [each for each in own if each.failed]:
            cause = f" (run {failed[0].run.id}: {failed[0].run.cause})" if failed[0].run else ""
            yield (
                f"{name} failed with {len(failed)} of {len(own)} seeds{cause}. Its other seeds make it neither "
                "ahead of another strategy nor level with it."
            )
        if missing := [each for each in own if is_missing(each)]:
            yield (
                f"{len(missing)} of {len(own)} judged runs of {name} said nothing (lost, cancelled or deleted); "
                "their pairs are left out. Try them again."
            )
        stood = [each.at.spent for each in own if each.complete and each.at]
        if stood and fmean(stood) < FAR * duel.budget.amount:
            at, whole = (
                amount_in_words(duel.budget.kind, fmean(stood)),
                amount_in_words(duel.budget.kind, duel.budget.amount),
            )
            yield (
                f"{name} is judged by tests that stand at {at} of {whole}, the last within the budget: it is "
                "tested too rarely to be met later."
            )
        untested = [each for each in own if each.complete and each.at is None]
        if untested:
            yield (
                f"{len(untested)} of {len(own)} judged runs of {name} were not tested within the budget, so they "
                "have no value. Give a larger budget."
            )
        if duel.budget.kind == "seconds" and (
            short := [each for each in own if each.complete and each.spent < SHORT * duel.budget.amount]
        ):
            yield (
                f"{len(short)} of {len(own)} judged runs of {name} had done all their passes before the budget was "
                "spent, and stood still from then on."
            )


def _by_one_rule(judged: Mapping[str, Sequence[Tried]]) -> tuple[dict[str, list[Tried]], list[int]]:
    """Return the judged runs without those that draw random numbers by an older rule than the newest, and the ids of
    these: a pair shares its draws.
    """
    rules = {
        each.run.id: each.run.seeding
        for own in judged.values()
        for each in own
        if each.run and (each.failed or each.value is not None)
    }
    older = [run_id for run_id, rule in rules.items() if rule < max(rules.values())]
    return {
        name: [each for each in own if each.run is None or each.run.id not in older] for name, own in judged.items()
    }, older


def _of_rules(found: DuelEvidence, older: Sequence[int]) -> Iterator[str]:
    if older:
        yield (
            f"Judged runs {', '.join(map(str, older))} draw random numbers by an older rule (seeding) than the "
            "others: left out. Launch the duel again."
        )
    if mixed := mixture(each.run for each in found.of("tuning") if each.run and each.complete):
        yield f"Tuning: {mixed}"


def _of_tuning(found: DuelEvidence) -> Iterator[str]:
    chosen = [
        (one.name, choice) for one, choice in zip(found.duel.strategies, tuned(found).choices, strict=True) if choice
    ]
    for edge, beyond in (("least", "smaller"), ("largest", "larger")):
        if names := [name for name, choice in chosen if choice.edge == edge]:
            rate = (min if edge == "least" else max)(found.duel.rates)
            cure = f"a better one may lie beyond. Launch another duel with {beyond} ones."
            yield f"{joined(names)} won with the {edge} learning rate of the grid ({rate:g}): {cure}"
    for name, choice in chosen:
        if choice.level:
            yield (
                f"{name}: {', '.join(f'{rate:g}' for rate in choice.level)} did exactly as well as {choice.rate:g} "
                "while tuning; the least was taken."
            )
    for place, one in enumerate(found.duel.strategies):
        own = found.of("tuning", place)
        if failed := _rates(each for each in own if each.failed):
            yield f"{one.name} failed at learning rate {failed} while tuning, which is out of the running."
        if untested := _rates(each for each in own if each.complete and each.at is None):
            yield (
                f"{one.name} was not tested within the budget at learning rate {untested} while tuning, which is "
                "out of the running. Give a larger budget."
            )


def _rates(some: Iterable[Tried]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted({each.rate for each in some}))
