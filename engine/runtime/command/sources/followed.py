"""Streams of lines: a rank's log, the records of `parallab_log.py`, Trackio's fragments."""

import math
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

from engine.runtime.command.sources.printed import PrintedLines
from engine.runtime.command.sources.readings import LOGGED, PRINTED, TRACKIO, JsonLines, Lines, Value
from engine.system.run_files import piece

PRINTED_CHUNK = 1 << 13
MOST_IDS = 100_000
"""Ids of records that Trackio may write twice."""


class PrintedLog:
    """What one role printed; the middle of a long log may be gone before it is read."""

    source = PRINTED

    def __init__(self, path: Path, rank: int | None) -> None:
        self.path, self.rank = path, rank
        self.left_out = Counter[str]()
        self.lines, self.printed = Lines(), PrintedLines()
        self.offset = 0

    def read(self, at: float, final: bool) -> tuple[list[Value], bool]:
        try:
            found = piece(self.path, self.offset, PRINTED_CHUNK)
            about = self.path.stat()
        except OSError:
            return [], False
        more, at = about.st_size > found.end, min(at, about.st_mtime) if final else at
        if found.dropped:
            self.left_out[f"bytes of {self.path.stem}'s output, which came faster than they could be read"] += (
                found.dropped
            )
            self.lines.skipping = True  # the rest of a line whose begin is gone
        self.offset = found.end
        values = [value for line in self.lines.feed(found.data) for value in self.printed.read(line, at)]
        if final and not more:
            values += [value for line in self.lines.rest() for value in self.printed.read(line, at)]
            values += self.printed.rest(at)
        return values, more


class Recorded:
    """What `parallab_log.py` recorded in one process."""

    source = LOGGED

    def __init__(self, path: Path) -> None:
        rank = path.name.partition("-")[0]
        self.rank = int(rank) if rank.isdigit() else None
        self.left_out = Counter[str]()
        self.phases: dict[str, float] = {}
        self.progress: tuple[int, int] | None = None
        self._objects = JsonLines(path)

    def read(self, at: float, final: bool) -> tuple[list[Value], bool]:
        objects, more = self._objects.next(final)
        return [value for each in objects for value in self._values(each)], more

    def _values(self, record: dict[str, Any]) -> list[Value]:
        try:
            if "m" in record:
                at, step = float(record["t"]), int(record["s"])
                return [Value(str(name), step, float(value), at) for name, value in record["m"].items()]
            self.phases = {str(name): float(seconds) for name, seconds in record["phases"].items()}
            if record["progress"]:
                self.progress = int(record["progress"][0]), int(record["progress"][1])
            if record["dropped"]:
                self.left_out["values that the script's full buffer or a full disk dropped"] = int(record["dropped"])
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError):
            self.left_out["records of parallab_log that are damaged"] += 1
        return []


class Fragment:
    """One fragment of what Trackio recorded."""

    source = TRACKIO
    rank: int | None = None

    def __init__(self, path: Path, seen: "OrderedDict[str, None]") -> None:
        self.left_out = Counter[str]()
        self._objects, self._seen = JsonLines(path), seen

    def read(self, at: float, final: bool) -> tuple[list[Value], bool]:
        objects, more = self._objects.next(final)
        return [value for each in objects for value in self._values(each, at)], more

    def _values(self, record: dict[str, Any], at: float) -> list[Value]:
        metrics, key = record.get("metrics"), record.get("log_id")
        if record.get("kind", "metric") != "metric" or not isinstance(metrics, dict):
            return []
        if isinstance(key, str):
            if key in self._seen:
                return []
            self._seen[key] = None
            if len(self._seen) > MOST_IDS:
                self._seen.popitem(last=False)
        step, moment = record.get("step"), _moment(record.get("timestamp"))
        if not isinstance(step, int):
            self.left_out["records of Trackio without a step"] += 1
            return []
        found = dict[str, float]()
        _numbers(metrics, "", found)
        return [Value(name, step, value, moment or at) for name, value in found.items()]


def _numbers(value: object, name: str, into: dict[str, float]) -> None:
    """Collect the numbers of nested metrics; NaN and infinity may be written as words."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _numbers(inner, f"{name}/{key}" if name else str(key), into)
    elif (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.lower().lstrip("+-") in ("nan", "inf", "infinity")
    ):
        into[name] = float(value)


def _moment(value: object) -> float | None:
    """Return a time in seconds since 1970, from a number or from ISO 8601."""
    from datetime import UTC, datetime

    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
