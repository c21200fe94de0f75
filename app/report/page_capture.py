"""What a view shows, kept while it is drawn, so that it leaves as files just so: its own figures, numbers and
sentences, not others asked for later.

Whoever draws says what it draws; where nobody keeps it, saying so does nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import pandas as pd

from app.charts.plotly_figures import PlainFigure
from app.report.content import Chart, FactList, Grid, Heading, Legend, Paragraph, Part
from app.report.frames import of_frame
from engine.transfer.tables import Table

Make = Callable[[], Table | pd.DataFrame]


@dataclass(frozen=True)
class _Rows:
    """A table that is made when somebody asks for it; `charted` where a chart beside it holds the same numbers."""

    title: str
    make: Make
    charted: bool

    def made(self) -> Table:
        found = self.make()
        return found if isinstance(found, Table) else of_frame(found)


class Noted:
    """What one view showed, in its order."""

    def __init__(self) -> None:
        self._held: list[Part | _Rows] = []

    def hold(self, part: Part | _Rows) -> None:
        """Add what comes next."""
        self._held.append(part)

    @property
    def tables(self) -> dict[str, Callable[[], Table]]:
        """The tables by their titles, of which none is there twice; each is made when it is called."""
        found: dict[str, Callable[[], Table]] = {}
        for each in self._held:
            if isinstance(each, _Rows):
                alike = sum(title == each.title or title.startswith(f"{each.title} (") for title in found)
                found[f"{each.title} ({alike + 1})" if alike else each.title] = each.made
        return found

    def parts(self) -> list[Part]:
        """Return what a report is made of; a table that a chart holds already is left to the chart."""
        return [
            Grid(each.title, each.made()) if isinstance(each, _Rows) else each
            for each in self._held
            if not (isinstance(each, _Rows) and each.charted)
        ]


_here: ContextVar[Noted | None] = ContextVar("noting", default=None)


@contextmanager
def keeping() -> Iterator[Noted]:
    """Keep what is drawn within the block."""
    found = Noted()
    before = _here.set(found)
    try:
        yield found
    finally:
        _here.reset(before)


def _hold(part: Part | _Rows) -> None:
    if (here := _here.get()) is not None:
        here.hold(part)


def chart(title: str, figure: PlainFigure, *, height: int, colours: Sequence[int | Mapping[str, float]] = ()) -> None:
    """Say that a figure is shown."""
    _hold(Chart(title[:1].upper() + title[1:], figure, colours=tuple(colours), height=height))


def table(title: str, made: Make | Table | pd.DataFrame, *, charted: bool = False) -> None:
    """Say that a table is shown, or is offered to whoever opens it."""
    _hold(_Rows(title, (lambda: made) if isinstance(made, Table | pd.DataFrame) else made, charted))


def words(sentences: Iterable[str]) -> None:
    """Say which sentences are shown."""
    for sentence in filter(None, sentences):
        _hold(Paragraph(sentence))


def heading(text: str) -> None:
    """Say under which title the rest stands."""
    _hold(Heading(text))


def facts(title: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Say which names and values are shown; empty values are left out."""
    if there := [(name, value) for name, value in pairs if value]:
        _hold(FactList(title, there))


def legend(entries: Iterable[Mapping[str, str | int]]) -> None:
    """Say what the lines of the figures are."""
    _hold(Legend([{**entry, "href": ""} for entry in entries]))
