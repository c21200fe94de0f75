"""Downloads of a view of several runs: a report, its tables, and its runs as a bundle."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import streamlit as st

from app.export.downloads import download
from app.export.view_report import Again, Seen, runs_table, view_report
from app.report.page_capture import Noted
from app.ui import current_user, widgets
from engine.store.records import ENDED, RunRow


def view_downloads(
    name: str, title: str, address: str, noted: Noted, runs: Sequence[RunRow], *, key: str, again: Again | None = None
) -> None:
    """Show the download button; `address` is the view's path with its query, `name` the prefix of file names."""
    by = current_user.whoever()
    seen = Seen(title, widgets.page_address(address), noted, tuple(runs), again)
    ended = [run.id for run in runs if run.status in ENDED]
    download(
        name,
        key=key,
        report=lambda: view_report(seen, by),
        tables={**noted.tables, "The runs": lambda: runs_table(runs)},
        runs=ended,
    )


def here(path: str, **asked: str) -> str:
    """Return the address of the open page: its path with the browser's query, overridden by `asked`."""
    query: Mapping[str, str | list[str]] = {
        **{name: st.query_params.get_all(name) for name in st.query_params},
        **asked,
    }
    return f"{path}?{urlencode(query, doseq=True, safe=',/.-:')}" if query else path
