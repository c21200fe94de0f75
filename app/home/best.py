"""The best result of each experiment, task by task, as HTML for the Home page."""

from html import escape
from typing import Any
from urllib.parse import urlencode

from app.core.base_path import at
from app.ui.html import number, run_link, table, wide
from engine.experiment.definition import Experiment
from engine.metrics import metric
from engine.registry import experiments
from engine.store import Reader
from engine.store.runs.leaderboard import LeaderboardEntry


def best_html(reader: Reader) -> str:
    """Return a row for each experiment and task that a run has finished with a result on."""
    found = [(one, best) for one in experiments() for best in reader.leaderboard.bests(one.name, one.result)]
    if not found:
        return '<p class="pl-said">No run has finished with a result yet.</p>'
    return table(
        ["Experiment", "On", "Best", "Seeds of its config", "Run", "By"],
        [_row(*each) for each in found],
        caption="Best result of each experiment",
    )


def _row(one: Experiment, best: LeaderboardEntry) -> list[str]:
    known = metric(one.result.metric)
    what = f"{known.label.lower()}, {one.result.statistic}"
    called = f"{best.run_id}, {best.preset}" if best.preset else str(best.run_id)
    seeds = f"{best.seeds}, mean {number(best.mean)}" if best.seeds > 1 else "1"
    return [
        wide(
            f'<a href="{escape(_all_of(one))}" title="All of its finished runs, the best first">{escape(one.title)}</a>'
        ),
        f'<span class="pl-nowrap">{escape(on(one, best.task))}</span>',
        (
            f'<span class="pl-nowrap"><strong>{number(best.value)}</strong> {escape(known.unit)} '
            f"<small>{escape(what)}</small></span>"
        ),
        f'<span class="pl-nowrap">{seeds}</span>',
        f'<span class="pl-nowrap">{run_link(called, best.run_id)}</span>',
        f'<span class="pl-nowrap">{escape(best.owner)}</span>',
    ]


def on(one: Experiment, task: tuple[Any, ...]) -> str:
    """Return what was worked on in words: texts as they are, numbers with their names."""
    if len(task) != len(one.result.task):
        return ", ".join(map(str, task))
    named = zip(one.result.task, task, strict=True)
    return (
        ", ".join(
            str(value) if isinstance(value, str) else f"{name} {value}" for name, value in named if value is not None
        )
        or "–"
    )


def _all_of(one: Experiment) -> str:
    """Return the address of an experiment's finished runs in the results, the best first."""
    sign = "" if metric(one.result.metric).better == "min" else "-"
    return at(
        f"/results?{urlencode({'of': one.name, 'status': 'finished', 'sort': f'{sign}{one.result.metric}.{one.result.of}'})}"  # noqa: E501
    )
