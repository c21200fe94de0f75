"""The outcome of a duel: values by strategy and seed, paired differences, verdict, time to target and cautions.
Torch-free.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from engine.analysis.comparability import left_out, mixture
from engine.analysis.duel import (
    Better,
    Difference,
    Spent,
    StrategyTarget,
    differences,
    reached,
    unflattered,
    usual_target,
    verdict,
)
from engine.analysis.result import is_at_chance
from engine.duel.evidence import DuelEvidence, Tried, Tuned, is_missing, tuned
from engine.duel.spec import Duel
from engine.errors import enumeration
from engine.metrics import metric, unit_of_difference

FAR = 0.9
"""Tests before this share of the budget give a caution."""
SHORT = 0.98
"""A run that ended before this share of a budget of seconds had completed all its passes."""


@dataclass(frozen=True)
class DuelOutcome:
    """The results of a duel so far."""

    evidence: DuelEvidence
    tuned: Tuned
    values: Mapping[str, Mapping[int, float]]
    """Value within the budget, by strategy and seed."""
    found: tuple[Difference, ...]
    verdict: str
    """The verdict; empty until an evaluation run has ended."""
    target: float | None
    reached: tuple[StrategyTarget, ...]
    cautions: tuple[str, ...]

    @property
    def better(self) -> Better:
        return metric(self.evidence.duel.metric).better or "max"

    @property
    def unit(self) -> str:
        """The unit suffix for differences of the metric."""
        return unit_of_difference(self.evidence.duel.metric)


def outcome(found: DuelEvidence) -> DuelOutcome:
    """Compute the outcome from the runs."""
    duel, better = found.duel, metric(found.duel.metric).better or "max"
    judged = {one.name: found.of("judging", place) for place, one in enumerate(duel.strategies)}
    judged, older = _by_one_rule(judged)
    judged, disturbed = _undisturbed(duel, judged)
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
    target = usual_target(tests, duel.budget.amount, better) if duel.target is None else duel.target
    if duel.target is None and target is not None and is_at_chance(duel.shared, duel.metric, target):
        target = None  # a strategy learned nothing, and reaching that says nothing of the others
    with_failed = {
        name: tests[name] | {each.seed: each.tests for each in own if each.failed} for name, own in judged.items()
    }
    return DuelOutcome(
        found,
        tuned(found),
        values,
        tuple(pairs),
        verdict(list(values), pairs, duel.margin, unit_of_difference(duel.metric)) if known else "",
        target,
        tuple(reached(with_failed, target, duel.budget.amount, better)) if target is not None and known else (),
        (
            *filter(None, (found.unequal_work,)),
            *_of_rules(found, older),
            *([disturbed] if disturbed else []),
            *_cautions(found, judged),
        ),
    )


def amount_in_words(kind: str, amount: float) -> str:
    """Format a budget, such as `12 passes` or `3.5 MB`."""
    if kind == "bytes":
        return f"{amount / 1e6:,.4g} MB"
    number = f"{amount:,.0f}" if amount >= 1_000 or amount == round(amount) else f"{amount:.3g}"
    singular = {"passes": "pass"}.get(kind, kind[:-1])
    return f"{number} {singular if amount == 1 else kind}"


def _cautions(found: DuelEvidence, judged: Mapping[str, Sequence[Tried]]) -> Iterator[str]:
    duel = found.duel
    yield from _of_tuning(found)
    for name, own in judged.items():
        if failed := [each for each in own if each.failed]:
            cause = f" (run {failed[0].run.id}: {failed[0].run.cause})" if failed[0].run else ""
            yield (
                f"{name} failed with {len(failed)} of {len(own)} seeds{cause}. It can't be rated ahead of or level "
                "with another strategy."
            )
        if missing := [each for each in own if is_missing(each)]:
            yield (
                f"{len(missing)} of {len(own)} evaluation runs of {name} have no result (lost, cancelled or deleted); "
                "their pairs are excluded. Retry them."
            )
        stood = [each.at.spent for each in own if each.complete and each.at]
        if stood and fmean(stood) < FAR * duel.budget.amount:
            at, whole = (
                amount_in_words(duel.budget.kind, fmean(stood)),
                amount_in_words(duel.budget.kind, duel.budget.amount),
            )
            yield (
                f"{name} is evaluated at {at} of {whole}, its last test within the budget, because it is tested rarely."
            )
        untested = [each for each in own if each.complete and each.at is None]
        if untested:
            yield (
                f"{len(untested)} of {len(own)} evaluation runs of {name} have no test within the budget and no "
                "value. Increase the budget."
            )
        if duel.budget.kind == "seconds" and (
            short := [each for each in own if each.complete and each.spent < SHORT * duel.budget.amount]
        ):
            yield (
                f"{len(short)} of {len(own)} evaluation runs of {name} completed all their passes before the budget "
                "was spent and were idle afterwards."
            )


def _undisturbed(duel: Duel, judged: Mapping[str, Sequence[Tried]]) -> tuple[dict[str, list[Tried]], str]:
    """Return the evaluation runs without those that were disturbed, if seconds are the budget, and which these are as a
    sentence: they had less of the machine.
    """
    runs = [each.run for own in judged.values() for each in own if each.run and each.complete]
    if duel.budget.kind != "seconds" or not any(run.disturbed for run in runs):
        return {name: list(own) for name, own in judged.items()}, ""
    kept = {name: [each for each in own if not (each.run and each.run.disturbed)] for name, own in judged.items()}
    return kept, left_out(runs)


def _by_one_rule(judged: Mapping[str, Sequence[Tried]]) -> tuple[dict[str, list[Tried]], list[int]]:
    """Return the evaluation runs that use the newest seeding rule, and the ids of the others: a pair must share its
    random numbers.
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
            f"Evaluation runs {', '.join(map(str, older))} use an older seeding rule than the others and are "
            "excluded. Launch the duel again."
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
            end = "smallest" if edge == "least" else edge
            cure = f"the optimum may lie outside. Launch another duel with {beyond} rates."
            yield f"Best learning rate of {enumeration(names)} is the {end} of the grid ({rate:g}): {cure}"
    for name, choice in chosen:
        if choice.level:
            yield (
                f"{name}: learning rates {', '.join(f'{rate:g}' for rate in choice.level)} tied with {choice.rate:g} "
                "in tuning; the smallest was selected."
            )
    for place, one in enumerate(found.duel.strategies):
        own = found.of("tuning", place)
        if failed := _rates(each for each in own if each.failed):
            yield f"{one.name} failed at learning rate {failed} in tuning; it is excluded."
        if untested := _rates(each for each in own if each.complete and each.at is None):
            yield (
                f"{one.name} has no test within the budget at learning rate {untested} in tuning; it is excluded. "
                "Increase the budget."
            )


def _rates(some: Iterable[Tried]) -> str:
    return ", ".join(f"{rate:g}" for rate in sorted({each.rate for each in some}))
