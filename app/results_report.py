"""The results table as a report: what was asked for, the table as it is shown, and of its runs settings, environments
and commands.
"""

from collections.abc import Callable, Sequence

import pandas as pd

from app import noting, parts, person
from app.results_view import View
from app.view_downloads import here
from app.view_report import Seen, view_report
from engine.home import Home
from engine.store import Reader


def report_of(view: View, frame: pd.DataFrame, run_ids: Sequence[int]) -> Callable[[], bytes]:
    """Return what makes the report of the rows shown, of the runs with these ids; it reads them only when
    it is called.
    """
    title = "Results, one row for all seeds" if view.grouped else "Results"
    address, by, ids = parts.page_address(here("/results")), person.whoever(), list(run_ids)
    with noting.keeping() as shown:
        noting.facts("Asked for", asked(view))
        noting.table("The table", frame)

    def made() -> bytes:
        with Reader.open(Home.find()) as reader:
            runs = tuple(reader.some(ids))
        return view_report(Seen(title, address, shown, runs), by)

    return made


def asked(view: View) -> list[tuple[str, str]]:
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
