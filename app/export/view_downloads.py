"""Downloads of a view of several runs: a report, its tables, and its runs as rows and as a bundle."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlencode

import streamlit as st

from app.export.downloads import RUNS, download
from app.export.view_report import Again, Seen, rows_of, view_report
from app.report.page_capture import Noted
from app.ui import current_user, widgets
from engine.store.records import ENDED, RunRow
from engine.transfer.tables import Cells


def view_downloads(
    name: str,
    title: str,
    address: str,
    noted: Noted,
    runs: Sequence[RunRow],
    *,
    key: str,
    again: Again | None = None,
    about: Mapping[int, Cells] = MappingProxyType({}),
) -> None:
    """Show the download button; `address` is the view's path with its query, `name` the prefix of file names, `about`
    further cells of runs.
    """
    by = current_user.whoever()
    seen = Seen(title, widgets.page_address(address), noted, tuple(runs), again, about)
    ended = [run.id for run in runs if run.status in ENDED]
    download(
        name,
        key=key,
        report=lambda: view_report(seen, by),
        has_charts=noted.has_charts,
        tables={**noted.tables, **({RUNS: lambda: rows_of(runs, about)} if runs else {})},
        runs=ended,
    )


def here(path: str, **asked: str) -> str:
    """Return the address of the open page: its path with the browser's query, overridden by `asked`."""
    query: Mapping[str, str | list[str]] = {
        **{name: st.query_params.get_all(name) for name in st.query_params},
        **asked,
    }
    return f"{path}?{urlencode(query, doseq=True, safe=',/.-:')}" if query else path
