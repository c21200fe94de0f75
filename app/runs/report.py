"""The table of runs as a report: the query, the table as shown, and settings, environments and commands of its runs."""

from collections.abc import Callable, Sequence

from app.export.view_downloads import here
from app.export.view_report import Seen, view_report
from app.report import page_capture
from app.runs.query import RunsView
from app.ui import current_user, widgets
from engine.home import Home
from engine.store import Reader
from engine.transfer.tables import Table


def report_of(view: RunsView, whole: Callable[[], Table], run_ids: Sequence[int]) -> Callable[[], bytes]:
    """Return the function that makes the report of the rows shown, for these run ids; data is read only when it is
    called.
    """
    title = "Runs, grouped by seed" if view.grouped else "Runs"
    address, by, ids = widgets.page_address(here("/runs")), current_user.whoever(), list(run_ids)
    with page_capture.keeping() as shown:
        page_capture.facts("Query", query_facts(view))
        page_capture.table("The table as shown", whole)

    def made() -> bytes:
        with Reader.open(Home.find()) as reader:
            runs = tuple(reader.runs.some(ids))
        return view_report(Seen(title, address, shown, runs), by)

    return made


def query_facts(view: RunsView) -> list[tuple[str, str]]:
    """Return the query of a view in words: its conditions and order."""
    return [
        ("Filter", view.matching.text if view.matching else ""),
        ("Search", view.search),
        ("Experiments", ", ".join(view.experiments)),
        ("Owners", ", ".join(view.owners)),
        ("Status", ", ".join(view.statuses or ())),
        ("Archived runs", "included" if view.archived is None else ""),
        (
            "Sorted by",
            f"{view.order.field.written}, {'descending' if view.order.descending else 'ascending'}"
            if view.order
            else "newest first",
        ),
    ]
