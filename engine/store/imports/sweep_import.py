"""Import of sweeps: create a new sweep, or add the runs to the existing one and extend its grid by their values."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.errors import ImportRefused
from engine.store.imports.bundle_tables import SWEEP, TableRows
from engine.store.runs.origins import fingerprint_of_sweep

_MADE = [name for name in SWEEP if name != "id"]
_LATER: dict[str, Any] = {"timing": "", "equal_work": ""}
"""Values of columns that older bundles lack."""
_INSERT = f"INSERT INTO sweeps ({', '.join(_MADE)}) VALUES ({', '.join('?' * len(_MADE))})"


class ArrivingSweeps:
    """The sweeps of a bundle within the transaction that imports it; sweeps without new runs are skipped.

    `may_join` returns whether runs may be added to a sweep of an owner.
    """

    def __init__(self, connection: sqlite3.Connection, may_join: Callable[[str], bool]) -> None:
        self._connection = connection
        self._may_join = may_join
        self._rows: dict[int, dict[str, Any]] = {}
        self._here: dict[int, int] = {}

    def hold(self, part: TableRows) -> None:
        """Store the rows of the bundle."""
        for row in part.rows:
            told = _LATER | dict(zip(part.columns, row, strict=True))
            self._rows[told["id"]] = told

    def here(self, old: int | None) -> int | None:
        """Return the local id of the sweep with id `old` in the bundle, None for None; raises KeyError,
        ImportRefused.
        """
        if old is None:
            return None
        if old not in self._here:
            self._here[old] = self._join(self._rows[old])
        return self._here[old]

    @property
    def ids(self) -> tuple[int, ...]:
        """Local ids of the sweeps that got runs."""
        return tuple(sorted(set(self._here.values())))

    def _join(self, told: Mapping[str, Any]) -> int:
        found = self._known(told)
        if found is None:
            made = self._connection.execute(_INSERT, [told[name] for name in _MADE]).lastrowid
            assert made is not None
            return made
        if not self._may_join(found["owner"]):
            raise ImportRefused(
                f"Sweep {told['id']} of the file is sweep {found['id']} here, owned by {found['owner']}. Ask "
                f"{found['owner']} or an admin to import it."
            )
        grid, draw = _joined(found, told)
        self._connection.execute("UPDATE sweeps SET grid = ?, draw = ? WHERE id = ?", [grid, draw, found["id"]])
        return int(found["id"])

    def _known(self, told: Mapping[str, Any]) -> sqlite3.Row | None:
        """Return the identical local sweep: imported before, or launched here and re-imported."""
        sql = (
            "SELECT * FROM sweeps WHERE fingerprint = ?1 OR (fingerprint = '' AND created_at = ?2 AND experiment = ?3)"
        )
        rows: Iterable[sqlite3.Row] = self._connection.execute(
            sql, [told["fingerprint"], told["created_at"], told["experiment"]]
        )
        return next((row for row in rows if fingerprint_of_sweep(row) == told["fingerprint"]), None)


def _joined(here: sqlite3.Row, told: Mapping[str, Any]) -> tuple[str, str]:
    """Return the merged grid and draw as JSON; raises ImportRefused if they can't be one sweep."""
    ours, theirs = json.loads(here["grid"]), json.loads(told["grid"])
    draws = [json.loads(text) for text in (here["draw"], told["draw"]) if text]
    if (
        list(ours) != list(theirs)
        or here["experiment"] != told["experiment"]
        or len(draws) == 1
        or (draws and _plan(draws[0]) != _plan(draws[1]))
    ):
        raise ImportRefused(
            f"Sweep {told['id']} of the file has the fingerprint of sweep {here['id']} here but a different plan, "
            "so it was edited. Export it again."
        )
    grid = {field: list(dict.fromkeys([*values, *theirs[field]])) for field, values in ours.items()}
    drawn = json.dumps(draws[0] | {"count": max(draw["count"] for draw in draws)}) if draws else ""
    return json.dumps(grid), drawn


def _plan(draw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in draw.items() if name != "count"}
