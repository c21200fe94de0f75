"""The runs that ended since a person's last visit, as HTML for the Home page."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from markupsafe import Markup

from app.core.assets import at
from app.core.caches import VersionedCache
from app.core.formatting import absolute, duration
from app.core.formatting import since as seconds_since
from app.links.addresses import GROUP_OF
from app.links.launch import LAUNCH
from app.ui import current_user, dialogs
from app.ui.html import (
    as_cell,
    block,
    duel_link,
    entry,
    joined,
    link,
    moment,
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
from app.ui.run_state import BUDGET_REACHED, NO_RUN, cause_of, outcome, status_counts
from app.ui.store_access import COMMAND_TIMEOUT_S, command
from app.ui.widgets import title_of
from engine.analysis.result import NotLearned, not_learned, ranked
from engine.analysis.run_values import lower_title
from engine.config_values import value_title
from engine.errors import EngineError, counted
from engine.experiment import Experiment
from engine.filter.tree import quoted
from engine.home import Home
from engine.metrics import metric
from engine.published import FIGURES, SIZES, Figure
from engine.published.comparison import FigureComparison, Result, best_comparison
from engine.registry import experiment_title, experiments
from engine.store import Reader, RunRow, Status, Store, Sweep
from engine.store.access.last_visit import Ended
from engine.store.records import ENDED
from engine.store.runs.config_groups import LeaderboardEntry

MOST = 8


def news_html(reader: Reader, since: str, without: Collection[str] = ()) -> Markup:
    """Return the count of runs that ended after `since` by status, then the newest of them by sweep, duel or bunch;
    `without` those of attempts at some exercises.
    """
    counts, reached = reader.recent_ends.count_since(since, without_exercises=without)
    if not counts:
        return paragraph("No runs ended in the last " + _length(since) + ".")
    found = reader.recent_ends.since(since, limit=MOST, without_exercises=without)
    runs = {run.id: run for run in reader.runs.some([each.run_id for each in found if each.sweep_id is None])}
    shown = joined(
        (
            _fold_entry(each, reader)
            if each.sweep_id is not None
            else _bunch_entry(each, runs[each.run_id])
            if each.is_bunch
            else _run_entry(runs[each.run_id])
            for each in found
        ),
        "",
    )
    total = sum(counts.values())
    head = (
        f"{total:,} {'run' if total == 1 else 'runs'} ended in the last "
        + _length(since)
        + ": "
        + _counted(counts, reached, since)
        + "."
    )
    listed = sum(sum(each.statuses.values()) for each in found)
    if total > listed or total > len(found):
        shown += paragraph(link(f"View all {counted(total, 'run')}", _runs(since, sort="-ended")))
    return paragraph(head) + shown


def _run_entry(run: RunRow) -> Markup:
    found = ranked(run)
    words = [f"by {run.owner}", found.words if found else ""]
    if run.status == "finished":
        words.append(f"took {duration(run.execution_time_s)}" if run.execution_time_s is not None else "")
    else:
        words.append(cause_of(run))
    status, word = outcome(run)
    return _entry(as_cell(word, status), run_link(f"{run.id}: {title_of(run)}", run.id), [*words, when(run.ended_at)])


def _fold_entry(ended: Ended, reader: Reader) -> Markup:
    """Return the entry of a sweep or duel."""
    if ended.duel_id is not None:
        duel = reader.duels.one(ended.duel_id)
        owner, statuses, called = duel.owner, duel.statuses, duel_link(f"Duel {duel.id}: {duel.name}", duel.id)
    else:
        sweep = reader.sweeps.one(ended.sweep_id or 0)
        called = sweep_link(f"Sweep {sweep.id}: {sweep.name or experiment_title(sweep.experiment)}", sweep.id)
        owner, statuses = sweep.owner, sweep.statuses
    total, remaining = sum(statuses.values()), sum(n for status, n in statuses.items() if status not in ENDED)
    left = f"{remaining:,} remaining" if remaining else f"all {total:,} ended"
    return _entry(_cells(ended), called, [f"by {owner}", left, when(ended.ended_at)])


def _bunch_entry(ended: Ended, newest: RunRow) -> Markup:
    """Return the entry of runs that one person reported or imported of one experiment."""
    of = f"experiment == {quoted(newest.experiment)} and owner == {quoted(newest.owner)}"
    asked = {"filter": f'id >= {ended.first_id} and id <= {ended.run_id} and source != "here" and {of}'}
    runs, how = counted(sum(ended.statuses.values()), "run"), "reported" if newest.reported else "imported"
    named = "" if newest.experiment == how else f" of {experiment_title(newest.experiment)}"  # its program named none
    called = link(f"{runs}{named}", at(f"/runs?{urlencode(asked)}"))
    return _entry(_cells(ended), called, [f"by {newest.owner}", how, when(ended.ended_at)])


def _cells(ended: Ended) -> Markup:
    counts = status_counts(ended.statuses, ended.reached_budget)
    return joined((as_cell(words, status) for status, words in counts), " ")


def _entry(cells: Markup, called: Markup, words: list[str]) -> Markup:
    return entry(joined([cells, called], " "), filter(None, words))


def _counted(counts: Mapping[Status, int], reached: int, since: str) -> Markup:
    """Return the numbers of runs by status, each as a link to them; those that reached a budget are cancelled ones."""
    return joined(
        (
            words if words.endswith(BUDGET_REACHED) else link(words, _runs(since, show=GROUP_OF[status]))
            for status, words in status_counts(counts, reached)
        ),
        ", ",
    )


def _length(since: str) -> Markup:
    """Return how long ago a moment was, with the moment itself on hover."""
    length = duration(seconds_since(since))
    words = {"1 d": "day", "1 h": "hour"}.get(length, length)
    return moment(words, since, f"since {absolute(since)}")


def _runs(since: str, **asked: str) -> str:
    """Return the address of the table of runs with those that ended after `since`, rounded to a minute before it."""
    hours, minutes = divmod(int(seconds_since(since) or 0.0) // 60 + 1, 60)
    parts = ((hours // 24, "d"), (hours % 24, "h"), (minutes, "min"))
    ago = " ".join(f"{count} {unit}" for count, unit in parts if count)
    filtered = f'ended > "{ago} ago"'
    return at(f"/runs?{urlencode(asked | {'filter': filtered})}")


# ---- The last visit of the person at this browser: runs that ended later are new to them ---------------------------

_SINCE, _IS_FIRST = "home.since", "home.first"
WHY = (
    "This page will show what has ended since your last visit, and the runs that you launch will carry your name. "
    "You are asked only once."
)


def record(reader: Reader) -> None:
    """Record the visit to the Home page; what is new stays the same until the next visit."""
    who = current_user.name()
    st.session_state[_IS_FIRST] = who is None or reader.visits.is_first(who)
    if who is None:
        st.session_state[_SINCE] = reader.visits.new_since()
        return
    try:
        with Store.open(Home.find(), timeout_s=COMMAND_TIMEOUT_S / 4) as store:
            st.session_state[_SINCE] = store.visits.note(who)
    except EngineError:  # a busy store or a full disk must not block reading
        st.session_state[_SINCE] = reader.visits.new_since(who)


def since() -> str:
    """Return the moment after which ends are new to the person."""
    return str(st.session_state[_SINCE])


def is_first() -> bool:
    """Return whether this is the person's first visit, or the person is unknown."""
    return bool(st.session_state[_IS_FIRST])


def news_actions() -> None:
    """Show the button that marks all as read or, without a name, the one that asks for it."""
    if current_user.name() is not None:
        st.button("Mark as read", key="home.seen", type="tertiary", on_click=_mark_read)
    elif st.button("Since my last visit", key="home.name", type="tertiary"):
        dialogs.open_soon(current_user.ask_name, WHY, "Save")


def _mark_read() -> None:
    who = current_user.whoever()
    if (at := command(lambda store: store.visits.mark_seen(who))) is not None:
        st.session_state[_SINCE] = at


# ---- Parts of the Home page about experiments: best results, published figures, and links to launch each -----------

# ---- The best result of each experiment, task by task, as HTML for the Home page -----------------------------------


def best_html(reader: Reader, without: Collection[str] = ()) -> Markup:
    """Return a row for each experiment and task with a finished run; `without` those of attempts at some exercises."""
    bests = partial(reader.leaderboard.bests, without_exercises=without)
    found = [(one, best) for one in experiments() for best in bests(one.name, one.result)]
    bad = {run.id: not_learned(run) for run in reader.runs.some([best.run_id for _, best in found])}
    if not found:
        return paragraph(
            "No finished run of an experiment that ranks its runs yet. Imported and reported runs are not ranked here."
            if reader.runs.count(statuses=["finished"], without_exercises=without)
            else "No finished runs yet. The best run of each experiment appears here."
        )
    return table(
        ["Experiment", "Best", "Run"],
        [_row(one, best, bad.get(best.run_id)) for one, best in found],
        caption="Best result of each experiment",
    )


def _row(one: Experiment, best: LeaderboardEntry, bad: NotLearned | None) -> list[str]:
    known = metric(best.result.metric)
    what = ", ".join(filter(None, (known.label.lower(), best.result.statistic)))
    called = f"{best.run_id}, {best.preset}" if best.preset else str(best.run_id)
    seeds = f"{best.seeds} seeds" if best.seeds > 1 else "1 seed"
    if best.runs > best.seeds:
        seeds += f" ({best.runs} runs)"
    if best.seeds > 1:
        seeds += f", mean {number(best.mean, unit=known.unit)}"
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
            value_title(value) if isinstance(value, str) else f"{lower_title(name)} {value}"
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
            _record_entry(figure, [sweep for sweep in sweeps if sweep.figure.partition("/")[0] == figure.name], reader)
            for figure in FIGURES
        ),
        "",
    )


def _record_entry(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> Markup:
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
        + f" {'paused' if sweep.paused else 'running'}, {sweep.ended} of {counted(sweep.total, 'run')} ended"
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
