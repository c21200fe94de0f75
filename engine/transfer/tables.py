"""Tables as CSV, JSON or Parquet (the only place that writes CSV), and runs as such tables."""

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from engine.analysis.differences import flattened
from engine.analysis.result import ranked
from engine.analysis.run_values import EXECUTION, STARTUP, metric_among, metric_names, ways
from engine.analysis.total_work import work_of
from engine.errors import OutputFailed
from engine.metrics import as_set
from engine.store import Reader, Surroundings
from engine.store.curve_records import Series
from engine.store.records import RunRow
from engine.store.schema.config_text import LEFT_OUT

# ---- Tables as CSV, JSON or Parquet: the only place that writes CSV ------------------------------------------------
# User text may start like a formula; in CSV such text gets a leading apostrophe, so that spreadsheets don't
# evaluate it.

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula in spreadsheets, in both widths."""
BOM = "\ufeff"
"""Begins a CSV file: without it, Excel reads UTF-8 as the code page of its country."""


@dataclass(frozen=True)
class Table:
    """Rows with named columns; a cell is a number, text, boolean or date, a list of these, or None if empty."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> "Table":
        """Return the table with duplicate column names numbered: a, a (2)."""
        named: list[str] = []
        for name in columns:
            alike = sum(other == name or other.startswith(f"{name} (") for other in named)
            named.append(name if name not in named else f"{name} ({alike + 1})")
        return cls(tuple(named), [list(row) for row in rows])


@dataclass(frozen=True)
class Format:
    """One export format."""

    label: str
    suffix: str
    mime: str
    write: Callable[[Table], bytes]


@contextmanager
def complete_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that a person named, under a temporary name until it is complete; a device or pipe directly. Raises
    OutputFailed if it can't be written.
    """
    part = path
    try:
        if not path.exists() or path.is_file():
            part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            yield file
            file.flush()
            if part != path:
                os.fsync(file.fileno())
        if part != path:
            part.replace(path)
    except OSError as error:
        if error.filename not in (None, str(part)):
            raise
        sentence = (
            f"{path} can't be written: {error.strerror or error}. Choose another file, or free space on its disk."
        )
        raise OutputFailed(sentence) from error
    finally:
        if part != path:
            with suppress(OSError):
                part.unlink()


def safe_cell(value: Any) -> Any:
    """Return a CSV cell: text that a spreadsheet would evaluate gets a leading apostrophe; numbers are unchanged."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    elif isinstance(value, Mapping):
        value = json.dumps(plain(value), ensure_ascii=False)
    elif isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str):
        return value
    value = value.replace("\r\n", "\n").replace(
        "\r", "\n"
    )  # Python's writer doesn't quote a bare \r, after which a formula could start a line
    return f"'{value}" if value.startswith(FORMULA) else value


def headed(name: str, unit: str) -> str:
    """Return a column's name with its unit: `test/accuracy.best (%)`; a name that ends in its unit keeps it."""
    return f"{name} ({unit})" if unit and not name.endswith(f"_{unit}") else name


def write_csv(columns: Iterable[str], rows: Iterable[Sequence[Any]], file: IO[str]) -> int:
    """Write CSV with a header and return the number of rows; NaN and infinities are nan, inf and -inf, None is an empty
    cell.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(safe_cell, columns))
    count = 0
    for row in rows:
        writer.writerow(map(safe_cell, row))
        count += 1
    return count


def as_csv(table: Table) -> bytes:
    """Return the table as a CSV file in UTF-8 that spreadsheets recognise (`BOM`)."""
    file = io.StringIO(newline="")
    write_csv(table.columns, table.rows, file)
    return _utf8(BOM + file.getvalue())


def as_json(table: Table) -> bytes:
    """Return the table as a JSON list of objects; NaN and infinities as strings "NaN", "Infinity" and "-Infinity"."""
    rows = [dict(zip(table.columns, map(plain, row), strict=True)) for row in table.rows]
    return _utf8(json.dumps(rows, allow_nan=False, ensure_ascii=False, indent=1) + "\n")


def as_parquet(table: Table) -> bytes:
    """Return the table as Parquet; columns of mixed types become text."""
    import pyarrow  # slow to import (0.2 s), so only on use
    from pyarrow import parquet

    cells = [_column([row[place] for row in table.rows]) for place in range(len(table.columns))]
    file = io.BytesIO()
    parquet.write_table(
        pyarrow.table([pyarrow.array(each, from_pandas=False) for each in cells], names=list(table.columns)), file
    )
    return file.getvalue()


FORMATS = {
    "csv": Format("CSV", ".csv", "text/csv", as_csv),
    "json": Format("JSON", ".json", "application/json", as_json),
    "parquet": Format("Parquet", ".parquet", "application/vnd.apache.parquet", as_parquet),
}


def plain(value: Any) -> Any:
    """Return a cell as a JSON value."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _column(cells: list[Any]) -> list[Any]:
    """Return a column's cells converted to one type, for Parquet."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float} or (kinds == {int} and any(abs(cell) >= 2**63 for cell in cells if cell is not None)):
        return [None if cell is None else float(cell) for cell in cells]
    if (len(kinds) <= 1 and kinds <= {int, float, bool}) or (kinds and all(issubclass(kind, date) for kind in kinds)):
        return cells
    if kinds and kinds <= {list, tuple}:
        return [None if cell is None else [_text(item) for item in cell] for cell in cells]
    return [None if cell is None else _text(cell) for cell in cells]


def _text(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(plain(value), ensure_ascii=False)
        if isinstance(value, Mapping | list | tuple)
        else str(value)
    )
    return text.encode("utf-8", "backslashreplace").decode()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


# ---- Runs as tables for other programs: a row per run, or a row per point ------------------------------------------
# Torch-free.

COLUMNS = ("run_id", "experiment", "metric", "unit", "rank", "role", "step", "passes", "time_s", "value")
Cells = Mapping[str, Any]
_APART = (EXECUTION, STARTUP, "perf/disturbance")
"""Metrics that are columns of their own."""
_OF_WINDOWS = ("perf/staleness_mean", "perf/staleness_p99")
"""Metrics of which no value is of a whole run, each being of the last gradients only; `perf/staleness` is of all."""


def runs_table(reader: Reader, runs: Sequence[RunRow], about: Mapping[int, Cells] = MappingProxyType({})) -> Table:
    """Return a row per run: what it is, its times, work, disturbance and result, then all settings and all metrics
    but those of a window of gradients.

    Headings have the unit; settings have their names in filters. `about` has further cells of runs, such as the
    strategy in a duel.
    """
    around = reader.studies.surroundings([run.id for run in runs])
    facts = [{**_facts(run, around.get(run.id)), **about.get(run.id, {})} for run in runs]
    settings = [flattened(_settings(reader, run)) for run in runs]
    units = {name: metric_among(name, runs).unit for name in metric_names(runs)}
    metrics = [_metrics(run, units) for run in runs]
    columns, rows = list[str](), [list[Any]() for _ in runs]
    for part in (facts, settings, metrics):  # each apart: a setting may have the name of a fact
        names = dict.fromkeys(name for cells in part for name in cells)
        columns += names
        for row, cells in zip(rows, part, strict=True):
            row += [cells.get(name) for name in names]
    return Table.of(columns, rows)


def points_table(reader: Reader, run_ids: Sequence[int], metrics: Sequence[str] = ()) -> Table:
    """Return all points of runs, for the given metrics (default: all)."""
    return Table(COLUMNS, [row for run_id in run_ids for row in point_rows(reader, run_id, metrics)])


def point_rows(reader: Reader, run_id: int, metrics: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the points of a run; points of the whole run have no rank and an empty role."""
    run = reader.runs.one(run_id)
    settings = reader.recipes.metric_settings(run.script_key)
    roles = {rank.rank: rank.role for rank in reader.details.ranks(run_id)}
    for series in series_of(reader, run_id, metrics):
        where = (
            run_id,
            run.experiment,
            series.metric,
            as_set(series.metric, settings).unit,
            series.rank,
            "" if series.rank is None else roles.get(series.rank, ""),
        )
        for point in zip(series.steps, series.passes, series.times_s, series.values, strict=True):
            yield (*where, *point)


def series_of(reader: Reader, run_id: int, metrics: Sequence[str] = ()) -> Iterator[Series]:
    """Yield the series of a run, metric by metric."""
    for name in metrics or sorted({summary.metric for summary in reader.details.summaries(run_id)}):
        yield from reader.curves.series(run_id, [name])


def _facts(run: RunRow, around: Surroundings | None) -> dict[str, Any]:
    work, result = work_of(run, around), ranked(run)
    return {
        "run": run.id,
        "name": run.name,
        "experiment": run.experiment,
        "preset": run.preset,
        "owner": run.owner,
        "status": run.status,
        "cause": run.cause,
        "sweep": run.sweep_id,
        "tags": list(run.tags),
        "cluster": run.target or None,
        "host": around.host if around else None,
        "git_commit": around.commit if around and run.command_id is None else None,  # Parallab's, not a script's
        "launched": _time(run.created_at),
        "started": _time(run.started_at),
        "ended": _time(run.ended_at),
        "execution_time_s": run.elapsed_s,
        "startup_time_s": run.startup_time_s,
        "work": work and work.amount,
        "work_unit": work and work.unit,
        "passes": work and work.passes,
        "updates": work and work.updates,
        headed("disturbance", "%"): _rounded(None if run.disturbance is None else 100 * run.disturbance, "%"),
        "disturbed": None if run.disturbance is None else run.disturbed,
        "result": result and _rounded(result.value, result.metric.unit),
        "result_metric": result and headed(f"{result.result.metric}.{result.result.of}", result.metric.unit),
    }


DECIMALS = 4
"""Of percentages in a table of runs: far more than they are exact to."""


def _rounded(value: float | None, unit: str) -> float | None:
    return round(value, DECIMALS) if unit == "%" and value is not None else value


def _metrics(run: RunRow, units: Mapping[str, str]) -> dict[str, Any]:
    """Return every statistic of the metrics, None where the run has none; the number of values that are NaN or infinite
    only where there are any.
    """
    found: dict[str, Any] = {}
    for name, unit in units.items():
        if name not in (*_APART, *_OF_WINDOWS):
            found |= {headed(f"{name}.{way}", unit): _rounded(getattr(run, way).get(name), unit) for way in ways(name)}
    return found | {f"{name}.nonfinite": count for name, count in run.nonfinite.items()}


def _settings(reader: Reader, run: RunRow) -> Mapping[str, Any]:
    """Return all settings; lists leave out those of very large configs."""
    return reader.runs.one(run.id).config if LEFT_OUT in run.config else run.config


def _time(at: str | None) -> datetime | None:
    return datetime.fromisoformat(at) if at else None
