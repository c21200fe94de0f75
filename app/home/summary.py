"""The live content of the Home page, made at most once a second for all visitors.

The news differ by person; they are made again when a run has ended, not at each change of a run.
"""

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from app.core.caches import VersionedCache
from app.home.best import best_html
from app.home.figures import published_html
from app.home.machine_load import machine_html
from app.home.queued import queue_html
from app.home.recent import news_html
from app.home.running import now_html
from app.ui.html import Slot
from app.ui.widgets import runner_trouble
from engine.home import Home
from engine.store import Reader

EVERY_S = 1.0
"""Least seconds between two versions of the shared content."""
MINUTE_S = 60.0
"""Seconds after which relative times such as `5 min ago` are updated without another change."""
Mark = tuple[str, int, int]


@dataclass(frozen=True)
class HomeStanding:
    """The page at one version: the token that makes pulse.js rerun its script, and the HTML of each slot."""

    version: int
    token: int
    slots: Mapping[Slot, Markup]


@dataclass(frozen=True)
class _Lab:
    """The content that all visitors share."""

    token: int
    mark: Mark
    slots: Mapping[Slot, Markup]


_labs: VersionedCache[_Lab] = VersionedCache()
_bests: VersionedCache[Markup] = VersionedCache()
_news: VersionedCache[Markup] = VersionedCache(most=512)


def standing(home: Home, since: str) -> HomeStanding:
    """Return the current state of the lab; runs that ended after `since` are new to the visitor."""
    return _made(home, since, _lab(home))


def shared(home: Home, since: str) -> HomeStanding:
    """Return the state of the lab at most a second ago."""
    return _made(home, since, _labs.get(home.database, int(time.monotonic() / EVERY_S), lambda: _lab(home)))


def frame(reader: Reader) -> int:
    """Return a checksum of everything on the page outside the slots."""
    there = [reader.runs.count() == 0, runner_trouble(reader), reader.views.find()]
    return zlib.crc32(repr(there).encode())


def _made(home: Home, since: str, lab: _Lab) -> HomeStanding:
    slots: dict[Slot, Markup] = {
        "home-news": _news.get((home.database, since), (lab.mark, _minute()), lambda: _news_of(home, since)),
        **lab.slots,
    }
    return HomeStanding(zlib.crc32(json.dumps([lab.token, slots]).encode()), lab.token, slots)


def _lab(home: Home) -> _Lab:
    with Reader.open(home) as reader, reader.db.snapshot():
        mark = reader.recent_ends.mark()
        slots: dict[Slot, Markup] = {
            "home-now": now_html(reader),
            "home-queue": queue_html(reader, home),
            "home-machine": machine_html(reader, home),
            "home-best": _bests.get(home.database, mark, lambda: best_html(reader)),
            "home-published": published_html(reader),
        }
        return _Lab(frame(reader), mark, slots)


def _news_of(home: Home, since: str) -> Markup:
    with Reader.open(home) as reader, reader.db.snapshot():
        return news_html(reader, since)


def _minute() -> int:
    return int(time.time() / MINUTE_S)
