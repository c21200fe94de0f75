"""Tables of the Compare page: the compared runs and their differences."""

from collections.abc import Callable, Mapping, Sequence

from app.core.formatting import duration
from app.ui.html import run_link, table, when
from app.ui.run_state import outcome
from app.ui.widgets import title_of
from engine.analysis.differences import MISSING, Row
from engine.analysis.run_values import setting_title
from engine.config_values import value_in_words
from engine.registry import experiment_title
from engine.store.records import RunRow
from engine.transfer.tables import Table


def runs_table(runs: Sequence[RunRow], groups: Mapping[int, str]) -> str:
    """Return a row for each run, with its group if runs are grouped."""
    headers = ["Run", "Title", "Owner", "Status", "Execution", "Launched", *(["Group"] if groups else [])]
    rows = [
        [
            run_link(str(run.id), run.id),
            title_of(run),
            run.owner,
            outcome(run)[1],
            duration(run.elapsed_s),
            when(run.created_at),
            *([groups.get(run.id, "")] if groups else []),
        ]
        for run in runs
    ]
    return table(headers, rows, caption="Compared runs")


def differences_table(
    rows: Sequence[Row], runs: Sequence[RunRow], caption: str, titled: Callable[[str], str] = setting_title
) -> str:
    """Return a row for each field and a column for each run."""
    body = [[titled(row.name), *(_value(value) for value in row.values)] for row in rows]
    return table(["Field", *_heads(runs)], body, caption=caption)


def differences_frame(
    rows: Sequence[Row], runs: Sequence[RunRow], titled: Callable[[str], str] = setting_title
) -> Table:
    """Return the differences as plain values, fields with title and name; None if a run has no such field."""
    values = [[None if value is MISSING else value for value in row.values] for row in rows]
    cells = [[titled(row.name), row.name, *held] for row, held in zip(rows, values, strict=True)]
    return Table(("title", "field", *_heads(runs)), cells)


def _heads(runs: Sequence[RunRow]) -> list[str]:
    return [f"{run.id}: {experiment_title(run.experiment)}" for run in runs]


def _value(value: object) -> str:
    return "–" if value is MISSING else value_in_words(value)
