"""Runs that share a config but for the seed, and draw by one rule, as a group; and a metric's value at a step, the one
thing here that reads points.
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
"""Of each rank that got so far the last finite value up to a step, looked for among the points of the step's bucket and
of the one before it.
"""


@dataclass(frozen=True)
class RunGroup:
    """Runs of one experiment that draw by one rule and whose configs differ in the seed alone."""

    experiment: str
    preset: str | None
    config: Mapping[str, Any]
    """What they share; without the seed."""
    run_ids: tuple[int, ...]
    """All of them, oldest first."""
    finished: tuple[int, ...]
    """Those whose numbers count."""
    seeding: int = SEEDING
    """The rule that all of them draw random numbers by."""


class GroupReader:
    """The questions of tables that show a group of runs in a row."""

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
        """Return the groups of all runs that match, those with the newest run first; an order is by the mean over a
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
        """Return how many groups the runs that match make."""
        where, values = where_of(statuses, search=search, matching=matching, archived=archived)
        row = self.db.row(f"SELECT count(DISTINCT {_KEY}) AS n FROM runs {where}", values)
        return int(row["n"]) if row else 0

    def values_at(self, run_ids: Sequence[int], metric: str, step: int) -> dict[int, float]:
        """Return a metric's last finite value up to a step, for each run that recorded it up to there: the whole run's,
        else the mean over ranks.
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
    """Return how groups are sorted: by what was measured as the mean over their finished runs, else by the greatest of
    all.
    """
    measured = order.field.source == "metric" or order.field.kind == "seconds"
    mean = "avg(sort) FILTER (WHERE status = 'finished')" if measured else "max(sort)"
    return f"{mean} {'DESC' if order.descending else 'ASC'} NULLS LAST,"
