"""`export`: all points of runs for other programs, or whole runs as a bundle for another store."""

import csv
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
from engine.store.records import ENDED
from engine.transfer.point_rows import COLUMNS, point_rows, points_table, series_of
from engine.transfer.tables import as_parquet, safe_cell
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
    "--format",
    "kind",
    type=click.Choice(["bundle", "csv", "json", "parquet"]),
    help=(
        "bundle: whole runs for another store; csv, parquet: one row per point; json: an array of whole "
        "runs. Default: from the file's suffix."
    ),
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Only this metric, such as train/loss; repeatable. Not for bundles.",
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
    kind: str | None,
    metrics: Sequence[str],
    output: Path | None,
    owner: str,
    as_json: bool,
) -> None:
    """Export one or more runs: whole, as a bundle for the import command of another store, or all their points.

    A bundle (a .zip) holds runs that have ended, with config, environment, curves, phases, spans, histograms, events,
    tags, notes and logs, and their sweeps, but no checkpoints. Points of the whole run have an empty rank. NaN and
    infinities are kept: nan, inf and -inf in CSV, "NaN", "Infinity" and "-Infinity" in JSON.
    """
    kind = kind or _kind_of(output)
    if not (run_ids or sweep_ids):
        raise ConfigError(
            [Problem("runs", ("Nothing to export: give the ids of runs, or --sweep with the id of a sweep."))]
        )
    if output is None and kind in ("bundle", "parquet"):
        raise ConfigError(
            [
                Problem(
                    "out",
                    (
                        f"A {kind} is binary and needs a file: add --out "
                        f"runs{'.zip' if kind == 'bundle' else '.parquet'}."
                    ),
                )
            ]
        )
    if kind == "bundle" and metrics:
        raise ConfigError(
            [
                Problem(
                    "metric",
                    (
                        "--metric doesn't apply to a bundle, which holds whole runs. Omit it, or choose "
                        "another --format."
                    ),
                )
            ]
        )
    with Reader.open(Home.find()) as reader:
        for run_id in run_ids:
            reader.runs.one(run_id)  # a wrong id must write nothing
        run_ids = list(dict.fromkeys([*run_ids, *_ended_of(reader, sweep_ids)]))
        if output is None:
            _write(reader, run_ids, kind, metrics, sys.stdout)
            return
        with given():
            points = _write_file(reader, run_ids, kind, metrics, output, owner)
    if as_json:
        print_json({"path": str(output), "runs": len(set(run_ids)), "points": points})
    else:
        click.echo(f"{points:,} points of {len(run_ids)} run{'s' if len(run_ids) > 1 else ''} written to {output}.")


def _ended_of(reader: Reader, sweep_ids: Sequence[int]) -> Iterator[int]:
    """Yield the ended runs of sweeps; raises NoSuchSweep, or ConfigError for a sweep without any."""
    for sweep_id in sweep_ids:
        reader.sweeps.one(sweep_id)
        ended = [run.id for run in reader.sweeps.runs(sweep_id) if run.status in ENDED]
        if not ended:
            raise ConfigError(
                [
                    Problem(
                        "sweep",
                        (f"Nothing to export: no run of sweep {sweep_id} has ended yet. Wait for the first one."),
                    )
                ]
            )
        yield from ended


def _kind_of(output: Path | None) -> str:
    """Return the format for a file's suffix; raises ConfigError for an unknown one."""
    kinds = {".zip": "bundle", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
    if output is None or output.suffix.lower() not in kinds:
        raise ConfigError(
            [
                Problem(
                    "format",
                    (
                        "Unknown format: give --format csv, json, parquet or bundle, or --out with a name that ends "
                        "in .zip, .csv, .json or .parquet."
                    ),
                )
            ]
        )
    return kinds[output.suffix.lower()]


def _write_file(
    reader: Reader, run_ids: Sequence[int], kind: str, metrics: Sequence[str], output: Path, owner: str
) -> int:
    if kind == "bundle":
        from engine.transfer.bundles.bundle import write_bundle

        return write_bundle(reader, run_ids, output, by=owner)
    if kind == "parquet":
        table = points_table(reader, run_ids, metrics)
        output.write_bytes(as_parquet(table))
        return len(table.rows)
    with output.open("w", newline="") as file:
        return _write(reader, run_ids, kind, metrics, file)


def _write(reader: Reader, run_ids: Sequence[int], kind: str, metrics: Sequence[str], file: IO[str]) -> int:
    return _write_csv(reader, run_ids, metrics, file) if kind == "csv" else _write_json(reader, run_ids, metrics, file)


def _write_csv(reader: Reader, run_ids: Sequence[int], metrics: Sequence[str], file: IO[str]) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    points = 0
    for run_id in run_ids:
        for row in point_rows(reader, run_id, metrics):
            writer.writerow(map(safe_cell, row))
            points += 1
    return points


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
