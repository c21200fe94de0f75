"""The outcome of a duel, as `duel show` prints it."""

from dataclasses import asdict
from typing import Any

from engine.analysis.duel import Difference
from engine.analysis.statistics.confidence import LIMIT
from engine.cli.answers import number, table
from engine.duel.outcome import DuelOutcome, amount_in_words


def described(found: DuelOutcome) -> dict[str, Any]:
    """Return the outcome of a duel as plain values."""
    return {
        "id": found.evidence.stored.id,
        "stage": found.evidence.stored.stage,
        "duel": asdict(found.evidence.duel),
        "learning_rates": {
            one.name: choice.rate if choice else None
            for one, choice in zip(found.evidence.duel.strategies, found.tuned.choices, strict=True)
        },
        "values": found.values,
        "differences": found.found,
        "verdict": found.verdict,
        "target": found.target,
        "reached": found.reached,
        "obstacles": found.tuned.obstacles,
        "cautions": found.cautions,
    }


def in_full(found: DuelOutcome) -> str:
    """Return the outcome of a duel as lines and tables."""
    stored, duel = found.evidence.stored, found.evidence.duel
    ended = {stage: sum(each.done for each in found.evidence.of(stage)) for stage in ("tuning", "judging")}
    lines = [
        f"Duel {stored.id}{f': {stored.name}' if stored.name else ''}, by {stored.owner}",
        f"Budget: {amount_in_words(duel.budget.kind, duel.budget.amount)}, judged by {duel.metric}.",
        (
            f"Tuning: {ended['tuning']} of {len(found.evidence.of('tuning'))} runs ended. Judging: "
            f"{ended['judging']} of {len(duel.strategies) * duel.seeds}."
        ),
        *found.tuned.obstacles,
        found.verdict or "No verdict yet: no judged run has ended.",
        "",
        table(
            ("STRATEGY", "RATE", "RUNS", "MEAN", "MIN", "MAX", "REACHED TARGET", "MEAN TIME (S)"), _strategies(found)
        ),
    ]
    if found.found:
        lines += [
            "",
            table(
                ("DIFFERENCE", "SEEDS", "MEAN", "FROM", "TO", "P (HOLM)", "OUTCOME"),
                list(map(_difference, found.found)),
            ),
            f"FROM and TO: 95 % confidence interval of the mean over paired seeds. {LIMIT}",
        ]
    return "\n".join([*lines, *([""] if found.cautions else []), *found.cautions])


def _strategies(found: DuelOutcome) -> list[tuple[object, ...]]:
    to_target = {each.name: each for each in found.reached}
    rows: list[tuple[object, ...]] = []
    for one, choice in zip(found.evidence.duel.strategies, found.tuned.choices, strict=True):
        values, way = list(found.values[one.name].values()), to_target.get(one.name)
        mean = sum(values) / len(values) if values else None
        times = list(way.time_s.values()) if way else []
        came = f"{len(times)} of {way.runs}" if way else ""
        rows.append(
            (
                one.name,
                choice.rate if choice else None,
                len(values),
                mean,
                min(values, default=None),
                max(values, default=None),
                came,
                sum(times) / len(times) if times else None,
            )
        )
    return rows


def _difference(each: Difference) -> tuple[object, ...]:
    mean, low, high = (each.found.mean, each.found.low, each.found.high) if each.found else (None, None, None)
    return (
        f"{each.first} - {each.second}",
        len(each.by_seed),
        number(mean),
        number(low),
        number(high),
        number(each.p),
        each.outcome,
    )
