"""Groups of runs with the same config except the seed and the same seeding rule; and a metric's value at a step, the
only query here that reads points.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.filter import Filter, SortOrder
from engine.seeding import SEEDING
from engine.store.connection import Connection
from engine.store.records import Status
from engine.store.runs.metric_sql import sorted_by
from engine.store.runs.reader import where_of

_KEY = "runs.experiment || ' ' || runs.seeding || ' ' || json_remove(runs.config, '$.seed')"
_GROUPS = f"""
WITH picked AS (SELECT runs.id, runs.status, {_KEY} AS key, {{sort}} AS sort FROM runs {{where}})
SELECT max(id) AS newest, json_group_array(id) AS members, json_group_array(id) FILTER (WHERE status = 'finished') AS
    finished
FROM picked GROUP BY key ORDER BY {{by}} max(id) DESC LIMIT ? OFFSET ?
"""
_AT_STEP = """
SELECT metrics.run_id, metrics.rank, (
    SELECT points.value FROM points
    WHERE points.metric_id = metrics.id AND points.step <= ?1 AND points.value IS NOT NULL AND points.id >= coalesce((
        SELECT buckets.first_id FROM buckets JOIN points AS first ON first.metric_id = buckets.metric_id
            AND first.id = buckets.first_id
        WHERE buckets.metric_id = metrics.id AND first.step <= ?1 ORDER BY buckets.bucket DESC LIMIT 1 OFFSET 1), 0)
    ORDER BY points.id DESC LIMIT 1) AS value
FROM metrics WHERE metrics.run_id IN (SELECT value FROM json_each(?2)) AND metrics.name = ?3 AND metrics.last_step >= ?1
"""
"""For each rank, the last finite value up to a step, found in the step's bucket and the one before it."""


@dataclass(frozen=True)
class RunGroup:
    """Runs of one experiment with the same seeding rule whose configs differ only in the seed."""

    experiment: str
    preset: str | None
    config: Mapping[str, Any]
    """Common config, without the seed."""
    run_ids: tuple[int, ...]
    """All runs, oldest first."""
    finished: tuple[int, ...]
    """Finished runs, whose numbers count."""
    seeding: int = SEEDING
    """Common seeding rule."""


class GroupReader:
    """Queries of tables with one row per group."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def find(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        search: str = "",
        matching: Filter | None = None,
        archived: bool | None = None,
        order: SortOrder | None = None,
        limit: int = 500,
        offset: int = 0,
    ) -> list[RunGroup]:
        """Return the groups of all matching runs, those with the newest run first, or ordered by the mean over a
        group's finished runs.
        """
        where, values = where_of(statuses, search=search, matching=matching, archived=archived)
        sort, bound = sorted_by(order.field) if order else ("NULL", [])
        sql = _GROUPS.format(where=where, sort=sort, by=_by(order) if order else "")
        with self.db.snapshot():
            return [self._group(row) for row in self.db.rows(sql, [*bound, *values, limit, offset])]

    def of(self, run_id: int) -> RunGroup:
        """Return the group of one run, with all runs of its config; raises NoSuchRun."""
        with self.db.snapshot():
            row = self.db.row(f"SELECT {_KEY} AS key FROM runs WHERE id = ?", [run_id])
            if row is None:
                raise self.db.no_such_run(run_id)
            return self._group(
                self.db.rows(_GROUPS.format(where=f"WHERE {_KEY} = ?", sort="NULL", by=""), [row["key"], 1, 0])[0]
            )

    def count(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        search: str = "",
        matching: Filter | None = None,
        archived: bool | None = None,
    ) -> int:
        """Return the number of groups of the matching runs."""
        where, values = where_of(statuses, search=search, matching=matching, archived=archived)
        row = self.db.row(f"SELECT count(DISTINCT {_KEY}) AS n FROM runs {where}", values)
        return int(row["n"]) if row else 0

    def values_at(self, run_ids: Sequence[int], metric: str, step: int) -> dict[int, float]:
        """Return a metric's last finite value up to a step for each run that reached it: the whole run's, otherwise the
        mean over ranks.
        """
        whole: dict[int, float] = {}
        ranks: dict[int, list[float]] = {}
        for row in self.db.rows(_AT_STEP, [step, json.dumps(list(run_ids)), metric]):
            if row["value"] is None:
                continue
            if row["rank"] is None:
                whole[row["run_id"]] = row["value"]
            else:
                ranks.setdefault(row["run_id"], []).append(row["value"])
        return {run_id: sum(found) / len(found) for run_id, found in ranks.items()} | whole

    def _group(self, row: Any) -> RunGroup:
        run = self.db.rows("SELECT experiment, preset, config, seeding FROM runs WHERE id = ?", [row["newest"]])[0]
        config = json.loads(run["config"])
        config.pop("seed", None)
        members, finished = (tuple(sorted(json.loads(row[name]))) for name in ("members", "finished"))
        return RunGroup(run["experiment"], run["preset"], config, members, finished, run["seeding"])


def _by(order: SortOrder) -> str:
    """Return the sort key of groups: for measured fields the mean over finished runs, otherwise the maximum of all
    runs.
    """
    measured = order.field.source == "metric" or order.field.kind == "seconds"
    mean = "avg(sort) FILTER (WHERE status = 'finished')" if measured else "max(sort)"
    return f"{mean} {'DESC' if order.descending else 'ASC'} NULLS LAST,"
