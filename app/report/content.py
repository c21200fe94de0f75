"""The parts of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from app.charts.plotly_figures import PlainFigure
from engine.transfer.tables import Table


@dataclass(frozen=True)
class Heading:
    """A section title."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Plain text, never interpreted as markup."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A figure and a table of its values; `colours` has a palette index or shade per trace, as in `live.figure`."""

    title: str
    figure: go.Figure | PlainFigure
    caption: str = ""
    colours: Sequence[int | Mapping[str, float]] = ()
    height: int = 340


@dataclass(frozen=True)
class Grid:
    """A table that can be saved as CSV from the report."""

    title: str
    table: Table
    headings: tuple[str, ...] = ()
    """Those of the columns, if other than their names, which the saved file has."""


@dataclass(frozen=True)
class FactList:
    """Names and values, such as a run's environment."""

    title: str
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Legend:
    """A shared legend: entries with label, colour (palette index), dash and symbol."""

    entries: Sequence[Mapping[str, str | int]]


@dataclass(frozen=True)
class ReportLink:
    """A labelled link; addresses other than http(s) are shown as text."""

    text: str
    address: str


@dataclass(frozen=True)
class CommandLines:
    """Shell commands that reproduce the view."""

    title: str
    lines: Sequence[str]


Part = Heading | Paragraph | Chart | Grid | FactList | Legend | ReportLink | CommandLines


# ---- Data frames as plain tables -----------------------------------------------------------------------------------


def of_frame(frame: pd.DataFrame) -> Table:
    """Return a data frame as a table; missing values become empty cells."""
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
