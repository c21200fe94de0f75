"""MLflow's database (mlflow.db) as the files of its folder of runs, so that one reader reads both.

Another program wrote the file: it is opened read-only, its schema is not trusted, and only tables are read.

Source: the tables of MLflow's SQLAlchemy store.
"""

import io
import json
import math
import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from engine.errors import ImportRefused

MAGIC = b"SQLite format 3\0"
TABLES = frozenset({"experiments", "experiment_tags", "runs", "metrics", "params", "tags"})
_ABOUT_RUN = ("name", "user_id", "status", "start_time", "end_time", "lifecycle_stage")


class MlflowDatabase:
    """The members of a database: `EXPERIMENT/meta.yaml`, `EXPERIMENT/RUN/meta.yaml` and a run's `metrics/NAME`,
    `params/NAME` and `tags/NAME`; and `EXPERIMENT/models/MODEL/meta.yaml` of models that runs of MLflow 3 logged.
    """

    def __init__(self, connection: sqlite3.Connection, *, has_models: bool) -> None:
        self._connection = connection
        self._has_models = has_models
        self._texts: dict[str, bytes] = {}
        self._metrics: dict[str, tuple[str, str]] = {}
        """Run and metric of each member, whose lines are read when it is opened."""
        self.notes: Sequence[str] = ()
        self._list()

    @property
    def names(self) -> Collection[str]:
        """The names of its members."""
        return [*self._texts, *self._metrics]

    def size(self, name: str) -> int:
        """Return the bytes of a text; 0 for a metric, whose values are counted as they are read."""
        return len(self._texts.get(name, b""))

    def open(self, name: str) -> IO[bytes]:
        """Open a member for reading."""
        if name in self._texts:
            return io.BytesIO(self._texts[name])
        query = "SELECT timestamp, value, step, is_nan FROM metrics WHERE run_uuid = ? AND key = ? ORDER BY rowid"
        rows = self._connection.execute(query, self._metrics[name])
        return io.BytesIO(b"".join(f"{at} {_number(value, nan)} {step}\n".encode() for at, value, step, nan in rows))

    def _list(self) -> None:
        place: dict[str, str] = {}
        for experiment, name in self._rows("SELECT experiment_id, name FROM experiments"):
            self._texts[f"{experiment}/meta.yaml"] = _yaml({"name": name})
        for experiment, key, value in self._rows("SELECT experiment_id, key, value FROM experiment_tags"):
            self._texts[f"{experiment}/tags/{key}"] = _bytes(value)
        for run, experiment, *about in self._rows(f"SELECT run_uuid, experiment_id, {', '.join(_ABOUT_RUN)} FROM runs"):
            place[run] = f"{experiment}/{run}"
            named = {"run_id": run, "run_name": about[0]} | dict(zip(_ABOUT_RUN[1:], about[1:], strict=True))
            self._texts[f"{place[run]}/meta.yaml"] = _yaml(named)
        for kind in ("params", "tags"):
            for run, key, value in self._rows(f"SELECT run_uuid, key, value FROM {kind}"):
                if run in place:
                    self._texts[f"{place[run]}/{kind}/{key}"] = _bytes(value)
        models = (
            "SELECT experiment_id, model_id, name, source_run_id FROM logged_models WHERE lifecycle_stage = 'active'"
        )
        for experiment, model, name, run in self._rows(models) if self._has_models else ():
            about = {"model_id": model, "name": name, "source_run_id": run}
            self._texts[f"{experiment}/models/{model}/meta.yaml"] = _yaml(about)
        for run, key in self._rows("SELECT DISTINCT run_uuid, key FROM metrics"):
            if run in place:
                self._metrics[f"{place[run]}/metrics/{key}"] = (run, key)

    def _rows(self, query: str) -> Iterator[Any]:
        return self._connection.execute(query)


@contextmanager
def opened_database(path: Path) -> Iterator[MlflowDatabase | None]:
    """Open MLflow's database; None if the file is no SQLite database, or another program's. Raises ImportRefused if it
    is damaged or can't be read.
    """
    try:
        with path.open("rb") as file:
            is_database = file.read(len(MAGIC)) == MAGIC
        if not is_database:
            yield None
            return
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
            connection.executescript("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            yield MlflowDatabase(connection, has_models="logged_models" in found) if found >= TABLES else None
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        raise ImportRefused(
            f"{path.name} can't be read: {error}. Stop the MLflow server, then import a copy of the file."
        ) from error


def _number(value: object, is_nan: object) -> str:
    """Return a value as MLflow's files have it; its tables have the largest number for an infinity."""
    if is_nan or not isinstance(value, int | float):
        return "nan"
    return str(math.copysign(math.inf, value)) if abs(value) >= sys.float_info.max else repr(float(value))


def _yaml(values: Mapping[str, object]) -> bytes:
    """Return values as YAML, whose quoted texts are those of JSON; absent ones are left out."""
    return "".join(
        f"{name}: {json.dumps(str(value), ensure_ascii=False)}\n" for name, value in values.items() if value is not None
    ).encode()


def _bytes(value: object) -> bytes:
    return ("" if value is None else str(value)).encode("utf-8", "backslashreplace")
