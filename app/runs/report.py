"""The results table as a report: what was asked for, the table as it is shown, and of its runs settings, environments
and commands.
"""

from collections.abc import Callable, Sequence

import pandas as pd

from app.export.view_downloads import here
from app.export.view_report import Seen, view_report
from app.report import page_capture
from app.runs.query import RunsView
from app.ui import current_user, widgets
from engine.home import Home
from engine.store import Reader


def report_of(view: RunsView, frame: pd.DataFrame, run_ids: Sequence[int]) -> Callable[[], bytes]:
    """Return what makes the report of the rows shown, of the runs with these ids; it reads them only when
    it is called.
    """
    title = "Results, one row for all seeds" if view.grouped else "Results"
    address, by, ids = widgets.page_address(here("/results")), current_user.whoever(), list(run_ids)
    with page_capture.keeping() as shown:
        page_capture.facts("Asked for", asked(view))
        page_capture.table("The table", frame)

    def made() -> bytes:
        with Reader.open(Home.find()) as reader:
            runs = tuple(reader.runs.some(ids))
        return view_report(Seen(title, address, shown, runs), by)

    return made


def asked(view: RunsView) -> list[tuple[str, str]]:
    """Return in words which runs a view asks for, and in what order."""
    return [
        ("Filter", view.matching.text if view.matching else ""),
        ("Search", view.search),
        ("Experiments", ", ".join(view.experiments)),
        ("Owners", ", ".join(view.owners)),
        ("Status", ", ".join(view.statuses or ())),
        ("Archived runs", "shown too" if view.archived is None else ""),
        (
            "Sorted by",
            f"{view.order.field.written}, {'greatest' if view.order.descending else 'least'} first"
            if view.order
            else "newest first",
        ),
    ]
