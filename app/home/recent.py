"""What has ended since a person last looked, as HTML for the Home page."""

from collections.abc import Mapping
from html import escape
from urllib.parse import urlencode

from app.core.base_path import at
from app.core.formatting import absolute, duration
from app.core.formatting import since as seconds_since
from app.ui.html import as_cell, run_link, sweep_link, when
from app.ui.widgets import title_of
from engine.analysis.result import ranked
from engine.errors import EngineError
from engine.registry import experiment
from engine.store import Reader, RunRow, Status, Sweep
from engine.store.access.recent_ends import Ended

MOST = 8


def news_html(reader: Reader, since: str) -> str:
    """Return how many runs ended later than `since` and how, then the newest of them, those of a sweep together."""
    counts = reader.recent_ends.count_since(since)
    if not counts:
        return f'<p class="pl-said">Nothing has ended in the last {_length(since)}.</p>'
    found = reader.recent_ends.since(since, limit=MOST)
    runs = {run.id: run for run in reader.runs.some([each.run_id for each in found if each.sweep_id is None])}
    sweeps = {each.sweep_id: reader.sweeps.one(each.sweep_id) for each in found if each.sweep_id is not None}
    said = "".join(
        _sweep_entry(each, sweeps[each.sweep_id]) if each.sweep_id is not None else _run_entry(runs[each.run_id])
        for each in found
    )
    total = sum(counts.values())
    head = (
        f"{total:,} {'run has' if total == 1 else 'runs have'} ended in the last {_length(since)}: {_counted(counts)}."
    )
    told = sum(sum(each.statuses.values()) for each in found)
    rest = (
        f'<p class="pl-said"><a href="{escape(_all_since(since))}">All {total:,} in the results</a></p>'
        if total > told or total > len(found)
        else ""
    )
    return f'<p class="pl-said">{head}</p>{said}{rest}'


def _run_entry(run: RunRow) -> str:
    found = ranked(run)
    words = [f"by {escape(run.owner)}", escape(found.words) if found else ""]
    if run.status == "finished":
        words.append(f"took {duration(run.execution_time_s)}" if run.execution_time_s is not None else "")
    else:
        words.append(escape(run.cause))
    return _entry(
        as_cell(run.status, run.status), run_link(f"{run.id}: {title_of(run)}", run.id), [*words, when(run.ended_at)]
    )


def _sweep_entry(ended: Ended, sweep: Sweep) -> str:
    cells = " ".join(as_cell(f"{count:,} {status}", status) for status, count in ended.statuses.items())
    left = f"{sweep.total - sweep.ended:,} to go" if sweep.active else f"all {sweep.total:,} ended"
    link = sweep_link(f"Sweep {sweep.id}: {sweep.name or _title(sweep.experiment)}", sweep.id)
    return _entry(cells, link, [f"by {escape(sweep.owner)}", left, when(ended.ended_at)])


def _entry(cells: str, link: str, words: list[str]) -> str:
    row = "".join(f"<span>{each}</span>" for each in words if each)
    return f'<div class="pl-entry">{cells} {link}<div class="pl-row">{row}</div></div>'


def _title(name: str) -> str:
    try:
        return experiment(name).title
    except EngineError:
        return name


def _counted(counts: Mapping[Status, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in counts.items())


def _length(since: str) -> str:
    """Return how long ago a moment was, with the moment itself on hover."""
    length = duration(seconds_since(since))
    words = {"1 d": "day", "1 h": "hour"}.get(length, length)
    return f'<time datetime="{escape(since)}" title="since {absolute(since)}">{words}</time>'


def _all_since(since: str) -> str:
    """Return the address of all of them in the results."""
    asked = {"filter": f'ended > "{since}"', "sort": "-ended"}
    return at(f"/results?{urlencode(asked)}")
