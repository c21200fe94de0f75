"""Groups of runs: those with one config over its seeds, and the best of each task."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from engine.filter import SortOrder
from engine.filter.tree import Field
from engine.metrics import Result, metric
from engine.seeding import SEEDING
from engine.store.connection import Connection
from engine.store.exercises import NOT_OF_EXERCISES
from engine.store.runs.filter_sql import number_of, sorted_by
from engine.store.runs.reader import RunConditions, common_tags, where_of

# ------------------------------------------------------------------------------------------------------------------
# Groups of runs with the same config except the seed and the same seeding rule; and a metric's value at a step, the
# only query here that reads points.

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
    tags: tuple[str, ...] = ()
    """Tags that all runs have."""


class GroupReader:
    """Queries of tables with one row per group."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def find(
        self, *, order: SortOrder | None = None, limit: int = 500, offset: int = 0, **asked: Unpack[RunConditions]
    ) -> list[RunGroup]:
        """Return the groups of all matching runs, those with the newest run first, or ordered by the mean over a
        group's finished runs.
        """
        where, values = where_of(**asked)
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

    def count(self, **asked: Unpack[RunConditions]) -> int:
        """Return the number of groups of the matching runs."""
        where, values = where_of(**asked)
        return self.db.number(f"SELECT count(DISTINCT {_KEY}) AS n FROM runs {where}", values)

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
        (tags,) = common_tags(self.db, [members])
        return RunGroup(run["experiment"], run["preset"], config, members, finished, run["seeding"], tags)


def _by(order: SortOrder) -> str:
    """Return the sort key of groups: for measured fields the mean over finished runs, otherwise the maximum of all
    runs.
    """
    measured = order.field.source == "metric" or order.field.kind == "seconds"
    mean = "avg(sort) FILTER (WHERE status = 'finished')" if measured else "max(sort)"
    return f"{mean} {'DESC' if order.descending else 'ASC'} NULLS LAST,"


# ------------------------------------------------------------------------------------------------------------------
# The best finished run of an experiment on each of its tasks, with the other seeds of the same config, and of given
# runs. Reads only summary rows.

_BESTS = f"""
WITH found AS MATERIALIZED (
    SELECT runs.id, {{task}} AS task, {{number}} AS value, json_extract(runs.config, '$.seed') AS seed,
        runs.seeding || json_remove(runs.config, '$.seed') AS rest
    FROM runs WHERE runs.experiment = ? AND runs.status = 'finished' AND runs.archived_by IS NULL
        AND {NOT_OF_EXERCISES}
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY task ORDER BY value {{order}}, id) AS place FROM found
        WHERE value IS NOT NULL
)
SELECT ranked.task, ranked.id, ranked.value, runs.owner, runs.preset, runs.name,
    (SELECT json_array(count(*), avg(mean), sum(size)) FROM
        (SELECT avg(other.value) AS mean, count(*) AS size FROM found AS other
         WHERE other.rest = ranked.rest AND other.value IS NOT NULL GROUP BY coalesce(other.seed, ''))) AS others
FROM ranked JOIN runs ON runs.id = ranked.id WHERE ranked.place = 1 ORDER BY ranked.task
"""
_BEST_OF = """
WITH found AS MATERIALIZED (
    SELECT lists.key AS list, runs.id, {task} AS task,
        {number} AS value
    FROM json_each(?) AS lists, json_each(lists.value) AS member CROSS JOIN runs ON runs.id = member.value
    WHERE runs.status = 'finished' AND runs.experiment = ?
        AND NOT EXISTS (SELECT 1 FROM duel_sweeps WHERE duel_sweeps.sweep_id = runs.sweep_id AND stage = 'tuning')
)
SELECT list, id, {best}(value) AS value, task, count(DISTINCT task) AS tasks FROM found WHERE value IS NOT NULL
GROUP BY list
"""
"""SQLite takes the bare columns from the row of the extreme."""


@dataclass(frozen=True)
class LeaderboardEntry:
    """The best run of one task, the oldest of equal ones."""

    experiment: str
    task: tuple[Any, ...]
    """Values of the settings that define the task."""
    value: float
    run_id: int
    owner: str
    preset: str | None
    name: str
    seeds: int
    """Number of finished seeds of the same config with the same seeding rule, including its own."""
    mean: float
    """Mean over these seeds, each that of its runs."""
    runs: int
    """Number of these runs, of which several may have one seed."""
    result: Result
    """What the values are."""


@dataclass(frozen=True)
class BestRun:
    """The best run of a list."""

    run_id: int
    value: float
    task: tuple[Any, ...] | None
    """Values of the settings that define the task; None if the list has runs of several tasks, or nothing to learn."""
    result: Result
    """What the value is."""


class LeaderboardReader:
    """Query of the best runs."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def bests(
        self, experiment: str, result: Result, *, without_exercises: Collection[str] = ()
    ) -> list[LeaderboardEntry]:
        """Return the best run per task of an experiment; archived runs, those of attempts at some exercises, and tasks
        with nothing to learn, are excluded.
        """
        number, bound = number_of(Field("metric", result.metric, "number", result.of))
        task, values = _task(result)
        order = "ASC" if metric(result.metric).better == "min" else "DESC"
        sql = _BESTS.format(task=task, number=number, order=order)
        found = []
        for row in self.db.rows(sql, [*values, *bound, experiment, json.dumps([*without_exercises])]):
            tasks, (seeds, mean, runs) = tuple(json.loads(row["task"])), json.loads(row["others"])
            if not set(result.nothing_to_learn) & set(tasks):
                run = (row["id"], row["owner"], row["preset"], row["name"])
                found.append(LeaderboardEntry(experiment, tasks, row["value"], *run, seeds, mean, runs, result))
        if result.older:  # only on tasks without a run of this version
            tasks_here = {each.task for each in found}
            older = self.bests(experiment, result.older, without_exercises=without_exercises)
            found += [each for each in older if each.task not in tasks_here]
        return found

    def best_of(self, lists: Sequence[Sequence[int]], experiment: str, result: Result) -> dict[int, BestRun]:
        """Return the best finished run of an experiment among each list of runs, by the place of the list, without the
        tuning runs of duels; lists without results are excluded.
        """
        task, values = _task(result)
        best = "min" if metric(result.metric).better == "min" else "max"
        number, bound = number_of(Field("metric", result.metric, "number", result.of))
        sql = _BEST_OF.format(task=task, number=number, best=best)
        found = {}
        for row in self.db.rows(sql, [*values, *bound, json.dumps(lists), experiment]):
            tasks = tuple(json.loads(row["task"]))
            compares = row["tasks"] == 1 and not set(result.nothing_to_learn) & set(tasks)
            found[row["list"]] = BestRun(row["id"], row["value"], tasks if compares else None, result)
        return (self.best_of(lists, experiment, result.older) if result.older else {}) | found


def _task(result: Result) -> tuple[str, list[str]]:
    """Return the JSON list of the settings that define the task, as SQL with the values to bind."""
    usual = f"json_array({', '.join('json_extract(runs.config, ?)' for _ in result.task)})"
    values = [f'$."{name}"' for name in result.task]
    cases, own = "", list[str]()
    for name, value in result.own_tasks:
        cases += " WHEN json_extract(runs.config, ?) = ? THEN json_array(?)"
        own += [f'$."{name}"', value, value]
    return (f"CASE{cases} ELSE {usual} END", [*own, *values]) if cases else (usual, values)
