"""Runs folded by the sweep or duel that they belong to: the entries of the table of runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.filter import Filter
from engine.store.connection import Connection
from engine.store.records import ALIVE, BUDGET_OF, Status
from engine.store.runs.reader import where_of

_LIVE = ", ".join(f"'{status}'" for status in ALIVE)
_FOLDS = f"""
WITH picked AS (
    SELECT runs.id, runs.status, runs.cause, runs.sweep_id, duel_sweeps.duel_id FROM runs
    LEFT JOIN duel_sweeps ON duel_sweeps.sweep_id = runs.sweep_id {{where}})
SELECT CASE WHEN duel_id IS NOT NULL THEN 'duel' WHEN sweep_id IS NOT NULL THEN 'sweep' ELSE 'run' END AS kind,
    coalesce(duel_id, sweep_id, id) AS number, json_group_array(id) AS members, json_group_array(status) AS statuses,
    sum(status = 'cancelled' AND cause LIKE 'Cancelled by {BUDGET_OF} %') AS reached
FROM picked GROUP BY kind, number
ORDER BY max(CASE WHEN status IN ({_LIVE}) THEN 2 ELSE status = 'queued' END) DESC, max(id) DESC LIMIT ? OFFSET ?
"""
"""Entries with running runs first, then those with queued ones, then the others; within each, the newest first."""


@dataclass(frozen=True)
class RunFold:
    """One entry: a single run, or all matching runs of a sweep or duel."""

    kind: Literal["run", "sweep", "duel"]
    id: int
    """The number of the run, sweep or duel."""
    run_ids: tuple[int, ...]
    """Its matching runs, newest first."""
    statuses: Mapping[Status, int]
    """Number of its matching runs per status."""
    reached_budget: int = 0
    """Number of cancelled ones that had spent the budget of their duel."""


class FoldReader:
    """Queries of the table of runs, with one row per run, sweep or duel."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def find(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        search: str = "",
        matching: Filter | None = None,
        archived: bool | None = None,
        limit: int = 500,
        offset: int = 0,
    ) -> list[RunFold]:
        """Return the entries of all matching runs, those with running runs first, then the newest."""
        where, values = where_of(statuses, search=search, matching=matching, archived=archived)
        return [
            RunFold(
                row["kind"],
                row["number"],
                tuple(sorted(json.loads(row["members"]), reverse=True)),
                Counter(json.loads(row["statuses"])),
                row["reached"],
            )
            for row in self.db.rows(_FOLDS.format(where=where), [*values, limit, offset])
        ]

    def count(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        search: str = "",
        matching: Filter | None = None,
        archived: bool | None = None,
    ) -> int:
        """Return the number of entries of the matching runs."""
        where, values = where_of(statuses, search=search, matching=matching, archived=archived)
        sql = (
            "SELECT count(DISTINCT CASE WHEN duel_id IS NOT NULL THEN 'd' || duel_id WHEN runs.sweep_id IS NOT NULL "
            "THEN 's' || runs.sweep_id ELSE runs.id END) AS n FROM runs "
            f"LEFT JOIN duel_sweeps ON duel_sweeps.sweep_id = runs.sweep_id {where}"
        )
        row = self.db.row(sql, values)
        return int(row["n"]) if row else 0
