"""Retention: thin old curves and delete older runs, in short transactions.

Only the gc command uses it: recorded data is kept until a person decides otherwise.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from engine.store.curves.downsample import kept
from engine.store.curves.ingest import CHUNK, delete_recorded
from engine.store.records import ENDED
from engine.store.store import Reader, Store
from engine.store.timestamps import in_seconds

VACUUM_PAGES = 2_000

_ENDED = ", ".join(f"'{status}'" for status in ENDED)
_UNPROTECTED = f"""
runs.status IN ({_ENDED}) AND max(coalesce(runs.ended_at, runs.created_at),
    coalesce((SELECT imported_at FROM origins WHERE run_id = runs.id), '')) < ?
AND runs.starred_by IS NULL AND runs.pinned_by IS NULL AND NOT EXISTS (SELECT 1 FROM tags WHERE tags.run_id = runs.id)
AND NOT EXISTS (SELECT 1 FROM cluster_jobs WHERE run_id = runs.id)
AND NOT EXISTS (SELECT 1 FROM runs AS child WHERE child.parent_id = runs.id AND child.status NOT IN ({_ENDED}))
AND NOT EXISTS (SELECT 1 FROM runs AS peer WHERE peer.sweep_id = runs.sweep_id AND peer.status NOT IN ({_ENDED}))
"""
"""Condition: ended, or was imported, long enough ago, without a star, a pin or a tag, without a job on a cluster, not
resumed by a live run, and not in an active sweep.
"""
_LONG = f"""
SELECT metrics.id, metrics.run_id, count + nonfinite - thinned AS points FROM metrics JOIN runs
    ON runs.id = metrics.run_id
WHERE count + nonfinite - thinned > ? AND {_UNPROTECTED} ORDER BY metrics.run_id, metrics.id
"""
_SIZES = f"""
SELECT runs.id, (SELECT coalesce(sum(count + nonfinite - thinned), 0) FROM metrics WHERE run_id = runs.id) AS points
    FROM runs WHERE {_UNPROTECTED} ORDER BY runs.id
"""


@dataclass(frozen=True)
class Thinning:
    """A metric's curve that exceeds the limit of old curves."""

    metric_id: int
    run_id: int
    points: int
    """Number of stored points."""


@dataclass(frozen=True)
class Deletion:
    """A run older than the retention period."""

    run_id: int
    points: int


def to_thin(reader: Reader, days: float, most: int) -> list[Thinning]:
    """Return the unprotected curves of more than `most` points whose run ended more than `days` ago."""
    return reader.db.records(Thinning, _LONG, [most, in_seconds(-days * 86_400)])


def to_delete(reader: Reader, days: float) -> list[Deletion]:
    """Return the unprotected runs that ended more than `days` ago."""
    return reader.db.records(Deletion, _SIZES, [in_seconds(-days * 86_400)])


def thin(store: Store, curve: Thinning, most: int) -> int:
    """Keep the first, last, minimum and maximum point of each bucket of a curve, at most `most` points and its last
    finite one; return the number of deleted points.

    If it is killed half-way the curve is consistent and the next call continues. The summary row is unchanged.
    """
    rows = store.db.rows(
        "SELECT id, coalesce(value, nonfinite), value FROM points WHERE metric_id = ? ORDER BY id", [curve.metric_id]
    )
    stay = {rows[position][0] for position in kept([float(row[1]) for row in rows], most)}
    stay |= {next((row[0] for row in reversed(rows) if row[2] is not None), rows[-1][0])} if rows else set()
    go = [row[0] for row in rows if row[0] not in stay]
    with store.db.portions() as rest:
        for start in range(0, len(go), CHUNK):
            connection = store.db.connection
            connection.execute("DELETE FROM buckets WHERE metric_id = ?", [curve.metric_id])
            ids = json.dumps(go[start : start + CHUNK])
            gone = connection.execute(
                "DELETE FROM points WHERE metric_id = ? AND id IN (SELECT value FROM json_each(?))",
                [curve.metric_id, ids],
            ).rowcount
            connection.execute("UPDATE metrics SET thinned = thinned + ? WHERE id = ?", [gone, curve.metric_id])
            store.db.touch(curve.run_id)
            rest()
    return len(go)


def delete(store: Store, run_id: int, days: float) -> bool:
    """Delete a run with all its rows; False, and nothing deleted, if it has become protected. The caller deletes its
    folder.
    """
    if not _is_free(store, run_id, days):
        return False
    delete_recorded(store.db, run_id)
    with store.db.change() as connection:
        # The highest change token must never come back, so another run takes the next one before this one goes.
        last_other = "(SELECT max(id) FROM runs WHERE id <> ?)"
        sql = f"UPDATE runs SET version = (SELECT max(version) + 1 FROM runs) WHERE id = {last_other}"
        connection.execute(sql, [run_id])
        (sweep_id,) = connection.execute("SELECT sweep_id FROM runs WHERE id = ?", [run_id]).fetchone() or [None]
        connection.execute("DELETE FROM runs WHERE id = ?", [run_id])
        connection.execute(
            "DELETE FROM sweeps WHERE id = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE sweep_id = sweeps.id)", [sweep_id]
        )
    return True


def give_back(store: Store) -> Iterator[int]:
    """Return free pages of the file to the disk in steps; yield the bytes of each. Yields nothing if the file can't
    shrink.
    """
    size = store.db.number("PRAGMA page_size")
    while (free := store.db.number("PRAGMA freelist_count")) and store.db.number("PRAGMA auto_vacuum") == 2:
        store.db.rows(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        left = store.db.number("PRAGMA freelist_count")
        if left >= free:
            return
        yield (free - left) * size
    store.db.rows("PRAGMA wal_checkpoint(PASSIVE)")


def _is_free(store: Store, run_id: int, days: float) -> bool:
    return store.db.exists(f"SELECT 1 FROM runs WHERE id = ? AND {_UNPROTECTED}", [run_id, in_seconds(-days * 86_400)])
