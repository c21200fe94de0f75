"""`export`, `import`, `files` and `trace`: runs for other programs and stores, as rows, bundles and Chrome traces, and
the files that they keep.
"""

import io
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

import click

from engine.access.quotas import size
from engine.cli.answers import answer, moment, plain, table
from engine.cli.frame import ID, OUTPUT_FILE, OWNER, NumberRange, argument, command, option
from engine.cli.runs import in_full
from engine.errors import ConfigError, NoSuchFile, counted
from engine.home import Home, given
from engine.store import Reader, Store
from engine.store.records import ENDED, RunRow
from engine.store.runs.files import PIECE, KeptFile, content_path
from engine.transfer.tables import BOM, FORMATS, Table, as_parquet, complete_file, write_csv

SEEN_S = 1.5
"""Seconds until a worker has seen a request, and until it has written what was asked for."""
KINDS = {".zip": "bundle", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
"""Suffix of a file to its format."""


@command("export", json_help="With --out: print a summary as JSON.")
def export_command(
    run_ids: Sequence[int] = argument("[ID]..."),
    sweep_ids: Sequence[int] = option("All runs of this sweep that have ended; repeatable.", "--sweep", metavar="ID"),
    duel_ids: Sequence[int] = option("All runs of this duel that have ended; repeatable.", "--duel", metavar="ID"),
    kind: Literal["bundle", "csv", "json", "parquet"] | None = option(
        "bundle: whole runs for another store; csv, json, parquet: a table (see --rows). Default: from the file's "
        "suffix; csv for --rows run on standard output.",
        "--format",
    ),
    rows: Literal["point", "run"] = option(
        "Of a table: one row per point (of json: whole runs), or one per run with its settings, results, work, "
        "times and disturbance.",
        default="point",
    ),
    metrics: Sequence[str] = option("Only this metric, such as train/loss; repeatable. Only for points.", "--metric"),
    output: Path | None = option(
        "Output file; without one, CSV and JSON go to standard output.", "--output", "--out", type=OUTPUT_FILE
    ),
    owner: str = OWNER,
) -> None:
    """Export one or more runs: whole, as a bundle for the import command of another store, or as a table.

    A bundle (a .zip) holds runs that have ended, with config, environment, curves, phases, spans, histograms, events,
    tags, notes and logs, and their sweeps, but no checkpoints. Points of the whole run have an empty rank. NaN and
    infinities are kept: nan, inf and -inf in CSV, "NaN", "Infinity" and "-Infinity" in JSON. A CSV file begins with the
    mark by which spreadsheets recognize UTF-8; standard output has none.
    """
    form = kind or ("csv" if output is None else _kind_of(output))
    _check(form, rows, bool(run_ids or sweep_ids or duel_ids), metrics, output)
    with Reader.open(Home.find()) as reader:
        for run_id in run_ids:
            reader.runs.one(run_id)  # a wrong id must write nothing
        ended, left_out = _ended_of(reader, sweep_ids, duel_ids)
        run_ids = list(dict.fromkeys([*run_ids, *ended]))
        if left_out:
            have = "has" if left_out == 1 else "have"
            click.echo(f"Left out: {counted(left_out, 'run')} that {have} not ended. Export again later.", err=True)
        recorded = (
            {each.metric for run_id in run_ids for each in reader.details.summaries(run_id)} if metrics else set()
        )
        reader.fields.check_metrics(metrics, recorded)
        chosen = ExportedRuns(reader, run_ids, metrics, _in_rows(reader, run_ids, duel_ids) if rows == "run" else None)
        if output is None:
            _write(chosen, form, sys.stdout)
            return
        with given():
            written = _write_file(chosen, form, output, owner)
    runs = counted(len(run_ids), "run")
    said = (
        f"{runs} written to {output}."
        if rows == "run"
        else f"{counted(written, 'point')} of {runs} written to {output}."
    )
    answer(
        {
            "path": str(output),
            "runs": len(run_ids),
            "left_out": left_out,
            "rows" if rows == "run" else "points": written,
        },
        said,
    )


@dataclass(frozen=True)
class ExportedRuns:
    """What an export writes: the points of runs, or a row per run."""

    reader: Reader
    run_ids: Sequence[int]
    metrics: Sequence[str]
    in_rows: Table | None


def _kind_of(output: Path | None) -> str:
    """Return the format for a file's suffix; raises ConfigError for an unknown one."""
    if output is None or output.suffix.lower() not in KINDS:
        unknown = (
            "Unknown format: give --format csv, json, parquet or bundle, or --out with a name that ends in .zip, .csv, "
            ".json or .parquet."
        )
        raise ConfigError.of("format", unknown)
    return KINDS[output.suffix.lower()]


def _check(kind: str, rows: str, any_runs: bool, metrics: Sequence[str], output: Path | None) -> None:
    """Raise ConfigError for options that exclude each other."""
    if not any_runs:
        raise ConfigError.of("runs", "Nothing to export: give the ids of runs, or --sweep or --duel with an id.")
    if output is None and kind in ("bundle", "parquet"):
        suffix = ".zip" if kind == "bundle" else ".parquet"
        raise ConfigError.of("out", f"A {kind} is binary and needs a file: add --out runs{suffix}.")
    if metrics and (kind == "bundle" or rows == "run"):
        what = "a bundle, which holds whole runs" if kind == "bundle" else "--rows run, which has all metrics"
        raise ConfigError.of("metric", f"--metric doesn't apply to {what}. Omit it, or export points.")
    if kind == "bundle" and rows == "run":
        whole = "--rows doesn't apply to a bundle, which holds whole runs. Omit it, or choose another --format."
        raise ConfigError.of("rows", whole)


def _ended_of(reader: Reader, sweep_ids: Sequence[int], duel_ids: Sequence[int]) -> tuple[list[int], int]:
    """Return the ended runs of sweeps and duels, and how many others have not ended; raises NoSuchSweep, NoSuchDuel, or
    ConfigError for one without any.
    """
    found: list[int] = []
    left_out: set[int] = set()
    for kind, whole_id in [*(("sweep", one) for one in sweep_ids), *(("duel", one) for one in duel_ids)]:
        if kind == "sweep":
            reader.sweeps.one(whole_id)
            runs: Sequence[RunRow] = reader.sweeps.runs(whole_id)
        else:
            reader.duels.one(whole_id)
            runs = [run for own in reader.duels.runs(whole_id).values() for run in own]
        ended = [run.id for run in runs if run.status in ENDED]
        if not ended:
            none = f"Nothing to export: no run of {kind} {whole_id} has ended yet. Wait for the first one."
            raise ConfigError.of(kind, none)
        found += ended
        left_out |= {run.id for run in runs if run.status not in ENDED}
    return found, len(left_out)


def _in_rows(reader: Reader, run_ids: Sequence[int], duel_ids: Sequence[int]) -> Table:
    """Return a row per run; those of duels with their strategies and results within the budget."""
    from engine.transfer.tables import Cells, runs_table

    about: dict[int, Cells] = {}
    for duel_id in duel_ids:
        from engine.duel.evidence import about_runs, gather  # imports statistics

        about |= about_runs(gather(reader, duel_id))
    return runs_table(reader, reader.runs.some(run_ids), about)


def _write_file(chosen: ExportedRuns, kind: str, output: Path, owner: str) -> int:
    if kind == "bundle":
        from engine.transfer.bundles.bundle import write_bundle

        return write_bundle(chosen.reader, chosen.run_ids, output, by=owner)
    if kind == "parquet":
        from engine.transfer.tables import points_table

        table = chosen.in_rows or points_table(chosen.reader, chosen.run_ids, chosen.metrics)
        with complete_file(output) as file:
            file.write(as_parquet(table))
        return len(table.rows)
    with complete_file(output) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        if kind == "csv":
            text.write(BOM)
        written = _write(chosen, kind, text)
        text.detach()  # writes the rest
    return written


def _write(chosen: ExportedRuns, kind: str, file: IO[str]) -> int:
    """Write CSV or JSON and return the number of rows; points one run after the other, as they may be many."""
    if chosen.in_rows:
        file.write(FORMATS[kind].write(chosen.in_rows).decode().removeprefix(BOM))
        return len(chosen.in_rows.rows)
    from engine.transfer.tables import COLUMNS, point_rows

    if kind == "csv":
        every = (row for run_id in chosen.run_ids for row in point_rows(chosen.reader, run_id, chosen.metrics))
        return write_csv(COLUMNS, every, file)
    return _write_json(chosen, file)


def _write_json(chosen: ExportedRuns, file: IO[str]) -> int:
    from engine.transfer.tables import series_of

    points = 0
    for number, run_id in enumerate(chosen.run_ids):
        found = list(series_of(chosen.reader, run_id, chosen.metrics))
        points += sum(series.total for series in found)
        whole: dict[str, Any] = {**in_full(chosen.reader, run_id), "series": plain(found)}
        file.write(("[" if number == 0 else ",\n") + json.dumps(whole, allow_nan=False, ensure_ascii=False))
    file.write("]\n")
    return points


@command("import")
def import_command(
    path: Path = argument("FILE"),
    owner: str = OWNER,
    max_memory: float = option("Memory limit of the import.", metavar="GB", type=NumberRange(0.05, 1_000), default=1.0),
    max_time: float = option(
        "Time limit of the import.", metavar="SECONDS", type=NumberRange(1, 86_400), default=300.0
    ),
) -> None:
    """Import the runs of a bundle (export --out runs.zip), of TensorBoard event files, or of MLflow's folder mlruns or
    its database mlflow.db; all or none.

    FILE may be a folder, or a zip of one. Each run records its origin. Runs that are already here are skipped and
    named. Runs of a bundle bring their sweeps. From TensorBoard and MLflow come scalars, parameters, tags and notes, as
    runs of the experiment "imported" or of MLflow's own; MLflow's artifacts become kept files.
    """
    from engine.transfer.import_process import Allowance, import_in_child

    found = import_in_child(Home.find(), path, by=owner, allowance=Allowance(int(max_memory * 1e9), max_time))
    shown = {"ids": found.ids, "sweeps": found.sweeps, "known": dict(found.known), "notes": found.notes}
    finds = [f"On Runs, or by list --filter: {found.filter}"]
    with Reader.open(Home.find()) as reader:
        owners = sorted({run.owner for run in reader.runs.some(found.ids)})
    whose = [f"Owner: {', '.join(owners)}. Import under another name with --owner NAME."] if owners == [owner] else []
    answer(shown | {"owners": owners}, "\n".join([found.sentence, *whose, *finds, *found.notes]))


@command("files")
def files_command(
    run_id: int = ID,
    name: str | None = argument("[NAME]"),
    path: Path | None = option("The file to write.", "--out", type=OUTPUT_FILE),
) -> None:
    """List the files that a run keeps, or write the one named NAME to --out, otherwise here under its name.

    A file that was changed or damaged in the lab's home is not written.
    """
    if name is None and path is not None:
        raise ConfigError.of("", "--out needs the name of a file. Without both, the run's files are listed.")
    with Reader.open(Home.find()) as reader:
        if name is not None:
            kept = reader.files.one(run_id, name)
            target = path or Path(PurePosixPath(name).name)
            if path is None and target.exists():
                raise ConfigError.of("", f"{target} is already here. Give another file with --out.")
            _write_kept(reader.db.home, kept, target)
            answer({**asdict(kept), "path": str(target)}, f"{size(kept.bytes)} written to {target}.")
            return
        reader.runs.one(run_id)
        found = reader.files.of([run_id])
    rows = [(each.name, size(each.bytes), each.sha256[:12], moment(each.at), each.who) for each in found]
    headings = ("NAME", "SIZE", "SHA-256", "KEPT", "BY")
    answer([asdict(each) for each in found], table(headings, rows, empty=f"Run {run_id} keeps no files."))


def _write_kept(home: Home, kept: KeptFile, path: Path) -> None:
    """Write a kept file, or nothing if its content is missing or damaged."""
    digest = sha256()
    try:
        content = content_path(home, kept.sha256).open("rb")
    except FileNotFoundError:
        raise NoSuchFile(f"The content of '{kept.name}' is missing. Run python -m engine fsck.") from None
    with content, given(), complete_file(path) as file:
        while piece := content.read(PIECE):
            digest.update(piece)
            file.write(piece)
        if digest.hexdigest() != kept.sha256:
            raise NoSuchFile(f"The content of '{kept.name}' is damaged. Run python -m engine fsck.")


@command("trace")
def trace_command(
    run_id: int = ID,
    path: Path | None = option(
        "The file to write (Chrome trace JSON, for ui.perfetto.dev or chrome://tracing).", "--out", type=OUTPUT_FILE
    ),
    seconds: float | None = option(
        "First have a running run store all of the next seconds.", "--record", metavar="SECONDS"
    ),
    owner: str = OWNER,
) -> None:
    """Write the operations of a run's ranks as a Chrome trace: a thread per rank, arrows for messages.

    A run records all operations and stores samples: its start, a few steps now and then, and its end.
    """
    from engine.trace.timeline import RunTrace
    from engine.trace.views import chrome_lines  # NumPy, which most commands don't need

    if path is None and seconds is None:
        raise ConfigError.of("", "trace needs --out with a file, or --record with seconds.")
    if seconds is not None:
        with Store.open(Home.find()) as store:
            store.runs.trace(run_id, seconds, by=owner)
        if path is None:
            answer({"id": run_id, "seconds": seconds}, f"Run {run_id} stores all operations of {seconds:g} s.")
            return
        time.sleep(seconds + SEEN_S)
    assert path is not None
    with Reader.open(Home.find()) as reader:
        run = reader.runs.one(run_id)
        roles = [rank.role for rank in reader.details.ranks(run_id)]
        trace = RunTrace.of(reader.traces.windows(run_id), reader.traces.chunks(run_id), roles)
    if not len(trace):
        why = "It has not started." if not roles else "Runs of earlier versions have none."
        raise ConfigError.of("trace", f"Run {run_id} has no stored operations. {why}")
    with given(), complete_file(path) as file:
        file.writelines(line.encode() for line in chrome_lines(trace, f"Run {run_id}, {run.experiment}"))
    found = {"path": str(path), "operations": len(trace), "messages": len(trace.messages.senders), "lost": trace.lost}
    lost = f" {counted(trace.lost, 'operation')} were lost." if trace.lost else ""
    answer(found, f"{counted(len(trace), 'operation')} of {counted(len(roles), 'rank')} written to {path}.{lost}")
