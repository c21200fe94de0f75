"""A view of several runs as a report: its address, its content, and its runs' settings, environments and commands."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from app.core.assets import at
from app.export.rerun_commands import runs_again
from app.report import CommandLines, FactList, Grid, Heading, Part, ReportLink, report
from app.report.document import of_frame
from app.report.page_capture import Noted
from app.ui import components, current_user, widgets
from app.ui.html import as_text, link
from engine.analysis import differences as apart
from engine.analysis.comparability import environment_shown
from engine.analysis.differences import MISSING, Row
from engine.analysis.run_values import setting_title, shown_config, without_effect
from engine.config_values import field_title, value_in_words
from engine.home import Home
from engine.store import Reader
from engine.store.records import ENDED, RunRow
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.tables import FORMATS, Cells, Table, runs_table

Environments = Mapping[int, Mapping[str, Any]]
Again = Callable[[Environments], Iterable[str]]


@dataclass(frozen=True)
class Seen:
    """A view as drawn."""

    title: str
    address: str
    """The permalink, absolute if the browser sent the host."""
    noted: Noted
    runs: tuple[RunRow, ...]
    again: Again | None = None
    """Returns the commands that launch it again, given its runs' environments; None for one command per run."""
    about: Mapping[int, Cells] = field(default_factory=dict)
    """Further cells of runs, such as their strategy in a duel."""


def view_report(seen: Seen, by: str) -> bytes:
    """Return the report of a view; it reads only its runs' work, environments and metrics again."""
    with Reader.open(Home.find()) as reader:
        environments = reader.multi_run.environments([run.id for run in seen.runs])
    return report(seen.title, list(_parts(seen, environments)), by=by)


def _parts(seen: Seen, environments: Environments) -> Iterator[Part]:
    yield ReportLink("Open in the console:", seen.address)
    yield from seen.noted.parts()
    if not seen.runs:
        return
    yield Heading("Runs")
    yield Grid(RUNS, rows_of(seen.runs, seen.about))
    yield from _compared(
        "Settings",
        setting_title,
        {run.id: shown_config(run) for run in seen.runs},
        [without_effect(run.experiment, run.config) for run in seen.runs],
    )
    known = {run_id: environment_shown(held) for run_id, held in environments.items()}
    yield from _compared("Environment", field_title, {run.id: known.get(run.id, {}) for run in seen.runs})
    if lines := list(seen.again(environments) if seen.again else runs_again(seen.runs, environments)):
        yield Heading("Reproduce")
        yield CommandLines("Commands, to run in a checkout of this repository", lines)


def rows_of(runs: Sequence[RunRow], about: Mapping[int, Cells] = MappingProxyType({})) -> Table:
    """Return one row per run, with all that is known of it."""
    with Reader.open(Home.find()) as reader:
        return runs_table(reader, runs, about)


def _compared(
    what: str,
    titled: Callable[[str], str],
    held: Mapping[int, Mapping[str, Any]],
    unused: Sequence[Mapping[str, str]] = (),
) -> Iterator[Part]:
    """Yield the values that differ, one row per run, and the values shared by all."""
    rows = [row for row in apart.rows(list(held.values()), unused) if not row.unused or not all(row.unused)]
    if not rows:
        return
    yield Heading(what)
    if differing := [row for row in rows if row.differs]:
        columns = ("run", *(row.name for row in differing))
        yield Grid(
            f"{what}: fields that differ",
            Table.of(columns, [(run_id, *_values(differing, place)) for place, run_id in enumerate(held)]),
            ("Run", *(titled(name) for name in columns[1:])),
        )
    if alike := [row for row in rows if not row.differs]:
        yield FactList(
            f"{what}: fields shared by all {len(held)} runs" if len(held) > 1 else what,
            [(titled(row.name), value_in_words(row.values[0])) for row in alike],
        )


def _values(rows: Sequence[Row], place: int) -> list[Any]:
    return [None if row.values[place] is MISSING else row.values[place] for row in rows]


# ---- Downloads: tables as shown, runs as a bundle for another lab, and reports -------------------------------------
# Files are built on request.

Make = Callable[[], Table]
RUNS = "The runs"
_HOLDS = {RUNS: "one row per run, with all settings, results, work, times and disturbance"}


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
            st.caption("A chart as a picture, or the points that it draws (CSV)")
            components.pictures(f"pictures-{key}")
        for label, table in (tables or {}).items():
            st.caption(as_text(f"{label}: {_HOLDS.get(label, 'the table of these numbers')}"))
            _table_buttons(table, name if len(tables or {}) == 1 else f"{name}-{_slug(label)}", f"{key}-{label}")
            if label == RUNS:
                st.html(link("What the columns mean", f"{at('/docs?page=compare')}#a-row-per-run"))
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


# ---- Downloads of a view of several runs: a report, its tables, and its runs as rows and as a bundle ---------------


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
        tables={**({RUNS: lambda: rows_of(runs, about)} if runs else {}), **noted.tables},
        runs=ended,
    )


def here(path: str, **asked: str) -> str:
    """Return the address of the open page: its path with the browser's query, overridden by `asked`."""
    query: Mapping[str, str | list[str]] = {
        **{name: st.query_params.get_all(name) for name in st.query_params},
        **asked,
    }
    return f"{path}?{urlencode(query, doseq=True, safe=',/.-:')}" if query else path
