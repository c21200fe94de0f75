"""Text, time and flag fields of runs, for columns next to their numbers."""

import json
from collections.abc import Sequence

from engine.errors import FilterError
from engine.filter import Filter, Names, read_filter, read_order
from engine.filter.tree import Field, SortOrder
from engine.metrics import is_rate
from engine.store.connection import Connection
from engine.store.runs.metric_sql import OF, number_of, side

Text = str | bool
_TAGS = "(SELECT group_concat(tag, ', ') FROM (SELECT tag FROM tags WHERE tags.run_id = runs.id ORDER BY tag))"


class FieldReader:
    """Queries of fields of runs: their names, and their values for many runs."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def names(self) -> Names:
        """Return the settings, metrics and experiments of the store's runs and of this version."""
        with self.db.snapshot():
            settings = [row[0] for row in self.db.rows("SELECT DISTINCT key FROM runs, json_each(runs.config)")]
            experiments = frozenset(row[0] for row in self.db.rows("SELECT DISTINCT experiment FROM runs"))
            return Names.usual() | Names(dict.fromkeys(settings, "any"), frozenset(self.metric_names()), experiments)

    def metric_names(self) -> list[str]:
        """Return the names of all recorded metrics."""
        of_runs = "EXISTS (SELECT 1 FROM runs WHERE id = run_id)"  # others are of an unfinished import
        return [row[0] for row in self.db.rows(f"SELECT DISTINCT name FROM metrics WHERE {of_runs} ORDER BY name")]

    def filter(self, text: str) -> Filter:
        """Parse a filter, which may use names that only this store has. Raises FilterError."""
        try:
            return read_filter(text)
        except FilterError:
            return read_filter(text, self.names())

    def order(self, text: str) -> SortOrder:
        """Parse an order, such as `-test/accuracy.best`. Raises FilterError."""
        try:
            return read_order(text)
        except FilterError:
            return read_order(text, self.names())

    def values(self, run_ids: Sequence[int], field: Field) -> dict[int, float]:
        """Return a numeric field for each run that has it; a metric's from the summary rows only."""
        number, bound = number_of(field)
        sql = f"SELECT runs.id, {number} AS number FROM runs WHERE runs.id IN (SELECT value FROM json_each(?))"
        return {
            row["id"]: row["number"]
            for row in self.db.rows(sql, [*bound, json.dumps(list(run_ids))])
            if row["number"] is not None
        }

    def values_of(self, run_ids: Sequence[int], fields: Sequence[Field]) -> dict[Field, dict[int, float]]:
        """Return several numeric fields like `values`, with one query for those of the same metric."""
        found: dict[Field, dict[int, float]] = {field: {} for field in fields}
        ids = json.dumps(list(run_ids))
        summed = [field for field in found if field.source == "metric" and not is_rate(field.name)]
        for name in dict.fromkeys(field.name for field in summed):
            of_it = [field for field in summed if field.name == name]
            numbers = ", ".join(OF[side(name, field.of)] for field in of_it)
            sql = (
                f"SELECT run_id, {numbers} FROM metrics WHERE run_id IN (SELECT value FROM json_each(?)) AND name "
                "= ? GROUP BY run_id"
            )
            with self.db.as_store_errors():
                cursor = self.db.connection.cursor()
                cursor.row_factory = None
                for run_id, *values in cursor.execute(sql, [ids, name]):
                    for field, value in zip(of_it, values, strict=True):
                        if value is not None:
                            found[field][run_id] = value
        return found | {field: self.values(run_ids, field) for field in found if field not in summed}

    def texts(self, run_ids: Sequence[int], fields: Sequence[Field]) -> dict[Field, dict[int, Text]]:
        """Return non-numeric fields of runs: times in the store's format, flags as bool; missing values are omitted."""
        if not fields:
            return {}
        parts = ", ".join(_TAGS if field.kind == "tags" else number_of(field)[0] for field in fields)
        found: dict[Field, dict[int, Text]] = {field: {} for field in fields}
        for run_id, *values in self.db.rows(
            f"SELECT runs.id, {parts} FROM runs WHERE runs.id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(run_ids))],
        ):
            for field, value in zip(fields, values, strict=True):
                if value not in (None, ""):
                    found[field][run_id] = bool(value) if field.kind == "flag" else str(value)
        return found
