"""Lists of runs: filtered, searched, each with last and best of its metrics. Never reads a metric point, whatever the
length of a run.
"""

import json
from collections.abc import Sequence
from typing import Any

from engine.errors import FilterError
from engine.filter import Field, Filter, Names, SortOrder, read_filter, read_order
from engine.store.connection import Reading, Row
from engine.store.matching import condition
from engine.store.numbers import OF, Sql, number_of, order_of, side
from engine.store.records import RunRow, Status
from engine.store.rows import RUN_ROW, as_run_row, best_of

NUMBERS = f"""
SELECT run_id, name, {OF["last"]} AS last, {OF["min"]} AS low, {OF["max"]} AS high, {OF["mean"]} AS mean
FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)) GROUP BY run_id, name
"""
"""The whole run's number where it has one, else what stands for its ranks (`numbers.OF`)."""

_Numbers = tuple[dict[str, float], dict[str, float], dict[str, float]]


class Listing(Reading):
    """The questions of the runs and results pages."""

    def runs(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        experiment: str | None = None,
        owner: str | None = None,
        sweep: int | None = None,
        search: str = "",
        matching: Filter | None = None,
        archived: bool | None = None,
        order: SortOrder | None = None,
        before: int | None = None,
        limit: int = 500,
        offset: int = 0,
    ) -> list[RunRow]:
        """Return runs, newest first or in another order; those older than run `before` where asked.

        Each word of `search` has to be in the name, owner, experiment, preset, a tag or the note, or be the id.
        `archived` asks for archived runs alone (True) or leaves them out (False); by default both are there.
        """
        where, values = where_of(statuses, experiment, owner, sweep, search, matching, archived, before)
        by, bound = order_of(order)
        with self.snapshot():
            # First the ids, so that sorting carries nothing long along.
            found = self.rows(
                f"SELECT runs.id FROM runs {where} ORDER BY {by} LIMIT ? OFFSET ?", [*values, *bound, limit, offset]
            )
            return self._rows_of([row["id"] for row in found])

    def some(self, run_ids: Sequence[int]) -> list[RunRow]:
        """Return the runs of these ids that are there, in this order."""
        with self.snapshot():
            return self._rows_of(run_ids)

    def pinned(self) -> dict[str, RunRow]:
        """Return the baseline of each experiment that has one."""
        with self.snapshot():
            return {
                row.experiment: row
                for row in self._rows_of(
                    [row["id"] for row in self.rows("SELECT id FROM runs WHERE pinned_by IS NOT NULL ORDER BY id")]
                )
            }

    def entry(self, run_id: int) -> RunRow:
        """Return one run as a list shows it; raises NoSuchRun."""
        with self.snapshot():
            row = self.row(f"{RUN_ROW} WHERE runs.id = ?", [run_id])
            if row is None:
                raise self.no_such_run(run_id)
            return self._with_numbers([row])[0]

    def count(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        experiment: str | None = None,
        owner: str | None = None,
        sweep: int | None = None,
        search: str = "",
        matching: Filter | None = None,
        archived: bool | None = None,
    ) -> int:
        """Return how many runs match."""
        where, values = where_of(statuses, experiment, owner, sweep, search, matching, archived)
        row = self.row(f"SELECT count(*) AS n FROM runs {where}", values)
        return int(row["n"]) if row else 0

    def run_ids_of(self, matching: Filter) -> list[int]:
        """Return the ids of all runs that a filter finds, oldest first."""
        where, values = where_of(matching=matching)
        return [row["id"] for row in self.rows(f"SELECT runs.id FROM runs {where} ORDER BY runs.id", values)]

    def began_at(self) -> str | None:
        """Return when the oldest run was queued; None where there is none."""
        row = self.row("SELECT created_at FROM runs ORDER BY id LIMIT 1")
        return str(row["created_at"]) if row else None

    def owners(self) -> list[str]:
        """Return the names that own runs."""
        return [row["owner"] for row in self.rows("SELECT DISTINCT owner FROM runs ORDER BY owner")]

    def experiments(self) -> list[str]:
        """Return the experiments that runs are of, those that no registry has among them."""
        return [row["experiment"] for row in self.rows("SELECT DISTINCT experiment FROM runs ORDER BY experiment")]

    def names(self) -> Names:
        """Return the settings, metrics and experiments that the store's runs have, beside those of this version."""
        with self.snapshot():
            settings = [row[0] for row in self.rows("SELECT DISTINCT key FROM runs, json_each(runs.config)")]
            experiments = frozenset(row[0] for row in self.rows("SELECT DISTINCT experiment FROM runs"))
            return Names.usual() | Names(dict.fromkeys(settings, "any"), frozenset(self.metric_names()), experiments)

    def metric_names(self) -> list[str]:
        """Return the names of all metrics that any run has recorded."""
        return [row[0] for row in self.rows("SELECT DISTINCT name FROM metrics ORDER BY name")]

    def filter(self, text: str) -> Filter:
        """Return the filter that a text stands for, which may name what only this store has. Raises FilterError."""
        try:
            return read_filter(text)
        except FilterError:
            return read_filter(text, self.names())

    def order(self, text: str) -> SortOrder:
        """Return the order that a text stands for, such as `-test/accuracy.best`. Raises FilterError."""
        try:
            return read_order(text)
        except FilterError:
            return read_order(text, self.names())

    def values(self, run_ids: Sequence[int], field: Field) -> dict[int, float]:
        """Return a field that is a number for each of the runs that has it; a metric's from the summary rows alone."""
        number, bound = number_of(field)
        sql = f"SELECT runs.id, {number} AS number FROM runs WHERE runs.id IN (SELECT value FROM json_each(?))"
        return {
            row["id"]: row["number"]
            for row in self.rows(sql, [*bound, json.dumps(list(run_ids))])
            if row["number"] is not None
        }

    def values_of(self, run_ids: Sequence[int], fields: Sequence[Field]) -> dict[Field, dict[int, float]]:
        """Return several fields that are numbers, as `values` does, those of one metric in one question."""
        found: dict[Field, dict[int, float]] = {field: {} for field in fields}
        ids = json.dumps(list(run_ids))
        for name in dict.fromkeys(field.name for field in fields if field.source == "metric"):
            of_it = [field for field in found if field.source == "metric" and field.name == name]
            numbers = ", ".join(OF[side(name, field.of)] for field in of_it)
            sql = (
                f"SELECT run_id, {numbers} FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)) AND name "
                "= ? GROUP BY run_id"
            )
            with self.told():
                cursor = self.connection.cursor()
                cursor.row_factory = None
                for run_id, *values in cursor.execute(sql, [ids, name]):
                    for field, value in zip(of_it, values, strict=True):
                        if value is not None:
                            found[field][run_id] = value
        return found | {field: self.values(run_ids, field) for field in fields if field.source != "metric"}

    def _rows_of(self, run_ids: Sequence[int]) -> list[RunRow]:
        """Return the runs of these ids that are there, in this order, inside a snapshot."""
        rows = self.rows(f"{RUN_ROW} WHERE runs.id IN (SELECT value FROM json_each(?))", [json.dumps(list(run_ids))])
        by_id = {run.id: run for run in self._with_numbers(rows)}
        return [by_id[run_id] for run_id in run_ids if run_id in by_id]

    def _with_numbers(self, rows: Sequence[Row]) -> list[RunRow]:
        """Return rows of `RUN_ROW` as records, with the numbers of each run's metrics."""
        numbers = self._numbers([row["id"] for row in rows])
        return [as_run_row(row, *numbers.get(row["id"], ({}, {}, {}))) for row in rows]

    def _numbers(self, run_ids: Sequence[int]) -> dict[int, _Numbers]:
        """Return last, best and mean of each metric of each run, from the summary rows alone."""
        found: dict[int, _Numbers] = {}
        for row in self.rows(NUMBERS, [json.dumps(run_ids)]):
            last, best, mean = found.setdefault(row["run_id"], ({}, {}, {}))
            if row["last"] is not None:
                last[row["name"]] = row["last"]
            if (value := best_of(row["name"], row["low"], row["high"])) is not None:
                best[row["name"]] = value
            if row["mean"] is not None:
                mean[row["name"]] = row["mean"]
        return found


def where_of(
    statuses: Sequence[Status] | None = None,
    experiment: str | None = None,
    owner: str | None = None,
    sweep: int | None = None,
    search: str = "",
    matching: Filter | None = None,
    archived: bool | None = None,
    before: int | None = None,
) -> Sql:
    """Return the WHERE of all that is asked of runs, empty where nothing is."""
    parts: list[str] = []
    values: list[Any] = []
    if statuses is not None:
        parts.append(f"runs.status IN ({', '.join('?' * len(statuses))})")
        values += statuses
    for column, wanted in (("experiment", experiment), ("owner", owner), ("sweep_id", sweep)):
        if wanted is not None:
            parts.append(f"runs.{column} = ?")
            values.append(wanted)
    if before is not None:
        parts.append("runs.id < ?")
        values.append(before)
    if archived is not None:
        parts.append(f"runs.archived_by IS {'NOT ' if archived else ''}NULL")
    for part, given in [*map(_has, search.split()), *([condition(matching)] if matching else [])]:
        parts.append(part)
        values += given
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _has(word: str) -> Sql:
    """Return the condition that a run has a word somewhere in its texts, taken as it stands: % and _ are no
    patterns.
    """
    like = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    texts = [f"{text} LIKE ? ESCAPE '\\'" for text in ("runs.name", "runs.owner", "runs.experiment", "runs.preset")]
    texts += [
        f"EXISTS (SELECT 1 FROM {table} WHERE run_id = runs.id AND {text} LIKE ? ESCAPE '\\')"
        for table, text in (("tags", "tag"), ("notes", "text"))
    ]
    return f"({' OR '.join(texts)} OR runs.id = ?)", [like] * len(texts) + [word.removeprefix("#")]
