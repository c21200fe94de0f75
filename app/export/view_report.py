"""A view of several runs as a report: its address, its content, and its runs' settings, environments and commands."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from app.export.downloads import RUNS
from app.export.rerun_commands import runs_again
from app.report import CommandLines, FactList, Grid, Heading, Part, ReportLink, report
from app.report.page_capture import Noted
from engine.analysis import differences as apart
from engine.analysis.differences import MISSING, Row
from engine.analysis.run_values import setting_title
from engine.config_values import field_title, value_in_words
from engine.home import Home
from engine.store import Reader
from engine.store.records import RunRow
from engine.transfer.tables import Cells, Table, runs_table

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
    yield from _compared("Settings", setting_title, {run.id: run.config for run in seen.runs})
    known = {
        run_id: {name: value for name, value in held.items() if name != "boot_id"}
        for run_id, held in environments.items()
    }
    yield from _compared("Environment", field_title, {run.id: known.get(run.id, {}) for run in seen.runs})
    if lines := list(seen.again(environments) if seen.again else runs_again(seen.runs, environments)):
        yield Heading("Reproduce")
        yield CommandLines("Commands, to run in a checkout of this repository", lines)


def rows_of(runs: Sequence[RunRow], about: Mapping[int, Cells] = MappingProxyType({})) -> Table:
    """Return one row per run, with all that is known of it."""
    with Reader.open(Home.find()) as reader:
        return runs_table(reader, runs, about)


def _compared(what: str, titled: Callable[[str], str], held: Mapping[int, Mapping[str, Any]]) -> Iterator[Part]:
    """Yield the values that differ, one row per run, and the values shared by all."""
    rows = apart.rows(list(held.values()))
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
