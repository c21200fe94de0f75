"""The runs that ended since a person's last visit, as HTML for the Home page."""

from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st
from markupsafe import Markup

from app.core.base_path import at
from app.core.formatting import absolute, duration
from app.core.formatting import since as seconds_since
from app.links.addresses import GROUP_OF
from app.ui import current_user, dialogs
from app.ui.html import as_cell, duel_link, entry, joined, link, moment, paragraph, run_link, sweep_link, when
from app.ui.run_state import BUDGET_REACHED, cause_of, outcome, status_counts
from app.ui.store_access import COMMAND_TIMEOUT_S, command
from app.ui.widgets import title_of
from engine.analysis.result import ranked
from engine.errors import EngineError
from engine.home import Home
from engine.registry import experiment
from engine.store import Reader, RunRow, Status, Store
from engine.store.access.last_visit import Ended
from engine.store.records import ENDED

MOST = 8


def news_html(reader: Reader, since: str) -> Markup:
    """Return the count of runs that ended after `since` by status, then the newest of them by sweep or duel."""
    counts, reached = reader.recent_ends.count_since(since)
    if not counts:
        return paragraph("No runs ended in the last " + _length(since) + ".")
    found = reader.recent_ends.since(since, limit=MOST)
    runs = {run.id: run for run in reader.runs.some([each.run_id for each in found if each.sweep_id is None])}
    shown = joined(
        (_run_entry(runs[each.run_id]) if each.sweep_id is None else _fold_entry(each, reader) for each in found), ""
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
        shown += paragraph(link(f"View all {total:,} runs", _runs(since, sort="-ended")))
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
    counted = status_counts(ended.statuses, ended.reached_budget)
    cells = joined((as_cell(words, status) for status, words in counted), " ")
    if ended.duel_id is not None:
        duel = reader.duels.one(ended.duel_id)
        owner, statuses, called = duel.owner, duel.statuses, duel_link(f"Duel {duel.id}: {duel.name}", duel.id)
    else:
        sweep = reader.sweeps.one(ended.sweep_id or 0)
        called = sweep_link(f"Sweep {sweep.id}: {sweep.name or _title(sweep.experiment)}", sweep.id)
        owner, statuses = sweep.owner, sweep.statuses
    total, remaining = sum(statuses.values()), sum(n for status, n in statuses.items() if status not in ENDED)
    left = f"{remaining:,} remaining" if remaining else f"all {total:,} ended"
    return _entry(cells, called, [f"by {owner}", left, when(ended.ended_at)])


def _entry(cells: Markup, called: Markup, words: list[str]) -> Markup:
    return entry(joined([cells, called], " "), filter(None, words))


def _title(name: str) -> str:
    try:
        return experiment(name).title
    except EngineError:
        return name


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
