"""Parts of the Home page about experiments: best results, published figures, and links to launch each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from app.core.base_path import at
from app.core.caches import VersionedCache
from app.links.launch import LAUNCH
from app.ui.html import (
    as_cell,
    block,
    entry,
    joined,
    link,
    nowrap,
    number,
    paragraph,
    run_link,
    small,
    stacked,
    strong,
    sweep_link,
    table,
    titled,
    when,
)
from app.ui.run_state import NO_RUN
from engine.analysis.result import NotLearned, not_learned
from engine.analysis.run_values import lower_title
from engine.experiment.definition import Experiment
from engine.metrics import metric
from engine.published import FIGURES, SIZES, Figure
from engine.published.comparison import FigureComparison, Result, best_comparison
from engine.registry import experiments
from engine.store import Reader, Sweep
from engine.store.runs.config_groups import LeaderboardEntry

# ---- The best result of each experiment, task by task, as HTML for the Home page -----------------------------------


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


# ---- The results of each published figure, as HTML for the Home page -----------------------------------------------

SHADES: dict[Result, str] = {
    "inside": "finished",
    "outside": "failed",
    "set-up assumed": "running",
    "not comparable": "queued",
}
"""The status whose colour each result has on its own page."""
_compared: VersionedCache[FigureComparison | None] = VersionedCache()


def published_html(reader: Reader) -> Markup:
    """Return an entry for each published figure: its title, its results, and the sweep behind them."""
    sweeps = reader.sweeps.of_figures([figure.key(size) for figure in FIGURES for size in SIZES])
    return joined(
        (
            _entry(figure, [sweep for sweep in sweeps if sweep.figure.partition("/")[0] == figure.name], reader)
            for figure in FIGURES
        ),
        "",
    )


def _entry(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> Markup:
    ours = _comparison(figure, sweeps, reader)
    called = link(figure.title, f"{at('/figures')}?figure={figure.name}")
    if ours is None:
        return entry(called, ["no finished runs" if sweeps else NO_RUN, *_active(sweeps)])
    results: list[str] = [as_cell(f"{count} {result}", SHADES[result]) for result, count in ours.counts.items()]
    measured = sweep_link(f"sweep {ours.sweep.id}", ours.sweep.id) + f", {ours.size}"
    words = [*(results or [ours.summary]), measured, f"by {ours.sweep.owner}", when(ours.sweep.created_at)]
    return entry(called, [*words, *_active(sweeps)])


def _active(sweeps: Sequence[Sweep]) -> list[str]:
    """Return the progress of the newest active sweep, if any."""
    active = [sweep for sweep in sweeps if sweep.active][:1]
    return [
        sweep_link(f"sweep {sweep.id}", sweep.id)
        + f" {'paused' if sweep.paused else 'running'}, {sweep.ended} of {sweep.total} runs ended"
        for sweep in active
    ]


def _comparison(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> FigureComparison | None:
    """Return the comparison of a figure with its newest sweeps, computed again only when one of their runs has ended or
    was deleted.
    """
    where: Path = reader.db.home.database
    stamp = tuple((sweep.id, sweep.statuses.get("finished", 0), sweep.ended, sweep.total) for sweep in sweeps)
    return _compared.get((where, figure.name), stamp, lambda: best_comparison(reader, figure)) if sweeps else None


# ---- All experiments with a link to the launch form of each, as HTML for the Home page of an empty lab -------------


def experiments_html() -> Markup:
    """Return an entry for each experiment: its title as a link, and what it does."""
    return block(
        "pl-cards",
        joined(
            (entry(link(one.title, f"{at(LAUNCH)}?experiment={one.name}"), [one.tagline]) for one in experiments()),
            "",
        ),
    )
