"""What runs are in words, times and flags, for columns beside their numbers."""

import json
from collections.abc import Sequence

from engine.filter.tree import Field
from engine.store.connection import Connected
from engine.store.numbers import number_of

Text = str | bool
_TAGS = "(SELECT group_concat(tag, ', ') FROM (SELECT tag FROM tags WHERE tags.run_id = runs.id ORDER BY tag))"


class Texts(Connected):
    """The question about words."""

    def texts_of(self, run_ids: Sequence[int], fields: Sequence[Field]) -> dict[Field, dict[int, Text]]:
        """Return fields that every run has and that are no numbers: a time as the store writes it, a flag as a bool;
        what a run lacks is left out.
        """
        if not fields:
            return {}
        parts = ", ".join(_TAGS if field.kind == "tags" else number_of(field)[0] for field in fields)
        found: dict[Field, dict[int, Text]] = {field: {} for field in fields}
        for run_id, *values in self.rows(
            f"SELECT runs.id, {parts} FROM runs WHERE runs.id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(run_ids))],
        ):
            for field, value in zip(fields, values, strict=True):
                if value not in (None, ""):
                    found[field][run_id] = bool(value) if field.kind == "flag" else str(value)
        return found
