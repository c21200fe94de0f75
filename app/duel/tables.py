"""Tables of a duel: runs, learning-rate grid, results per strategy, paired differences, uncontrolled differences. HTML
and tables to save.
"""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean, stdev

from app.core.formatting import size
from app.ui.html import cell_link, joined, nowrap, number, run_link, strong, table
from app.ui.run_state import STATUS_SIGNS
from app.ui.time_difference import ends_in_words
from engine.analysis.duel import Difference
from engine.duel.evidence import Tried
from engine.duel.launch import StrategyFacts
from engine.duel.outcome import DuelOutcome, amount_in_words
from engine.duel.spec import Duel
from engine.metrics import metric
from engine.store.sweeps.duels import Stage
from engine.transfer.tables import Table

_WORDS = {
    "ahead": "{} is ahead",
    "behind": "{} is ahead",
    "level": "level",
    "open": "inconclusive",
    "too few seeds": "too few seeds",
    "failed runs": "undecided: failed runs",
}


def runs_table(found: DuelOutcome, stage: Stage) -> str:
    """Return the runs of a stage: one row per strategy (and learning rate, when tuning), one column per seed."""
    duel = found.evidence.duel
    seeds = duel.tuning if stage == "tuning" else duel.judging
    rows = []
    for place, one in enumerate(duel.strategies):
        own = found.evidence.of(stage, place)
        for rate in dict.fromkeys(each.rate for each in own):
            cells = {each.seed: each for each in own if each.rate == rate}
            rows.append(
                [
                    nowrap(one.name),
                    _rate(rate),
                    *(_cell(cells[seed], duel) for seed in seeds),
                ]
            )
    return table(
        ["Strategy", "Learning rate", *(f"seed {seed}" for seed in seeds)],
        rows,
        caption="Tuning runs" if stage == "tuning" else "Evaluation runs",
    )


def tuning_table(found: DuelOutcome) -> str:
    """Return each strategy's mean per learning rate, with the selected rate marked."""
    rates, unit = found.evidence.duel.rates, metric(found.evidence.duel.metric).unit
    rows = []
    for place, (one, choice) in enumerate(zip(found.evidence.duel.strategies, found.tuned.choices, strict=True)):
        own = found.evidence.of("tuning", place)
        rows.append(
            [
                one.name,
                *(
                    _mean_at(
                        [each for each in own if each.rate == rate], choice is not None and rate == choice.rate, unit
                    )
                    for rate in rates
                ),
            ]
        )
    return table(["Strategy", *(f"{rate:g}" for rate in rates)], rows, caption="Learning-rate grid")


def reached_table(found: DuelOutcome) -> str:
    """Return each strategy's result within the budget, and its time to target."""
    duel, known = found.evidence.duel, metric(found.evidence.duel.metric)
    to_target = {each.name: each for each in found.reached}
    target = f"{found.target:g}{f' {known.unit}' if known.unit else ''}" if found.target is not None else "the target"
    rows = []
    for place, one in enumerate(duel.strategies):
        values, own, way = (
            list(found.values[one.name].values()),
            found.evidence.of("judging", place),
            to_target.get(one.name),
        )
        stood = [each.at.spent for each in own if each.value is not None and each.at]
        rows.append(
            [
                nowrap(one.name),
                _rate(own[0].rate) if own else "–",
                f"{len(values)} of {len(own)}",
                f"{number(fmean(values), unit=known.unit)} ± {number(stdev(values), 2, known.unit)}"
                if len(values) > 1
                else number(values[0] if values else None, unit=known.unit),
                f"{number(min(values), unit=known.unit)} – {number(max(values), unit=known.unit)}" if values else "–",
                amount_in_words(duel.budget.kind, fmean(stood)) if stood else "–",
                f"{len(way.spent)} of {way.runs}" if way else "–",
                amount_in_words(duel.budget.kind, fmean(way.spent.values())) if way and way.spent else "–",
                number(fmean(way.time_s.values())) if way and way.time_s else "–",
            ]
        )
    headers = [
        "Strategy",
        "Learning rate",
        "Runs",
        f"{known.label}, mean ± sd",
        "Range",
        "Evaluated at",
        f"Reached {target}",
        "Budget to target",
        "Time to target (s)",
    ]
    return table(headers, rows, caption="Results per strategy")


def pairs_table(found: DuelOutcome) -> str:
    """Return the paired differences with confidence intervals and Holm-corrected p-values."""
    rows = [
        [
            joined([nowrap(each.first), nowrap(each.second)], " - "),
            str(len(each.by_seed)),
            f"{each.found.mean:+.3g}" if each.found else "–",
            ends_in_words(each.found),
            p_in_words(each.p),
            outcome_text(each),
        ]
        for each in found.found
    ]
    unit = found.unit.strip()
    mean = f"Mean ({unit})" if unit else "Mean"
    return table(["Difference", "Seeds", mean, "95 % CI", "p (Holm)", "Outcome"], rows, caption="Paired differences")


def p_in_words(p: float | None) -> str:
    """Return a p-value to two significant digits, or a dash."""
    return "–" if p is None else f"{p:.2g}" if p >= 0.001 else "< 0.001"


def outcome_text(each: Difference) -> str:
    """Return the outcome of a pair, with the name of the leading strategy."""
    return _WORDS[each.outcome].format(each.first if each.outcome == "ahead" else each.second)


def facts_table(facts: Sequence[StrategyFacts]) -> str:
    """Return the uncontrolled differences between strategies."""
    headers = [
        "Strategy",
        "Processes",
        "Trains on",
        "Momentum",
        "Samples per update",
        "Updates per pass",
        "Data per pass",
        "Run length",
        "Tested",
    ]
    rows = [
        [
            nowrap(each.name),
            str(each.processes),
            each.data,
            each.momentum,
            f"{each.samples:,}",
            number(each.updates),
            "none" if each.bytes is None else nowrap(size(round(each.bytes))),
            nowrap(each.length),
            f"every {'pass' if each.tested_every == 1 else f'{each.tested_every:.3g} passes'}, {each.tests}",
        ]
        for each in facts
    ]
    return table(headers, rows, caption="Uncontrolled differences")


def pairs_to_save(found: DuelOutcome) -> Table:
    """Return the paired differences, one per row."""
    columns = ["first", "second", "seeds", "mean", "low", "high", "interval", "p_holm", "outcome"]
    rows = [
        (
            *(
                each.first,
                each.second,
                len(each.by_seed),
                each.found.mean if each.found else None,
                each.found.low if each.found else None,
            ),
            *(each.found.high if each.found else None, each.found.method if each.found else None, each.p, each.outcome),
        )
        for each in found.found
    ]
    return Table.of(columns, rows)


def _rate(rate: float) -> str:
    return f"{rate:g}" if isfinite(rate) else "–"


def _mean_at(own: Sequence[Tried], won: bool, unit: str) -> str:
    values = [each.value for each in own if each.value is not None]
    if failed := [each for each in own if each.run and each.run.status == "failed" and not each.complete]:
        links = joined(run_link(f"run {each.run.id}", each.run.id) for each in failed if each.run)
        return "failed (" + links + ")"
    if not values:
        return "not tested" if any(each.complete for each in own) else "–"
    mean = number(fmean(values), unit=unit) + (f" ({len(values)} of {len(own)})" if len(values) < len(own) else "")
    return strong(f"{mean}, selected") if won else mean


def _cell(each: Tried, duel: Duel) -> str:
    if each.run is None:
        return "deleted"
    run = each.run
    status = "finished" if each.complete else run.status
    if each.complete:
        says = number(each.value, unit=metric(duel.metric).unit) if each.value is not None else "not tested"
    elif run.status in ("running", "stopping"):
        says = f"running {min(1.0, each.spent / duel.budget.amount):.0%}"
    else:
        says = run.status
    end = (
        f" Ended past {amount_in_words(duel.budget.kind, duel.budget.amount)}."
        if each.complete and run.status != "finished"
        else f" {run.cause}"
    )
    return cell_link(says, run.id, status, STATUS_SIGNS[status], f"Run {run.id}: {run.status}.{end}".strip())
