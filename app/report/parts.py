"""What a report is made of, from top to bottom."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

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
    """A figure with its numbers as a table below; `colours` gives each trace its place in the palette, as `live.figure` has it."""

    title: str
    figure: go.Figure
    caption: str = ""
    colours: Sequence[int] = ()
    height: int = 340


@dataclass(frozen=True)
class Grid:
    """A table, which can be saved as CSV out of the report."""

    title: str
    table: Table


@dataclass(frozen=True)
class Facts:
    """Names and values, such as a run's environment."""

    title: str
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Commands:
    """Lines for a terminal that give the same again."""

    title: str
    lines: Sequence[str]


Part = Heading | Paragraph | Chart | Grid | Facts | Commands
