"""The style of each run in all charts of a page: a colour; where colours repeat, also a dash and a marker."""

from collections.abc import Iterable
from dataclasses import dataclass

COLOURS = 8
"""Colours of the theme's palette (.streamlit/config.toml)."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
"""In the order of a run's live curves."""


@dataclass(frozen=True)
class Look:
    """A palette index, a dash and a marker; unique for up to 48 styles per page."""

    colour: int
    dash: str
    symbol: str


def look(place: int) -> Look:
    """Return the style for an index: colours repeat every eight indices, with the next dash and marker."""
    turn = place // COLOURS % len(DASHES)
    return Look(place % COLOURS, DASHES[turn], SYMBOLS[turn])


def looks(run_ids: Iterable[int]) -> dict[int, Look]:
    """Return the style of each run. The run id selects the colour, so that it is the same on most pages; if it is
    taken, the next free one is used.
    """
    taken: set[int] = set()
    found = {}
    for run_id in sorted(run_ids):
        turn = len(taken) // COLOURS * COLOURS
        place = next(place for step in range(COLOURS) if (place := turn + (run_id + step) % COLOURS) not in taken)
        taken.add(place)
        found[run_id] = look(place)
    return found
