"""Lists of runs: filtered, searched, with last and best values of their metrics. Never reads metric points.

The table of runs reads these while it is sorted or unfolded, else `engine/store/sweeps/sweeps.py`; grouped by seed, it
reads `config_groups.py`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from engine.access.quotas import disturbed_above
from engine.filter import Filter, SortOrder
from engine.metrics import EPISODES, LOSS, METRICS
from engine.store.access.accounts import NAME_AS_KEPT
from engine.store.connection import Connection, Row
from engine.store.exercises import NOT_OF_EXERCISES
from engine.store.records import Run, RunRow, Status
from engine.store.runs.filter_sql import OF, Sql, behind, condition, order_of, sorted_by
from engine.store.runs.rows import RUN, RUN_ROW, as_run, as_run_row, best_of
from engine.store.scripts import settings_of

NUMBERS = f"""
SELECT run_id, name, {OF["last"]} AS last, {OF["min"]} AS low, {OF["max"]} AS high, {OF["mean"]} AS mean,
    sum(count) AS count, sum(nonfinite) AS nonfinite, max(count + nonfinite) AS most
FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)) GROUP BY run_id, name
"""
"""The whole run's number if recorded, otherwise the aggregate over its ranks (`numbers.OF`)."""

NEWEST = 1_000
"""Maximum number of runs whose settings and metrics are offered as columns."""
_Extremes = tuple[dict[str, float], dict[str, float]]
_Numbers = tuple[
    dict[str, float], dict[str, float], dict[str, float], _Extremes, dict[str, int], dict[str, int], set[str]
]

_CHAIN = """
WITH RECURSIVE
before(id) AS (SELECT :run UNION SELECT runs.parent_id FROM runs JOIN before ON runs.id = before.id
    WHERE runs.parent_id IS NOT NULL),
after(id) AS (SELECT :run UNION SELECT runs.id FROM runs JOIN after ON runs.parent_id = after.id)
SELECT id, status FROM runs WHERE id IN (SELECT id FROM before UNION SELECT id FROM after) ORDER BY id
"""
_FAMILY = """
WITH RECURSIVE
before(id) AS (SELECT ?1 UNION SELECT runs.parent_id FROM runs JOIN before ON runs.id = before.id
    WHERE runs.parent_id IS NOT NULL UNION SELECT clones.origin FROM clones JOIN before ON clones.run_id = before.id),
after(id) AS (SELECT id FROM before UNION SELECT runs.id FROM runs JOIN after ON runs.parent_id = after.id
    UNION SELECT clones.run_id FROM clones JOIN after ON clones.origin = after.id)
SELECT after.id, coalesce(parent_id, origin) AS parent,
    CASE WHEN parent_id IS NULL THEN iif(origin IS NULL, '', 'clone of')
        WHEN resumes THEN 'resumes' ELSE 'retries' END AS how,
    coalesce(text, '') AS note
FROM after LEFT JOIN runs ON runs.id = after.id LEFT JOIN clones ON clones.run_id = after.id
    LEFT JOIN notes ON notes.run_id = after.id ORDER BY after.id LIMIT ?2
"""
_LAST_STEPS = """
SELECT rank, max(last_step) FROM (SELECT rank, last_step FROM ranks WHERE run_id = ?1
    UNION ALL SELECT rank, last_step FROM metrics WHERE run_id = ?1 AND rank IS NOT NULL) GROUP BY rank
"""
"""A resumed run has steps of its parent in its curves, and its ranks may have none of their own yet."""


@dataclass(frozen=True)
class Kin:
    """A run of a family: of those that follow from each other by resuming, retrying or cloning."""

    id: int
    """It may have been deleted, if others are its clones."""
    parent: int | None
    """The run that it came of."""
    how: Literal["", "resumes", "retries", "clone of"]
    note: str


class RunConditions(TypedDict, total=False):
    """Conditions on runs, all of which must hold."""

    statuses: Sequence[Status] | None
    experiment: str | None
    owner: str | None
    sweep: int | None
    search: str
    """Each word must occur in the name, owner, experiment, preset, a tag or the note, or be the id."""
    matching: Filter | None
    archived: bool | None
    """Only archived runs, or only others; None for both."""
    before: int | None
    """Only runs older than this one."""
    without_exercises: Collection[str]
    """Without the runs of attempts at these exercises."""


_CONDITIONS = {
    "experiment": "runs.experiment = ?",
    "owner": f"runs.owner = {NAME_AS_KEPT}",
    "sweep": "runs.sweep_id = ?",
    "before": "runs.id < ?",
}

_COMMON_TAGS = """
SELECT lists.key AS list, tags.tag FROM json_each(?) AS lists, json_each(lists.value) AS member
    CROSS JOIN tags ON tags.run_id = member.value
GROUP BY 1, 2 HAVING count(*) = json_array_length(lists.value) ORDER BY 1, 2
"""


def common_tags(db: Connection, lists: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
    """Return for each list of runs the tags that all of them have."""
    found: list[tuple[str, ...]] = [()] * len(lists)
    for row in db.rows(_COMMON_TAGS, [json.dumps(lists)]):
        found[row["list"]] += (row["tag"],)
    return found


class RunReader:
    """Queries of runs: one by id, or a list of matching ones."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def one(self, run_id: int) -> Run:
        """Return one run; raises NoSuchRun."""
        row = self.db.row(f"{RUN} WHERE runs.id = ?", [run_id])
        if row is None:
            raise self.db.no_such_run(run_id)
        return as_run(row)

    def why_behind(self, run_id: int, steps: Mapping[int, int]) -> str:
        """Return why a run's curves don't reach its checkpoint, which includes these last steps of ranks; empty if any
        rank's do.
        """
        stored = dict(self.db.tuples(_LAST_STEPS, [run_id]))
        behind = [(step, stored.get(rank) or 0) for rank, step in steps.items() if step > (stored.get(rank) or 0)]
        if not behind or len(behind) < len(steps):  # a rank that died did not send its last points
            return ""
        step, last = behind[0]
        return (
            f"its checkpoint is of step {step:,} and its curves end at step {last:,}, as after the restore of an older "
            "backup. Retry it, which repeats it from the start."
        )

    def find(
        self, *, order: SortOrder | None = None, limit: int = 500, offset: int = 0, **asked: Unpack[RunConditions]
    ) -> list[RunRow]:
        """Return the matching runs, newest first or in another order, in which `before` means those that come after it.
        Raises NoSuchRun for such a run that is gone.
        """
        by, bound = order_of(order)
        with self.db.snapshot():
            where, values = self._behind(order, asked) if order else where_of(**asked)
            # First the ids, so that sorting carries nothing long along.
            sql = f"SELECT runs.id FROM runs {where} ORDER BY {by} LIMIT ? OFFSET ?"
            return self._rows_of(self.db.column(sql, [*values, *bound, limit, offset]))

    def ids(self, *, limit: int, **asked: Unpack[RunConditions]) -> list[int]:
        """Return the ids of the matching runs, newest first."""
        where, values = where_of(**asked)
        return self.db.column(f"SELECT runs.id FROM runs {where} ORDER BY runs.id DESC LIMIT ?", [*values, limit])

    def some(self, run_ids: Sequence[int]) -> list[RunRow]:
        """Return the existing runs of these ids, in this order."""
        with self.db.snapshot():
            return self._rows_of(run_ids)

    def pinned(self) -> dict[str, RunRow]:
        """Return the baseline of each experiment that has one."""
        with self.db.snapshot():
            ids = self.db.column("SELECT id FROM runs WHERE pinned_by IS NOT NULL ORDER BY id")
            return {row.experiment: row for row in self._rows_of(ids)}

    def entry(self, run_id: int) -> RunRow:
        """Return one run as in a list; raises NoSuchRun."""
        with self.db.snapshot():
            row = self.db.row(f"{RUN_ROW} WHERE runs.id = ?", [run_id])
            if row is None:
                raise self.db.no_such_run(run_id)
            return self.with_numbers([row])[0]

    def count(self, **asked: Unpack[RunConditions]) -> int:
        """Return the number of matching runs."""
        where, values = where_of(**asked)
        return self.db.number(f"SELECT count(*) AS n FROM runs {where}", values)

    def recorded(self, **asked: Unpack[RunConditions]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Return what the newest matching runs have: their settings that are not None, with the
        number of different values, and the metrics of each experiment, with the most values of one in a run or rank.
        """
        where, values = where_of(**asked)
        newest = f"SELECT runs.id, runs.experiment, runs.config FROM runs {where} ORDER BY runs.id DESC LIMIT {NEWEST}"
        settings = self.db.rows(
            f"SELECT key, count(DISTINCT value) AS n FROM ({newest}) AS newest, json_each(newest.config) "
            "WHERE value IS NOT NULL GROUP BY key",
            values,
        )
        metrics: dict[str, dict[str, int]] = {}
        for row in self.db.rows(
            f"SELECT experiment, name, max(count + nonfinite) AS most FROM ({newest}) AS newest "
            "JOIN metrics ON run_id = newest.id GROUP BY experiment, name",
            values,
        ):
            metrics.setdefault(row["experiment"], {})[row["name"]] = row["most"]
        return {row["key"]: row["n"] for row in settings}, metrics

    def ids_of(self, matching: Filter) -> list[int]:
        """Return the ids of all runs that match a filter, oldest first."""
        where, values = where_of(matching=matching)
        return self.db.column(f"SELECT runs.id FROM runs {where} ORDER BY runs.id", values)

    def newest(self, matching: Filter) -> int | None:
        """Return the newest run that matches a filter, None if none does; archived ones count only if it asks for
        them.
        """
        where, values = where_of(matching=matching, archived=None if matching.mentions("archived") else False)
        return next(
            iter(self.db.column(f"SELECT runs.id FROM runs {where} ORDER BY runs.id DESC LIMIT 1", values)), None
        )

    def began_at(self) -> str | None:
        """Return the queueing time of the oldest run; None without runs."""
        row = self.db.row("SELECT created_at FROM runs ORDER BY id LIMIT 1")
        return str(row["created_at"]) if row else None

    def owners(self) -> list[str]:
        """Return the owners of runs."""
        return self.db.column("SELECT DISTINCT owner FROM runs ORDER BY sort_key(owner)")

    def experiments(self) -> list[str]:
        """Return the experiments of runs, including unregistered ones."""
        return self.db.column("SELECT DISTINCT experiment FROM runs ORDER BY experiment")

    def token(self, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all; 0 where there is none."""
        which, values = ("", []) if run_id is None else (" WHERE id = ?", [run_id])
        return self.db.number(f"SELECT max(version) FROM runs{which}", values)

    def resumed_as(self, run_id: int) -> list[int]:
        """Return the runs that resume this one, oldest first."""
        return self.db.column("SELECT id FROM runs WHERE parent_id = ? AND resumes ORDER BY id", [run_id])

    def retried_as(self, run_id: int) -> list[int]:
        """Return the runs that repeat this one from the start, oldest first."""
        return self.db.column("SELECT id FROM runs WHERE parent_id = ? AND NOT resumes ORDER BY id", [run_id])

    def cloned_from(self, run_id: int) -> int | None:
        """Return the run whose settings this one began with, also one that was deleted; None without one."""
        return next(iter(self.db.column("SELECT origin FROM clones WHERE run_id = ?", [run_id])), None)

    def clones_among(self, run_ids: Sequence[int]) -> dict[int, int]:
        """Return those of the runs that are clones, each with the run that it began as."""
        marks = ", ".join("?" * len(run_ids))
        rows = self.db.rows(f"SELECT run_id, origin FROM clones WHERE run_id IN ({marks})", run_ids)
        return {row["run_id"]: row["origin"] for row in rows}

    def cloned_as(self, run_id: int) -> list[int]:
        """Return the runs that began with the settings of this one, oldest first."""
        return self.db.column("SELECT run_id FROM clones WHERE origin = ? ORDER BY run_id", [run_id])

    def chain(self, run_id: int) -> list[tuple[int, Status]]:
        """Return the run with its ancestors and descendants, oldest first, each with its status."""
        with self.db.as_store_errors():
            return [(row["id"], row["status"]) for row in self.db.connection.execute(_CHAIN, {"run": run_id})]

    def family(self, run_id: int, limit: int) -> list[Kin]:
        """Return the run with all that it came of and all that came of those, oldest first."""
        return self.db.records(Kin, _FAMILY, [run_id, limit])

    def config(self, run_id: int) -> dict[str, Any] | None:
        """Return a config that exceeds the run's row, of any length; None for any other."""
        row = self.db.row("SELECT config FROM long_configs WHERE run_id = ?", [run_id])
        return dict(json.loads(row["config"])) if row else None

    def statuses(self) -> dict[int, Status]:
        """Return the status of each run by its id."""
        return {row["id"]: row["status"] for row in self.db.rows("SELECT id, status FROM runs")}

    def _behind(self, order: SortOrder, asked: RunConditions) -> Sql:
        """Return the WHERE clause of all conditions, with `before` as a place in an order."""
        before = asked.pop("before", None)
        where, values = where_of(**asked)
        if before is None:
            return where, values
        if not self.db.exists("SELECT 1 FROM runs WHERE id = ?", [before]):
            raise self.db.no_such_run(before)
        later, given = behind(sorted_by(order.field), order.descending, "runs", before)
        return f"{where} {'AND' if where else 'WHERE'} {later}", [*values, *given]

    def _rows_of(self, run_ids: Sequence[int]) -> list[RunRow]:
        """Return the existing runs of these ids, in this order, within a snapshot."""
        rows = self.db.rows(f"{RUN_ROW} WHERE runs.id IN (SELECT value FROM json_each(?))", [json.dumps(list(run_ids))])
        by_id = {run.id: run for run in self.with_numbers(rows)}
        return [by_id[run_id] for run_id in run_ids if run_id in by_id]

    def with_numbers(self, rows: Sequence[Row]) -> list[RunRow]:
        """Return rows of `RUN_ROW` as records, with the numbers of each run's metrics."""
        numbers = self._numbers([row["id"] for row in rows])
        above = disturbed_above(self.db.home)
        settings = settings_of(self.db, {row["script_key"] for row in rows})
        return [
            as_run_row(row, *numbers.get(row["id"], _no_numbers()), above, settings.get(row["script_key"], {}))
            for row in rows
        ]

    def _numbers(self, run_ids: Sequence[int]) -> dict[int, _Numbers]:
        """Return last, best (or extremes) and mean of each metric of each run, and the numbers of values that some have
        or that are not finite, from the summary rows alone.
        """
        found: dict[int, _Numbers] = {}
        for row in self.db.rows(NUMBERS, [json.dumps(run_ids)]):
            last, best, mean, extremes, counts, nonfinite, single = found.setdefault(row["run_id"], _no_numbers())
            if row["name"] in (LOSS, EPISODES):
                counts[row["name"]] = row["count"]
            if row["nonfinite"]:
                nonfinite[row["name"]] = row["nonfinite"]
            if row["most"] == 1:
                single.add(row["name"])
            if row["last"] is not None:
                last[row["name"]] = row["last"]
            if (value := best_of(row["name"], row["low"], row["high"])) is not None:
                best[row["name"]] = value
            if row["low"] is not None and (value is None or row["name"] not in METRICS):  # whose name only suggests one
                extremes[0][row["name"]], extremes[1][row["name"]] = row["low"], row["high"]
            if row["mean"] is not None:
                mean[row["name"]] = row["mean"]
        return found


def _no_numbers() -> _Numbers:
    return {}, {}, {}, ({}, {}), {}, {}, set()


def where_of(**asked: Unpack[RunConditions]) -> Sql:
    """Return the WHERE clause of all conditions, empty without conditions."""
    parts: list[str] = []
    values: list[Any] = []
    if (statuses := asked.get("statuses")) is not None:
        parts.append(f"runs.status IN ({', '.join('?' * len(statuses))})")
        values += statuses
    for name, sql in _CONDITIONS.items():
        if (wanted := asked.get(name)) is not None:
            parts.append(sql)
            values.append(wanted)
    if (archived := asked.get("archived")) is not None:
        parts.append(f"runs.archived_by IS {'NOT ' if archived else ''}NULL")
    if names := asked.get("without_exercises"):
        parts.append(NOT_OF_EXERCISES)
        values.append(json.dumps([*names]))
    matching = asked.get("matching")
    for part, given in [*map(_has, asked.get("search", "").split()), *([condition(matching)] if matching else [])]:
        parts.append(part)
        values += given
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _has(word: str) -> Sql:
    """Return the condition that a run's texts contain a word literally: % and _ are not patterns."""
    like = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    texts = [f"{text} LIKE ? ESCAPE '\\'" for text in ("runs.name", "runs.owner", "runs.experiment", "runs.preset")]
    texts += [
        f"EXISTS (SELECT 1 FROM {table} WHERE run_id = runs.id AND {text} LIKE ? ESCAPE '\\')"
        for table, text in (("tags", "tag"), ("notes", "text"))
    ]
    return f"({' OR '.join(texts)} OR runs.id = ?)", [like] * len(texts) + [word.removeprefix("#")]
