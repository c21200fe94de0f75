"""Downloads: tables as shown, runs as a bundle for another lab, and reports. Files are built on request."""

import io
import re
from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import streamlit as st

from app.report.frames import of_frame
from app.ui import components, current_user
from app.ui.html import as_text
from engine.home import Home
from engine.store import Reader
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.tables import FORMATS, Table

Make = Callable[[], Table]
RUNS = "The runs"
_HELP = {RUNS: "One row per run: all settings, results, work, times and disturbance."}


def download(
    name: str,
    *,
    key: str,
    tables: Mapping[str, Table | pd.DataFrame | Make] | None = None,
    runs: Sequence[int] = (),
    report: Callable[[], bytes] | None = None,
    has_charts: bool = False,
) -> None:
    """Show the download popover: the view as a report, its charts as pictures and data, each table as CSV, JSON and
    Parquet, the runs as a bundle.

    `name` is the prefix of file names; the keys of `tables` label the rows of buttons.
    """
    with st.popover("Download", help="Download the content of this page.", key=f"download-{key}"):
        if report:
            st.caption("Whole view as an offline page, with all metrics")
            _button("Report (HTML)", report, f"{name}.html", "text/html", f"{key}-report")
        if has_charts:
            st.caption("A chart as a picture, or its data")
            components.pictures(f"pictures-{key}")
        for label, table in (tables or {}).items():
            st.caption(as_text(label), help=_HELP.get(label))
            _table_buttons(table, name if len(tables or {}) == 1 else f"{name}-{_slug(label)}", f"{key}-{label}")
        if runs:
            st.caption("Runs for another lab: use `python -m engine import` or Import on its Runs page")
            count = "Bundle" if len(runs) == 1 else f"Bundle of {len(runs):,} runs"
            _button(count, _bundle(list(runs)), f"{name}.zip", "application/zip", f"{key}-bundle")


def _table_buttons(table: Table | pd.DataFrame | Make, name: str, key: str) -> None:
    with st.container(horizontal=True, gap="small"):
        for kind, known in FORMATS.items():
            _button(known.label, _written(table, kind), f"{name}{known.suffix}", known.mime, f"{key}-{kind}")


def _slug(label: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", label.lower())[:8])


def _button(label: str, make: Callable[[], bytes], file: str, mime: str, key: str) -> None:
    st.download_button(label, make, file_name=file, mime=mime, key=f"save-{key}", on_click="ignore")


def _written(table: Table | pd.DataFrame | Make, kind: str) -> Callable[[], bytes]:
    def write() -> bytes:
        found = table if isinstance(table, Table | pd.DataFrame) else table()
        return FORMATS[kind].write(found if isinstance(found, Table) else of_frame(found))

    return write


def _bundle(run_ids: Sequence[int]) -> Callable[[], bytes]:
    by = current_user.whoever()

    def write() -> bytes:
        file = io.BytesIO()
        with Reader.open(Home.find()) as reader:
            write_bundle(reader, run_ids, file, by=by)
        return file.getvalue()

    return write
