"""Downloads: a table exactly as it is shown, runs as a bundle for another lab, a report. Nothing is made before a person asks for it."""

import io
from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from app import person
from engine.home import Home
from engine.store import Reader
from engine.transfer.bundle import write_bundle
from engine.transfer.tables import FORMATS, Table

Make = Callable[[], Table]


def download(
    name: str,
    *,
    key: str,
    tables: dict[str, Table | pd.DataFrame | Make] | None = None,
    runs: Sequence[int] = (),
    report: Callable[[], bytes] | None = None,
) -> None:
    """Show one button that opens the choices: each table as CSV, JSON and Parquet, the runs as a bundle, the view as a report.

    `name` begins the files' names; the keys of `tables` are what a person reads before each row of buttons.
    """
    with st.popover("Download", help="What is shown here, as files.", key=f"download-{key}"):
        if report:
            st.caption("All of it as one page that needs no network")
            _button("Report (HTML)", report, f"{name}.html", "text/html", f"{key}-report")
        for label, table in (tables or {}).items():
            st.caption(label)
            _table_buttons(table, name if len(tables or {}) == 1 else f"{name}-{label.lower().replace(' ', '-')}", f"{key}-{label}")
        if runs:
            st.caption("For another lab: its `python -m engine import`, or Import on its Results page")
            count = "Bundle" if len(runs) == 1 else f"Bundle of {len(runs):,} runs"
            _button(count, _bundle(list(runs)), f"{name}.zip", "application/zip", f"{key}-bundle")


def _table_buttons(table: Table | pd.DataFrame | Make, name: str, key: str) -> None:
    with st.container(horizontal=True, gap="small"):
        for kind, known in FORMATS.items():
            _button(known.label, _written(table, kind), f"{name}{known.suffix}", known.mime, f"{key}-{kind}")


def _button(label: str, make: Callable[[], bytes], file: str, mime: str, key: str) -> None:
    st.download_button(label, make, file_name=file, mime=mime, key=f"save-{key}", on_click="ignore")


def _written(table: Table | pd.DataFrame | Make, kind: str) -> Callable[[], bytes]:
    def write() -> bytes:
        found = table if isinstance(table, Table | pd.DataFrame) else table()
        return FORMATS[kind].write(found if isinstance(found, Table) else of_frame(found))

    return write


def _bundle(run_ids: Sequence[int]) -> Callable[[], bytes]:
    by = person.whoever()

    def write() -> bytes:
        file = io.BytesIO()
        with Reader.open(Home.find()) as reader:
            write_bundle(reader, run_ids, file, by=by)
        return file.getvalue()

    return write


def of_frame(frame: pd.DataFrame) -> Table:
    """Return a data frame as a table; what pandas holds for a missing value becomes an empty cell."""
    cells = [[_cell(value) for value in frame[column]] for column in frame.columns]
    return Table.of(map(str, frame.columns), list(zip(*cells, strict=True)))


def _cell(value: object) -> object:
    if isinstance(value, list | tuple | dict):
        return value
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return value.item() if hasattr(value, "item") else value
