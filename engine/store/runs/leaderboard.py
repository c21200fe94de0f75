"""The best finished run of an experiment on each of its tasks, with the other seeds of the same config, and of given
runs. Reads only summary rows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.experiment.result import Result
from engine.filter.tree import Field
from engine.metrics import metric
from engine.store.connection import Connection
from engine.store.runs.metric_sql import number_of

_BESTS = """
WITH found AS MATERIALIZED (
    SELECT runs.id, {task} AS task, {number} AS value, json_extract(runs.config, '$.seed') AS seed,
        runs.seeding || json_remove(runs.config, '$.seed') AS rest
    FROM runs WHERE runs.experiment = ? AND runs.status = 'finished' AND runs.archived_by IS NULL
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY task ORDER BY value {order}, id) AS place FROM found
        WHERE value IS NOT NULL
)
SELECT ranked.task, ranked.id, ranked.value, runs.owner, runs.preset, runs.name,
    (SELECT json_array(count(DISTINCT coalesce(other.seed, '')), avg(other.value)) FROM found AS other
     WHERE other.rest = ranked.rest AND other.value IS NOT NULL) AS others
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
    """Mean over these runs."""
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

    def bests(self, experiment: str, result: Result) -> list[LeaderboardEntry]:
        """Return the best run per task of an experiment; archived runs, and tasks with nothing to learn, are
        excluded.
        """
        number, bound = number_of(Field("metric", result.metric, "number", result.of))
        task, values = _task(result)
        order = "ASC" if metric(result.metric).better == "min" else "DESC"
        sql = _BESTS.format(task=task, number=number, order=order)
        found = []
        for row in self.db.rows(sql, [*values, *bound, experiment]):
            tasks, (seeds, mean) = tuple(json.loads(row["task"])), json.loads(row["others"])
            if not set(result.nothing_to_learn) & set(tasks):
                found.append(
                    LeaderboardEntry(
                        experiment,
                        tasks,
                        row["value"],
                        row["id"],
                        row["owner"],
                        row["preset"],
                        row["name"],
                        seeds,
                        mean,
                        result,
                    )
                )
        if result.older:  # only on tasks without a run of this version
            tasks_here = {each.task for each in found}
            found += [each for each in self.bests(experiment, result.older) if each.task not in tasks_here]
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
