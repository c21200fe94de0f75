"""The best result of each experiment, task by task, as HTML for the Home page."""

from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from app.core.base_path import at
from app.ui.html import joined, link, nowrap, number, paragraph, run_link, small, stacked, strong, table, titled
from engine.analysis.result import NotLearned, not_learned
from engine.analysis.run_values import lower_title
from engine.experiment.definition import Experiment
from engine.metrics import metric
from engine.registry import experiments
from engine.store import Reader
from engine.store.runs.config_groups import LeaderboardEntry


def best_html(reader: Reader) -> Markup:
    """Return a row for each experiment and task with a finished run."""
    found = [(one, best) for one in experiments() for best in reader.leaderboard.bests(one.name, one.result)]
    bad = {run.id: not_learned(run) for run in reader.runs.some([best.run_id for _, best in found])}
    if not found:
        return paragraph("No finished runs yet. The best run of each experiment appears here.")
    return table(
        ["Experiment", "Best", "Run"],
        [_row(one, best, bad.get(best.run_id)) for one, best in found],
        caption="Best result of each experiment",
    )


def _row(one: Experiment, best: LeaderboardEntry, bad: NotLearned | None) -> list[str]:
    known = metric(best.result.metric)
    what = ", ".join(filter(None, (known.label.lower(), best.result.statistic)))
    called = f"{best.run_id}, {best.preset}" if best.preset else str(best.run_id)
    seeds = f"{best.seeds} seeds, mean {number(best.mean, unit=known.unit)}" if best.seeds > 1 else "1 seed"
    return [
        stacked([link(one.title, _all_of(one), "All finished runs, best first"), small(on(one, best.task))]),
        stacked(
            [
                nowrap(joined([strong(number(best.value, unit=known.unit)), known.unit], " ")),
                small(nowrap(what)),
                *([small(titled(bad.short, bad.sentence))] if bad else []),
            ]
        ),
        stacked([nowrap(run_link(called, best.run_id)), small(f"by {best.owner}"), small(nowrap(seeds))]),
    ]


def on(one: Experiment, task: tuple[Any, ...]) -> str:
    """Return a task in words: texts as they are, numbers with their names."""
    if len(task) != len(one.result.task):
        return ", ".join(map(str, task))
    named = zip(one.result.task, task, strict=True)
    return (
        ", ".join(
            str(value) if isinstance(value, str) else f"{lower_title(name)} {value}"
            for name, value in named
            if value is not None
        )
        or "–"
    )


def _all_of(one: Experiment) -> str:
    """Return the address of an experiment's finished runs in the results, best first."""
    sign = "" if metric(one.result.metric).better == "min" else "-"
    return at(
        f"/runs?{urlencode({'of': one.name, 'show': 'finished', 'sort': f'{sign}{one.result.metric}.{one.result.of}'})}"
    )
