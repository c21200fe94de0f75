"""Validation of imported rows beyond the tables' own constraints, and error messages for SQLite's errors."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import ImportRefused, StoreDamaged
from engine.trace.layout import LATEST_NS

MOST_BUCKET = 1_000_000
MOST_OPERATIONS, MOST_WINDOWS, MOST_NAMES = 2_000_000, 2_000, 65_535
"""Limits of a run's stored trace; our own runs store a sixth of them at most (engine/trace/sampler.py)."""
_WRONG_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
)
_UNLIKE = """
SELECT m.name FROM metrics AS m LEFT JOIN points AS p ON p.metric_id = m.id WHERE m.run_id = ? GROUP BY m.id
HAVING min(m.count, m.nonfinite, m.thinned) < 0 OR count(p.id) <> m.count + m.nonfinite - m.thinned
    OR (m.thinned = 0 AND (count(p.value) <> m.count OR m.low IS NOT min(p.value) OR m.high IS NOT max(p.value)))
    OR (m.count > 0 AND (m.mean IS NULL OR m.mean < m.low - abs(m.low) / 1e6 OR m.mean > m.high + abs(m.high) / 1e6))
    OR (m.count = 0 AND coalesce(m.low, m.high, m.mean, m.last) IS NOT NULL)
"""
_UNLIKE_LAST = """
SELECT m.name FROM metrics AS m WHERE m.run_id = ?
    AND (m.last IS NOT (SELECT value FROM points WHERE metric_id = m.id AND value IS NOT NULL ORDER BY id DESC LIMIT 1)
        OR m.last_step IS NOT (SELECT step FROM points WHERE metric_id = m.id AND value IS NOT NULL ORDER BY id DESC
            LIMIT 1))
"""
_NEITHER = """
SELECT m.name FROM metrics AS m JOIN points AS p ON p.metric_id = m.id WHERE m.run_id = ?
    AND ((p.value IS NULL) = (p.nonfinite IS NULL) OR p.id < 1)
"""
_OUT_OF_RANGE = (
    f"SELECT name FROM histograms WHERE run_id = ? AND (bucket NOT BETWEEN 0 AND {MOST_BUCKET} OR count < 0)"
)
_WRONG_WINDOW = (
    "SELECT reason FROM trace_windows WHERE run_id = ?1 AND (begin_ns < 0 OR end_ns < begin_ns OR "
    f"end_ns >= {LATEST_NS} OR (SELECT count(*) FROM trace_windows WHERE run_id = ?1) > {MOST_WINDOWS})"
)
_WRONG_TRACE = (
    "SELECT count(*) FROM trace_chunks WHERE run_id = ?1 AND (lost < 0 OR entries < 1 OR rank < 0 "
    "OR rank >= (SELECT count(*) FROM ranks WHERE run_id = ?1)) "
    "HAVING count(*) > 0 "
    f"OR (SELECT total(lost) >= {LATEST_NS} OR total(entries) > {MOST_OPERATIONS} FROM trace_chunks WHERE run_id = ?1)"
)


def check_run(connection: sqlite3.Connection, run_id: int) -> None:
    """Raise ImportRefused for rows that satisfy the tables' constraints but that no store would write."""
    for sql, what in (
        (_NEITHER, "a point of metric '{}' has neither a value nor a marker for a non-finite value"),
        (_UNLIKE, "the summary of metric '{}' doesn't match its points"),
        (_UNLIKE_LAST, "the summary of metric '{}' doesn't end at its last point"),
        (_OUT_OF_RANGE, "histogram '{}' has a count or a bucket out of range"),
        (_WRONG_WINDOW, "a stretch '{}' of the trace is out of range, or there are too many"),
        (_WRONG_TRACE, "the trace has too many operations, or {} parts with a number out of range"),
    ):
        if found := connection.execute(sql, [run_id]).fetchone():
            raise ImportRefused(f"The file is damaged or was edited: {what.format(found[0])}. Export it again.")
    names: set[str] = set()
    for row in connection.execute("SELECT rank, names, content, entries FROM trace_chunks WHERE run_id = ?", [run_id]):
        from engine.trace.chunk import TraceChunk  # NumPy, which most commands don't need

        try:
            names.update(TraceChunk.unpacked(*row).names)
            if len(names) > MOST_NAMES:
                raise StoreDamaged("The stored trace has too many names.")
        except StoreDamaged as error:
            raise ImportRefused(f"The file is damaged or was edited: {error} Export it again.") from error


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Convert SQLite's errors about values of a file to import errors."""
    try:
        yield
    except (json.JSONDecodeError, RecursionError) as error:
        raise ImportRefused(
            f"The file is damaged or was edited: {where} contains invalid JSON ({error}). Export it again."
        ) from error
    except (KeyError, TypeError) as error:
        raise ImportRefused(
            f"The file is damaged or was edited: {where} refers to {error}, which is missing. Export it again."
        ) from error
    except _WRONG_VALUES as error:
        raise ImportRefused(
            f"The file is damaged or was edited: {where} contains values that the store can't hold ({error}). "
            "Export it again."
        ) from error
