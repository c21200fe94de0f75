"""What a report is made of, from top to bottom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from app.charts.plotly_figures import PlainFigure
from engine.transfer.tables import Table


@dataclass(frozen=True)
class Heading:
    """The title of what follows."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Words; shown as they stand, never as markup."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A figure with its numbers as a table below; `colours` gives each trace its place in the palette or a shade, as
    `live.figure` has it.
    """

    title: str
    figure: go.Figure | PlainFigure
    caption: str = ""
    colours: Sequence[int | Mapping[str, float]] = ()
    height: int = 340


@dataclass(frozen=True)
class Grid:
    """A table, which can be saved as CSV out of the report."""

    title: str
    table: Table


@dataclass(frozen=True)
class FactList:
    """Names and values, such as a run's environment."""

    title: str
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Legend:
    """What the lines of several charts are: entries with label, colour (place in the palette), dash and symbol."""

    entries: Sequence[Mapping[str, str | int]]


@dataclass(frozen=True)
class ReportLink:
    """An address with the words before it; one that is not of the web stands there as text."""

    text: str
    address: str


@dataclass(frozen=True)
class CommandLines:
    """Lines for a terminal that give the same again."""

    title: str
    lines: Sequence[str]


Part = Heading | Paragraph | Chart | Grid | FactList | Legend | ReportLink | CommandLines
