"""What is on in the lab at this moment and how much waits, as HTML for the Home page."""

from html import escape

from app.core.base_path import at
from app.core.formatting import duration, since
from app.ui.html import bar, run_link, sweep_link
from app.ui.run_state import time_left, waiting
from app.ui.widgets import title_of
from engine.store import Reader
from engine.store.records import ALIVE, RunRow

MOST = 6
ALL_ON = "/runs?show=on+or+queued"


def now_html(reader: Reader) -> str:
    """Return the runs that are on, the newest first, and what waits behind them."""
    runs, total = reader.runs.find(statuses=ALIVE, limit=MOST), reader.runs.count(statuses=ALIVE)
    said = "".join(map(_entry, runs)) or '<p class="pl-said">No run is on.</p>'
    more = [f"{total - len(runs):,} more {'is' if total - len(runs) == 1 else 'are'} on"] if total > len(runs) else []
    if queued := reader.queue.count():
        more.append(waiting(queued, reader.queue.count_held()))
    return said + (f'<p class="pl-said"><a href="{at(ALL_ON)}">{escape(", ".join(more))}</a></p>' if more else "")


def _entry(run: RunRow) -> str:
    words = [
        f"by {escape(run.owner)}",
        *([f"{run.progress:.0%} done"] if run.status == "running" else []),
        escape(time_left(run)),
    ]
    if run.started_at:
        words.append(f"on for {duration(since(run.started_at))}")
    if run.sweep_id:
        words.append(sweep_link(f"part of sweep {run.sweep_id}", run.sweep_id))
    row = "".join(f"<span>{each}</span>" for each in words)
    link = run_link(f"{run.id}: {title_of(run)}", run.id)
    return (
        f'<div class="pl-entry">{link}{bar(run.progress, f"Progress of run {run.id}")}<div '
        f'class="pl-row">{row}</div></div>'
    )
