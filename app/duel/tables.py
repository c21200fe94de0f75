"""Tables of a duel: its runs, the grid of learning rates, what each strategy reached, paired differences, what is
unlike. HTML and tables to save.
"""

from collections.abc import Sequence
from html import escape
from math import isfinite
from statistics import fmean, stdev

from app.core.base_path import at
from app.ui.html import number, run_link, table
from app.ui.interval_text import ends_in_words
from app.ui.run_state import STATUS_SIGNS
from engine.analysis.duel import Difference
from engine.duel.confounders import StrategyFacts
from engine.duel.evidence import Tried
from engine.duel.outcome import DuelOutcome, amount_in_words
from engine.duel.spec import Duel
from engine.metrics import metric
from engine.store.sweeps.duels import Stage
from engine.transfer.tables import Table

_WORDS = {
    "ahead": "{} is ahead",
    "behind": "{} is ahead",
    "level": "level",
    "open": "open",
    "too few seeds": "too few seeds",
    "failed runs": "not decided: failed runs",
}


def runs_table(found: DuelOutcome, stage: Stage) -> str:
    """Return the runs of a stage: a row a strategy (and learning rate, while tuning), a column a seed."""
    duel = found.evidence.duel
    seeds = duel.tuning if stage == "tuning" else duel.judging
    rows = []
    for place, one in enumerate(duel.strategies):
        own = found.evidence.of(stage, place)
        for rate in dict.fromkeys(each.rate for each in own):
            cells = {each.seed: each for each in own if each.rate == rate}
            rows.append(
                [
                    f'<span class="pl-nowrap">{escape(one.name)}</span>',
                    _rate(rate),
                    *(_cell(cells[seed], duel) for seed in seeds),
                ]
            )
    return table(
        ["Strategy", "Learning rate", *(f"seed {seed}" for seed in seeds)],
        rows,
        caption=f"Runs that are {'tuned by' if stage == 'tuning' else 'judged'}",
    )


def tuning_table(found: DuelOutcome) -> str:
    """Return the mean that each strategy reached at each learning rate; the rate that it goes on with is marked."""
    rates = found.evidence.duel.rates
    rows = []
    for place, (one, choice) in enumerate(zip(found.evidence.duel.strategies, found.tuned.choices, strict=True)):
        own = found.evidence.of("tuning", place)
        rows.append(
            [
                escape(one.name),
                *(
                    _mean_at([each for each in own if each.rate == rate], choice is not None and rate == choice.rate)
                    for rate in rates
                ),
            ]
        )
    return table(["Strategy", *(f"{rate:g}" for rate in rates)], rows, caption="The grid of learning rates")


def reached_table(found: DuelOutcome) -> str:
    """Return what each strategy reached within the budget, and when it came to the target."""
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
                f'<span class="pl-nowrap">{escape(one.name)}</span>',
                _rate(own[0].rate) if own else "–",
                f"{len(values)} of {len(own)}",
                f"{number(fmean(values))} ± {number(stdev(values), 2)}"
                if len(values) > 1
                else number(values[0] if values else None),
                f"{number(min(values))} to {number(max(values))}" if values else "–",
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
        "Least to most",
        "Judged at",
        f"Reached {target}",
        "After",
        "Seconds to it",
    ]
    return table(headers, rows, caption="What each strategy reached")


def pairs_table(found: DuelOutcome) -> str:
    """Return the paired differences with their intervals, and their p-values after Holm's correction."""
    rows = [
        [
            (
                f'<span class="pl-nowrap">{escape(each.first)}</span> - <span '
                f'class="pl-nowrap">{escape(each.second)}</span>'
            ),
            str(len(each.by_seed)),
            f"{each.found.mean:+.3g}" if each.found else "–",
            ends_in_words(each.found),
            p_in_words(each.p),
            escape(told(each)),
        ]
        for each in found.found
    ]
    unit = found.unit.strip()
    mean = f"Mean ({unit})" if unit else "Mean"
    return table(
        ["Difference", "Seeds", mean, "95 % interval", "p (Holm)", "DuelOutcome"], rows, caption="Paired differences"
    )


def p_in_words(p: float | None) -> str:
    """Return a p-value to two figures; a dash where there is none."""
    return "–" if p is None else f"{p:.2g}" if p >= 0.001 else "< 0.001"


def told(each: Difference) -> str:
    """Return how a pair stands, with the name of who is ahead."""
    return _WORDS[each.outcome].format(each.first if each.outcome == "ahead" else each.second)


def facts_table(facts: Sequence[StrategyFacts]) -> str:
    """Return what the methods do differently."""
    headers = [
        "Strategy",
        "Processes",
        "Trains on",
        "Momentum",
        "Samples an update",
        "Updates a pass",
        "Bytes a pass",
        "Length of a run",
        "Tested",
    ]
    rows = [
        [
            f'<span class="pl-nowrap">{escape(each.name)}</span>',
            str(each.processes),
            escape(each.data),
            escape(each.momentum),
            f"{each.samples:,}",
            number(each.updates),
            "none" if each.bytes is None else f'<span class="pl-nowrap">{number(each.bytes / 1e6, 3)} MB</span>',
            f'<span class="pl-nowrap">{escape(each.length)}</span>',
            escape(f"every {'pass' if each.tested_every == 1 else f'{each.tested_every:.3g} passes'}, {each.tests}"),
        ]
        for each in facts
    ]
    return table(headers, rows, caption="What is unlike")


def values_to_save(found: DuelOutcome) -> Table:
    """Return every planned run with what it reached, one a row."""
    names = [one.name for one in found.evidence.duel.strategies]
    columns = ["stage", "strategy", "learning_rate", "seed", "run", "status", "value", "judged_at", "seconds"]
    rows = [
        (
            *(
                each.stage,
                names[each.strategy],
                each.rate,
                each.seed,
                each.run.id if each.run else None,
                each.run.status if each.run else "deleted",
            ),
            *(each.value, each.at.spent if each.at else None, each.at.time_s if each.at else None),
        )
        for each in found.evidence.cells
    ]
    return Table.of(columns, rows)


def pairs_to_save(found: DuelOutcome) -> Table:
    """Return the paired differences, one a row."""
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


def _mean_at(own: Sequence[Tried], won: bool) -> str:
    values = [each.value for each in own if each.value is not None]
    if failed := [each for each in own if each.run and each.run.status == "failed" and not each.complete]:
        return f"failed ({', '.join(run_link(f'run {each.run.id}', each.run.id) for each in failed if each.run)})"
    if not values:
        return "not tested" if any(each.complete for each in own) else "–"
    told_mean = number(fmean(values)) + (f" ({len(values)} of {len(own)})" if len(values) < len(own) else "")
    return f"<strong>{told_mean}, taken</strong>" if won else told_mean


def _cell(each: Tried, duel: Duel) -> str:
    if each.run is None:
        return "deleted"
    run = each.run
    status = "finished" if each.complete else run.status
    if each.complete:
        says = number(each.value) if each.value is not None else "not tested"
    elif run.status in ("running", "stopping"):
        says = f"running {min(1.0, each.spent / duel.budget.amount):.0%}"
    else:
        says = run.status
    end = (
        f" Ended past {amount_in_words(duel.budget.kind, duel.budget.amount)}."
        if each.complete and run.status != "finished"
        else f" {run.cause}"
    )
    title = escape(f"Run {run.id}: {run.status}.{end}".strip())
    return (
        f'<a class="pl-cell pl-{status}" href="{at("/run")}?run={run.id}" title="{title}"><span '
        f'aria-hidden="true">{STATUS_SIGNS[status]}</span> {escape(says)}</a>'
    )
