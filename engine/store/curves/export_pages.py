"""Every point of a run in pages, for streams of any length."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.store.connection import Connection

_SERIES = (
    "SELECT metrics.id, name, metrics.rank, coalesce(role, '') AS role FROM metrics"
    " LEFT JOIN ranks ON ranks.run_id = metrics.run_id AND ranks.rank = metrics.rank WHERE metrics.run_id = ? "
    "ORDER BY name, coalesce(metrics.rank, -1)"
)
_PAGE = (
    "SELECT id, step, time_s, passes, coalesce(value, nonfinite) FROM points WHERE metric_id = ? AND id > ? ORDER "
    "BY id LIMIT ?"
)


@dataclass(frozen=True)
class Recording:
    """One metric recorded by one rank (None: the whole run)."""

    id: int
    metric: str
    rank: int | None
    role: str


@dataclass(frozen=True)
class PointRow:
    """One point; `id` increases along a recording."""

    id: int
    step: int
    time_s: float
    passes: float | None
    value: float


class PointReader:
    """Queries of all points."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def recordings(self, run_id: int, metrics: Sequence[str] = ()) -> list[Recording]:
        """Return the recordings of a run by metric and rank, optionally of some metrics only."""
        return [Recording(*row) for row in self.db.rows(_SERIES, [run_id]) if not metrics or row["name"] in metrics]

    def page(self, recording_id: int, *, after: int = 0, limit: int = 10_000) -> list[PointRow]:
        """Return up to `limit` points of a recording after the point `after`; none at its end."""
        return [
            PointRow(id, step, time_s, passes, float(value))
            for id, step, time_s, passes, value in self.db.rows(_PAGE, [recording_id, after, limit])
        ]
