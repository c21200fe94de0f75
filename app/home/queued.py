"""The head of the queue, as HTML for the Home page."""

from collections.abc import Iterator

from markupsafe import Markup

from app.core.base_path import at
from app.ui.html import entry, joined, link, paragraph, run_link
from app.ui.run_state import waiting
from app.ui.widgets import title_of
from engine.home import Home
from engine.queue.forecast import Wait, outlook, start_in_words
from engine.store import Reader

MOST_QUEUED = 4
QUEUE = "/runs?show=active"


def queue_html(reader: Reader, home: Home) -> Markup:
    """Return the number of queued runs, and the first of them with the reason and the estimated start of each."""
    total = reader.queue.count()
    if not total:
        return paragraph("No queued runs.")
    head = paragraph(link(waiting(total, reader.queue.count_held()), at(QUEUE)))
    return head + joined(map(_queued_entry, outlook(reader, home, most=MOST_QUEUED).values()), "")


def _queued_entry(wait: Wait) -> Markup:
    run = wait.run
    return entry(run_link(f"{run.id}: {title_of(run)}", run.id), _words(wait))


def _words(wait: Wait) -> Iterator[str]:
    yield f"by {wait.run.owner}"
    yield wait.reason
    if starts := start_in_words(wait.starts_in_s):
        yield f"starts {starts}"
