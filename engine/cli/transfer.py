"""`export`: runs for other programs, as a row per point or per run, or whole as a bundle for another store."""

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click

from engine.cli.answers import plain, print_json
from engine.cli.frame import owner_option
from engine.cli.show import in_full
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Reader
from engine.store.records import ENDED, RunRow
from engine.transfer.run_tables import COLUMNS, Cells, point_rows, points_table, runs_table, series_of
from engine.transfer.tables import BOM, FORMATS, Table, as_parquet, complete_file, write_csv
from engine.umask import given


@click.command("export")
@click.argument("run_ids", metavar="[ID]...", type=int, nargs=-1)
@click.option(
    "--sweep",
    "sweep_ids",
    metavar="ID",
    type=int,
    multiple=True,
    help="All runs of this sweep that have ended; repeatable.",
)
@click.option(
    "--duel",
    "duel_ids",
    metavar="ID",
    type=int,
    multiple=True,
    help="All runs of this duel that have ended; repeatable.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["bundle", "csv", "json", "parquet"]),
    help=(
        "bundle: whole runs for another store; csv, json, parquet: a table (see --rows). Default: from the file's "
        "suffix."
    ),
)
@click.option(
    "--rows",
    type=click.Choice(["point", "run"]),
    default="point",
    show_default=True,
    help=(
        "Of a table: one row per point (of json: whole runs), or one per run with its settings, results, work, times "
        "and disturbance."
    ),
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Only this metric, such as train/loss; repeatable. Only for points.",
)
@click.option(
    "--output",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file; without one, CSV and JSON go to standard output.",
)
@owner_option
@click.option("--json", "as_json", is_flag=True, help="With --out: print a summary as JSON.")
def export_command(
    run_ids: Sequence[int],
    sweep_ids: Sequence[int],
    duel_ids: Sequence[int],
    kind: str | None,
    rows: str,
    metrics: Sequence[str],
    output: Path | None,
    owner: str,
    as_json: bool,
) -> None:
    """Export one or more runs: whole, as a bundle for the import command of another store, or as a table.

    A bundle (a .zip) holds runs that have ended, with config, environment, curves, phases, spans, histograms, events,
    tags, notes and logs, and their sweeps, but no checkpoints. Points of the whole run have an empty rank. NaN and
    infinities are kept: nan, inf and -inf in CSV, "NaN", "Infinity" and "-Infinity" in JSON. A CSV file begins with the
    mark by which spreadsheets recognize UTF-8; standard output has none.
    """
    kind = kind or _kind_of(output)
    if not (run_ids or sweep_ids or duel_ids):
        raise _refused("runs", "Nothing to export: give the ids of runs, or --sweep or --duel with an id.")
    if output is None and kind in ("bundle", "parquet"):
        suffix = ".zip" if kind == "bundle" else ".parquet"
        raise _refused("out", f"A {kind} is binary and needs a file: add --out runs{suffix}.")
    if metrics and (kind == "bundle" or rows == "run"):
        what = "a bundle, which holds whole runs" if kind == "bundle" else "--rows run, which has all metrics"
        raise _refused("metric", f"--metric doesn't apply to {what}. Omit it, or export points.")
    if kind == "bundle" and rows == "run":
        raise _refused(
            "rows", "--rows doesn't apply to a bundle, which holds whole runs. Omit it, or choose another --format."
        )
    with Reader.open(Home.find()) as reader:
        for run_id in run_ids:
            reader.runs.one(run_id)  # a wrong id must write nothing
        run_ids = list(dict.fromkeys([*run_ids, *_ended_of(reader, sweep_ids, duel_ids)]))
        in_rows = _in_rows(reader, run_ids, duel_ids) if rows == "run" else None
        if output is None:
            _write(reader, run_ids, kind, metrics, in_rows, sys.stdout)
            return
        with given():
            written = _write_file(reader, run_ids, kind, metrics, in_rows, output, owner)
    if as_json:
        print_json({"path": str(output), "runs": len(run_ids), "rows" if in_rows else "points": written})
    elif in_rows:
        click.echo(f"{_of_runs(run_ids)} written to {output}.")
    else:
        click.echo(f"{written:,} points of {_of_runs(run_ids)} written to {output}.")


def _refused(field: str, sentence: str) -> ConfigError:
    return ConfigError([Problem(field, sentence)])


def _of_runs(run_ids: Sequence[int]) -> str:
    return f"{len(run_ids)} run{'s' if len(run_ids) > 1 else ''}"


def _ended_of(reader: Reader, sweep_ids: Sequence[int], duel_ids: Sequence[int]) -> Iterator[int]:
    """Yield the ended runs of sweeps and duels; raises NoSuchSweep, NoSuchDuel, or ConfigError for one without any."""
    for kind, whole_id in [*(("sweep", one) for one in sweep_ids), *(("duel", one) for one in duel_ids)]:
        if kind == "sweep":
            reader.sweeps.one(whole_id)
            runs: Sequence[RunRow] = reader.sweeps.runs(whole_id)
        else:
            reader.duels.one(whole_id)
            runs = [run for own in reader.duels.runs(whole_id).values() for run in own]
        ended = [run.id for run in runs if run.status in ENDED]
        if not ended:
            raise _refused(
                kind, f"Nothing to export: no run of {kind} {whole_id} has ended yet. Wait for the first one."
            )
        yield from ended


def _in_rows(reader: Reader, run_ids: Sequence[int], duel_ids: Sequence[int]) -> Table:
    """Return a row per run; those of duels with their strategies and results within the budget."""
    about: dict[int, Cells] = {}
    for duel_id in duel_ids:
        from engine.duel.evidence import about_runs, gather  # imports statistics

        about |= about_runs(gather(reader, duel_id))
    return runs_table(reader, reader.runs.some(run_ids), about)


def _kind_of(output: Path | None) -> str:
    """Return the format for a file's suffix; raises ConfigError for an unknown one."""
    kinds = {".zip": "bundle", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
    if output is None or output.suffix.lower() not in kinds:
        raise _refused(
            "format",
            "Unknown format: give --format csv, json, parquet or bundle, or --out with a name that ends in .zip, .csv, "
            ".json or .parquet.",
        )
    return kinds[output.suffix.lower()]


def _write_file(
    reader: Reader,
    run_ids: Sequence[int],
    kind: str,
    metrics: Sequence[str],
    in_rows: Table | None,
    output: Path,
    owner: str,
) -> int:
    if kind == "bundle":
        from engine.transfer.bundles.bundle import write_bundle

        return write_bundle(reader, run_ids, output, by=owner)
    if kind == "parquet":
        table = in_rows or points_table(reader, run_ids, metrics)
        with complete_file(output) as file:
            file.write(as_parquet(table))
        return len(table.rows)
    with complete_file(output) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        if kind == "csv":
            text.write(BOM)
        written = _write(reader, run_ids, kind, metrics, in_rows, text)
        text.detach()  # writes the rest
    return written


def _write(
    reader: Reader, run_ids: Sequence[int], kind: str, metrics: Sequence[str], in_rows: Table | None, file: IO[str]
) -> int:
    """Write CSV or JSON and return the number of rows; points one run after the other, as they may be many."""
    if in_rows:
        file.write(FORMATS[kind].write(in_rows).decode().removeprefix(BOM))
        return len(in_rows.rows)
    if kind == "csv":
        return write_csv(COLUMNS, (row for run_id in run_ids for row in point_rows(reader, run_id, metrics)), file)
    return _write_json(reader, run_ids, metrics, file)


def _write_json(reader: Reader, run_ids: Sequence[int], metrics: Sequence[str], file: IO[str]) -> int:
    import json

    points = 0
    for number, run_id in enumerate(run_ids):
        found = list(series_of(reader, run_id, metrics))
        points += sum(series.total for series in found)
        whole: dict[str, Any] = {**in_full(reader, run_id), "series": plain(found)}
        file.write(("[" if number == 0 else ",\n") + json.dumps(whole, allow_nan=False, ensure_ascii=False))
    file.write("]\n")
    return points
