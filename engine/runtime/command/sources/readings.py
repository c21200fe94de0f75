"""What the sources of a script's measurements have in common: a reading, what is known of a metric, a followed file."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engine.recorder import Point

LOGGED, TENSORBOARD, TRACKIO, PRINTED = "parallab_log", "TensorBoard", "Trackio", "printed"
"""Names of sources."""
LONGEST_LINE = 1 << 16
"""Longer lines are skipped."""


class Reading(NamedTuple):
    """A measured point with its source; `rank` is None for a point of the whole run."""

    rank: int | None
    source: str
    point: Point


def by_rank(readings: Iterable[Reading]) -> dict[int | None, list[Point]]:
    """Return the points of readings by rank, in their order."""
    found: dict[int | None, list[Point]] = {}
    for rank, _, point in readings:
        found.setdefault(rank, []).append(point)
    return found


class Value(NamedTuple):
    """A value as its source names it, before names are assigned; `at` in seconds since 1970."""

    name: str
    step: int
    value: float
    at: float
    unit: str = ""
    example: str = ""


@dataclass
class Recognised:
    """What is known of a metric: its source, the first line or file that had it, and the number of its points.

    `same_as` names a metric of another source with the same values.
    """

    source: str
    example: str
    unit: str = ""
    count: int = 0
    same_as: str = ""


class Stream(Protocol):
    """One file that is followed: the same bytes give the same values in the same order, however they arrive."""

    source: str
    rank: int | None
    left_out: Counter[str]
    """Numbers of what was skipped, by a description that follows the number."""

    def read(self, at: float, final: bool) -> tuple[list[Value], bool]:
        """Return the values of the next bytes, a bounded number, and whether more bytes are there.

        `at` is the present time; with `final`, what is unfinished at the end of the file counts too.
        """


@dataclass
class Lines:
    """Splits bytes into lines, which end at a line feed or a carriage return, as terminals show progress bars."""

    tail: bytes = b""
    skipping: bool = False
    too_long: int = 0

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the complete lines that end in `data`, without empty ones."""
        *lines, tail = (self.tail + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if self.skipping or len(line) > LONGEST_LINE:
                self.too_long += not self.skipping
                self.skipping = False
            elif line:
                yield line.decode("utf-8", "replace")
        if self.skipping or len(tail) > LONGEST_LINE:
            self.too_long += not self.skipping
            self.skipping, tail = True, b""
        self.tail = tail

    def rest(self) -> Iterator[str]:
        """Yield the line without an end."""
        yield from self.feed(b"\n")


@dataclass
class GrowingFile:
    """The bytes that are appended to a file, read a bounded number at a time."""

    path: Path
    offset: int = 0

    def next(self, most: int) -> tuple[bytes, bool]:
        """Return the next bytes and whether more are there; nothing from a file that is gone."""
        try:
            with self.path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                data = os.pread(file.fileno(), most, self.offset)
        except OSError:
            return b"", False
        self.offset += len(data)
        return data, self.offset < size


CHUNK = 1 << 16


@dataclass
class JsonLines:
    """JSON objects, one a line, of a growing file."""

    path: Path
    lines: Lines = field(default_factory=Lines)

    def __post_init__(self) -> None:
        self.file = GrowingFile(self.path)
        self.broken = 0

    def next(self, final: bool) -> tuple[list[dict[str, Any]], bool]:
        """Return the next objects, and whether more bytes are there."""
        data, more = self.file.next(CHUNK)
        found = []
        for line in [*self.lines.feed(data), *(self.lines.rest() if final and not more else ())]:
            try:
                value = json.loads(line)
            except ValueError:
                value = None
            if isinstance(value, dict):
                found.append(value)
            else:
                self.broken += 1
        return found, more
