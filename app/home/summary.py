"""How the lab stands on the Home page: what ticks there, made once a second for all who have it open.

What a person has not seen yet differs from one to the next; it is made anew when a run has ended, not when one has
news.
"""

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.caches import VersionedCache
from app.home.best import best_html
from app.home.figures import published_html
from app.home.machine_load import machine_html
from app.home.recent import news_html
from app.home.running import now_html
from app.ui.html import Slot
from app.ui.widgets import runner_trouble
from engine.home import Home
from engine.store import Reader

EVERY_S = 1.0
"""So often what all share is made, while anybody asks."""
MINUTE_S = 60.0
"""So often times such as `5 min ago` are written anew where nothing else has changed."""
Mark = tuple[str, int, int]


@dataclass(frozen=True)
class HomeStanding:
    """The page at one version: what makes its script run again as the token that pulse.js compares, and the HTML of
    each slot.
    """

    version: int
    token: int
    slots: Mapping[Slot, str]


@dataclass(frozen=True)
class _Lab:
    """What all share."""

    token: int
    mark: Mark
    slots: Mapping[Slot, str]


_labs: VersionedCache[_Lab] = VersionedCache()
_bests: VersionedCache[str] = VersionedCache()
_news: VersionedCache[str] = VersionedCache(most=512)


def standing(home: Home, since: str) -> HomeStanding:
    """Return how the lab stands now; `since` is the moment after which ends are new to whoever asks."""
    return _made(home, since, _lab(home))


def shared(home: Home, since: str) -> HomeStanding:
    """Return how the lab stood at most a second ago."""
    return _made(home, since, _labs.get(home.database, int(time.monotonic() / EVERY_S), lambda: _lab(home)))


def frame(reader: Reader) -> int:
    """Return a number that changes with anything on the page that no slot holds."""
    there = [reader.runs.count() == 0, runner_trouble(reader), reader.views.find()]
    return zlib.crc32(repr(there).encode())


def _made(home: Home, since: str, lab: _Lab) -> HomeStanding:
    slots: dict[Slot, str] = {
        "home-news": _news.get((home.database, since), (lab.mark, _minute()), lambda: _news_of(home, since)),
        **lab.slots,
    }
    return HomeStanding(zlib.crc32(json.dumps([lab.token, slots]).encode()), lab.token, slots)


def _lab(home: Home) -> _Lab:
    with Reader.open(home) as reader, reader.db.snapshot():
        mark = reader.recent_ends.mark()
        slots: dict[Slot, str] = {
            "home-now": now_html(reader),
            "home-machine": machine_html(reader, home),
            "home-best": _bests.get(home.database, mark, lambda: best_html(reader)),
            "home-published": published_html(reader),
        }
        return _Lab(frame(reader), mark, slots)


def _news_of(home: Home, since: str) -> str:
    with Reader.open(home) as reader, reader.db.snapshot():
        return news_html(reader, since)


def _minute() -> int:
    return int(time.time() / MINUTE_S)
