"""Capture a view's charts, tables and texts while it is drawn, so that downloads contain exactly the content shown.

Drawing code records its content here; outside of `keeping`, recording does nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from app.charts.plotly_figures import PlainFigure
from app.report.document import Chart, FactList, Grid, Heading, Legend, Paragraph, Part, of_frame
from engine.transfer.tables import Table

if TYPE_CHECKING:
    import pandas as pd

Make: TypeAlias = "Callable[[], Table | pd.DataFrame]"


@dataclass(frozen=True)
class _Rows:
    """A table built on demand; `charted` if a chart has the same values."""

    title: str
    make: Make
    charted: bool
    heading: Callable[[str], str]

    def made(self) -> Table:
        found = self.make()
        return found if isinstance(found, Table) else of_frame(found)


class Noted:
    """The captured content of a view, in order."""

    def __init__(self) -> None:
        self._held: list[Part | _Rows] = []
        self._later: list[Callable[[], Iterable[Part]]] = []

    def hold(self, part: Part | _Rows) -> None:
        """Append a part."""
        self._held.append(part)

    def hold_later(self, parts: Callable[[], Iterable[Part]]) -> None:
        """Append parts that only the report has, made when it is."""
        self._later.append(parts)

    @property
    def tables(self) -> dict[str, Callable[[], Table]]:
        """The tables by unique title; each is built when called."""
        found: dict[str, Callable[[], Table]] = {}
        for each in self._held:
            if isinstance(each, _Rows):
                alike = sum(title == each.title or title.startswith(f"{each.title} (") for title in found)
                found[f"{each.title} ({alike + 1})" if alike else each.title] = each.made
        return found

    @property
    def has_charts(self) -> bool:
        """Whether it has any chart."""
        return any(isinstance(each, Chart) for each in self._held)

    def parts(self) -> list[Part]:
        """Return the report's parts, without tables that a chart already contains."""
        shown = [
            _grid(each) if isinstance(each, _Rows) else each
            for each in self._held
            if not (isinstance(each, _Rows) and each.charted)
        ]
        later = [part for parts in self._later for part in parts()]
        return [*shown, *([Heading("Other metrics"), *later] if later else [])]


def _grid(rows: _Rows) -> Grid:
    found = rows.made()
    return Grid(rows.title, found, tuple(map(rows.heading, found.columns)))


_here: ContextVar[Noted | None] = ContextVar("noting", default=None)


@contextmanager
def keeping() -> Iterator[Noted]:
    """Capture the content drawn within the block."""
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
    """Record a figure."""
    _hold(Chart(title[:1].upper() + title[1:], figure, colours=tuple(colours), height=height))


def table(
    title: str,
    made: "Make | Table | pd.DataFrame",
    *,
    charted: bool = False,
    heading: Callable[[str], str] = str,
) -> None:
    """Record a table that is shown or can be expanded; `heading` returns the heading of a column in reports, and files
    keep its name.
    """
    _hold(_Rows(title, made if callable(made) else lambda: made, charted, heading))


def others(parts: Callable[[], Iterable[Part]]) -> None:
    """Record how the charts of the metrics that are not shown are made, for the report alone."""
    if (here := _here.get()) is not None:
        here.hold_later(parts)


def words(sentences: Iterable[str]) -> None:
    """Record sentences."""
    for sentence in filter(None, sentences):
        _hold(Paragraph(sentence))


def heading(text: str) -> None:
    """Record a section title."""
    _hold(Heading(text))


def facts(title: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Record names and values, without empty values."""
    if there := [(name, value) for name, value in pairs if value]:
        _hold(FactList(title, there))


def legend(entries: Iterable[Mapping[str, str | int]]) -> None:
    """Record the figures' legend."""
    _hold(Legend([{**entry, "href": ""} for entry in entries]))
