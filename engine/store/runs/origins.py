"""Origins of imported runs, and fingerprints that identify a run in any store."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Literal

from engine.store.connection import Connection, Row

Kind = Literal["parallab", "tensorboard", "mlflow"]
UNKNOWN = "unknown"
"""The owner of a run whose program did not record one."""


@dataclass(frozen=True)
class Origin:
    """Where a run was recorded, and how it was imported."""

    kind: Kind
    host: str
    """Its machine; empty if unknown."""
    original_id: str
    owner: str
    fingerprint: str
    file: str
    imported_at: str
    imported_by: str

    @property
    def words(self) -> str:
        """Return the origin as text."""
        where = f" on {self.host}" if self.host else ""
        program = {"parallab": "run", "tensorboard": "TensorBoard's", "mlflow": "MLflow's run"}[self.kind]
        whose = "" if self.owner == UNKNOWN else f" of {self.owner}"
        return f"{program} {self.original_id}{whose}{where}, from {self.file}"


class OriginReader:
    """Queries of imports."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def of(self, run_id: int) -> Origin | None:
        """Return the origin of a run; None for a local run."""
        row = self.db.row("SELECT * FROM origins WHERE run_id = ?", [run_id])
        return as_origin(row) if row else None

    def run_of(self, fingerprint: str) -> int | None:
        """Return the imported run with a fingerprint, None if there is none."""
        row = self.db.row("SELECT run_id FROM origins WHERE fingerprint = ?", [fingerprint])
        return int(row["run_id"]) if row else None


def as_origin(row: Row) -> Origin:
    """Return a row of the origins table as a record."""
    return Origin(**{each.name: row[each.name] for each in fields(Origin)})


def fingerprint(kind: Kind, *told: object) -> str:
    """Return a fingerprint: a digest of everything that distinguishes a run from any other."""
    return sha256(
        json.dumps([kind, *told], sort_keys=True, default=str).encode("utf-8", "backslashreplace")
    ).hexdigest()


def fingerprint_of(run: Mapping[str, Any]) -> str:
    """Return the fingerprint of a local run, from its row's id, experiment, created_at, config and environment (both as
    values).
    """
    return fingerprint(
        "parallab", run["environment"].get("host", ""), run["id"], run["experiment"], run["created_at"], run["config"]
    )


def fingerprint_of_sweep(sweep: Mapping[str, Any] | Row) -> str:
    """Return the fingerprint of a sweep from its row: the imported one, otherwise a digest of the constant fields of
    its launch.
    """
    return sweep["fingerprint"] or fingerprint(
        "parallab", "sweep", sweep["id"], sweep["experiment"], sweep["created_at"], sweep["owner"]
    )
