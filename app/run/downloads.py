"""What the page of a run offers as files: a report, its curves and settings as tables, and itself as a bundle once it
has ended.
"""

from app.export.downloads import download
from app.run.report import run_report, settings_of
from app.ui import current_user
from engine.home import Home
from engine.store import Reader
from engine.store.records import Run
from engine.transfer.point_rows import points_table
from engine.transfer.tables import Table


def run_downloads(run: Run) -> None:
    """Show the button that opens the choices."""
    by = current_user.whoever()

    def curves() -> Table:
        with Reader.open(Home.find()) as reader:
            return points_table(reader, [run.id])

    download(
        f"run-{run.id}",
        key=f"run-{run.id}",
        report=lambda: run_report(run.id, by),
        tables={"Curves": curves, "Settings": settings_of(run)},
        runs=[] if run.active else [run.id],
    )
