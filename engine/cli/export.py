"""`export`: every point of some runs, for other programs."""

import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click

from engine.cli.answers import plain, print_json
from engine.cli.show import in_full
from engine.home import Home
from engine.store import Reader
from engine.store.records import Series

COLUMNS = ("run_id", "experiment", "metric", "rank", "role", "step", "passes", "time_s", "value")


@click.command("export", short_help="Write every point of some runs as CSV or JSON.")
@click.argument("run_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--format", "kind", type=click.Choice(["csv", "json"]), required=True, help="csv: one row a point; json: an array of whole runs.")
@click.option("--metric", "metrics", multiple=True, help="Only this metric, such as train/loss; may be given often.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="With --output: answer in JSON what was written.")
def export_command(run_ids: Sequence[int], kind: str, metrics: Sequence[str], output: Path | None, as_json: bool) -> None:
    """Write all points of one run or more, none left out.

    A point of the whole run has an empty rank. NaN and infinities stay: nan, inf and -inf in CSV, "NaN", "Infinity" and "-Infinity" in JSON.
    """
    with Reader.open(Home.find()) as reader:
        for run_id in run_ids:
            reader.run(run_id)  # so that a wrong id writes nothing at all
        if output is None:
            _write(reader, run_ids, kind, metrics, sys.stdout)
            return
        with output.open("w", newline="") as file:
            points = _write(reader, run_ids, kind, metrics, file)
    if as_json:
        print_json({"path": str(output), "runs": len(run_ids), "points": points})
    else:
        click.echo(f"{points:,} points of {len(run_ids)} run{'s' if len(run_ids) > 1 else ''} written to {output}.")


def _write(reader: Reader, run_ids: Sequence[int], kind: str, metrics: Sequence[str], file: IO[str]) -> int:
    return _write_csv(reader, run_ids, metrics, file) if kind == "csv" else _write_json(reader, run_ids, metrics, file)


def _write_csv(reader: Reader, run_ids: Sequence[int], metrics: Sequence[str], file: IO[str]) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    points = 0
    for run_id in run_ids:
        experiment = reader.run(run_id).experiment
        roles = {rank.rank: rank.role for rank in reader.ranks(run_id)}
        for series in _series(reader, run_id, metrics):
            points += series.total
            where = (run_id, experiment, series.metric, series.rank, "" if series.rank is None else roles.get(series.rank, ""))
            writer.writerows((*where, *point) for point in zip(series.steps, series.passes, series.times_s, series.values, strict=True))
    return points


def _write_json(reader: Reader, run_ids: Sequence[int], metrics: Sequence[str], file: IO[str]) -> int:
    import json

    points = 0
    for number, run_id in enumerate(run_ids):
        found = list(_series(reader, run_id, metrics))
        points += sum(series.total for series in found)
        whole: dict[str, Any] = {**in_full(reader, run_id), "series": plain(found)}
        file.write(("[" if number == 0 else ",\n") + json.dumps(whole, allow_nan=False, ensure_ascii=False))
    file.write("]\n")
    return points


def _series(reader: Reader, run_id: int, metrics: Sequence[str]) -> Iterator[Series]:
    names = metrics or sorted({summary.metric for summary in reader.summaries(run_id)})
    for name in names:
        yield from reader.series(run_id, [name])
