"""How each run looks on every chart of a page: its colour, and a dash and a marker as a second cue."""

from collections.abc import Iterable
from dataclasses import dataclass

COLOURS = 8
"""Colours of the theme's palette (.streamlit/config.toml)."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
"""In the order of the live curves of a run."""


@dataclass(frozen=True)
class Look:
    """A place in the palette, a dash and a marker; no two of up to 48 looks of one page are alike."""

    colour: int
    dash: str
    symbol: str


def look(place: int) -> Look:
    """Return the look of a place: every eight places the colours come again, each with its next dash."""
    colour, turn = place % COLOURS, place // COLOURS
    cue = (colour + 2 * (colour // len(DASHES)) + turn) % len(DASHES)  # the palette's two blues get different cues
    return Look(colour, DASHES[cue], SYMBOLS[cue])


def looks(run_ids: Iterable[int]) -> dict[int, Look]:
    """Return the look of each run. Its id gives the colour, so that it has the same on most pages; where that is taken,
    the next free one.
    """
    taken: set[int] = set()
    found = {}
    for run_id in sorted(run_ids):
        turn = len(taken) // COLOURS * COLOURS
        place = next(place for step in range(COLOURS) if (place := turn + (run_id + step) % COLOURS) not in taken)
        taken.add(place)
        found[run_id] = look(place)
    return found
