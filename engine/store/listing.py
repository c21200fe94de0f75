"""Lists of runs: filtered, searched, each with last and best of its metrics. Never reads a metric point, whatever the length of a run."""

import json
from collections.abc import Sequence
from typing import Any

from engine.store.connection import Reading, Row
from engine.store.records import RunRow, Status
from engine.store.rows import RUN_ROW, as_run_row, best_of

NUMBERS = """
SELECT run_id, name,
    coalesce(max(last) FILTER (WHERE rank IS NULL), avg(last)) AS last,
    coalesce(max(low) FILTER (WHERE rank IS NULL), min(low)) AS low,
    coalesce(max(high) FILTER (WHERE rank IS NULL), max(high)) AS high,
    coalesce(max(mean) FILTER (WHERE rank IS NULL), sum(mean * count) / sum(count)) AS mean
FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)) GROUP BY run_id, name
"""
"""The whole run's number where it has one, else the mean (last, and mean by count) or the extreme (low, high) over its ranks."""

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
        limit: int = 500,
        offset: int = 0,
    ) -> list[RunRow]:
        """Return runs newest first; each word of `search` has to be in the name, owner, experiment, preset, a tag or the note, or be the id."""
        where, values = _where(statuses, experiment, owner, sweep, search)
        with self.snapshot():
            rows = self.rows(f"{RUN_ROW} {where} ORDER BY runs.id DESC LIMIT ? OFFSET ?", [*values, limit, offset])
            return self._with_numbers(rows)

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
    ) -> int:
        """Return how many runs match."""
        where, values = _where(statuses, experiment, owner, sweep, search)
        row = self.row(f"SELECT count(*) AS n FROM runs {where}", values)
        return int(row["n"]) if row else 0

    def some_runs(self, run_ids: Sequence[int]) -> list[RunRow]:
        """Return runs by their ids, in the order of ids; those that are gone are left out."""
        with self.snapshot():
            return self._with_numbers(self.rows(f"{RUN_ROW} WHERE runs.id IN (SELECT value FROM json_each(?)) ORDER BY runs.id", [json.dumps(list(run_ids))]))

    def began_at(self) -> str | None:
        """Return when the oldest run was queued; None where there is none."""
        row = self.row("SELECT created_at FROM runs ORDER BY id LIMIT 1")
        return str(row["created_at"]) if row else None

    def owners(self) -> list[str]:
        """Return the names that own runs."""
        return [row["owner"] for row in self.rows("SELECT DISTINCT owner FROM runs ORDER BY owner")]

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


def _where(statuses: Sequence[Status] | None, experiment: str | None, owner: str | None, sweep: int | None, search: str) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    if statuses is not None:
        parts.append(f"runs.status IN ({', '.join('?' * len(statuses))})")
        values += statuses
    for column, wanted in (("experiment", experiment), ("owner", owner), ("sweep_id", sweep)):
        if wanted is not None:
            parts.append(f"runs.{column} = ?")
            values.append(wanted)
    for word in search.split():
        part, given = _has(word)
        parts.append(part)
        values += given
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _has(word: str) -> tuple[str, list[str]]:
    """Return the condition that a run has a word somewhere in its texts, taken as it stands: % and _ are no patterns."""
    like = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    texts = [f"{text} LIKE ? ESCAPE '\\'" for text in ("runs.name", "runs.owner", "runs.experiment", "runs.preset")]
    texts += [f"EXISTS (SELECT 1 FROM {table} WHERE run_id = runs.id AND {text} LIKE ? ESCAPE '\\')" for table, text in (("tags", "tag"), ("notes", "text"))]
    return f"({' OR '.join(texts)} OR runs.id = ?)", [like] * len(texts) + [word.removeprefix("#")]
