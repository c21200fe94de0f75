"""Reader for MLflow's folder of runs (mlruns/): each run is a folder with meta.yaml, metrics/, params/ and tags/.

Source: the file store of MLflow. Its meta.yaml has one name and value per line; no other YAML is supported.
"""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from engine.errors import ImportRefused
from engine.registry import EXPERIMENTS
from engine.store.imports.external_import import IMPORTED_EXPERIMENT, ExternalRun
from engine.store.records import Status
from engine.store.runs.origins import fingerprint
from engine.transfer.archives import Members, lines, read, shown
from engine.transfer.import_bounds import ImportBudget, Values
from engine.transfer.readers.tensorboard import LATEST_S, moment

META = "meta.yaml"
MOST_SMALL = 1 << 20
MOST_TEXT = 20_000
LONGEST_LINE = 1_000
"""Maximum bytes of a metric's line, which has two or three numbers."""
_LINE = re.compile(rb"\s*(\d{1,15})\s+([-+.0-9A-Za-z]+)(?:\s+(-?\d{1,19}))?\s*\n")
_META_LINE = re.compile(r"([A-Za-z_][\w.]*):(?:\s+(.*))?")
_STATUS: dict[str, tuple[Status, str]] = {
    "1": ("lost", "Still running when exported from MLflow."),
    "2": ("lost", "Not started yet when exported from MLflow."),
    "3": ("finished", "Finished, according to MLflow."),
    "4": ("failed", "Failed, according to MLflow, which records no cause."),
    "5": ("cancelled", "Killed, according to MLflow."),
}
_NAMES = {"RUNNING": "1", "SCHEDULED": "2", "FINISHED": "3", "FAILED": "4", "KILLED": "5"}


@dataclass
class _Files:
    """The members of one run's folder, by kind and name."""

    metrics: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


def run_folders(names: Collection[str]) -> dict[str, _Files]:
    """Return the run folders among names: those with a meta.yaml and metrics, params or tags."""
    found: dict[str, _Files] = {
        str(PurePosixPath(name).parent): _Files() for name in names if PurePosixPath(name).name == META
    }
    for name in names:
        parts = PurePosixPath(name).parts
        for place, part in enumerate(parts[:-1]):
            folder = str(PurePosixPath(*parts[:place]))
            if part in ("metrics", "params", "tags") and folder in found:
                getattr(found[folder], part)["/".join(parts[place + 1 :])] = name
                break
    return {folder: files for folder, files in found.items() if files.metrics or files.params or files.tags}


def read_mlflow(source: Members, folders: Mapping[str, _Files]) -> tuple[list[ExternalRun], list[str]]:
    """Return the runs, and notes on skipped contents; raises ImportRefused for an invalid file, with its line."""
    runs: list[ExternalRun] = []
    notes: list[str] = []
    room = ImportBudget()
    for folder, files in sorted(folders.items()):
        about = _meta(source, f"{folder}/{META}" if folder != "." else META)
        if about.get("lifecycle_stage") == "deleted":
            notes.append(f"'{shown(folder)}' was skipped: it was deleted in MLflow.")
            continue
        values = _values(source, folder, files.metrics, room)
        notes += values.notes
        runs.append(_run(source, folder, files, about, values, room))
    return runs, notes


def _run(
    source: Members, folder: str, files: _Files, about: Mapping[str, str], values: Values, room: ImportBudget
) -> ExternalRun:
    where = f"'{shown(folder)}/{META}'"
    run_id = about.get("run_id") or about.get("run_uuid")
    if not run_id:
        raise ImportRefused(f"{where} has no run_id, so the folder is not a complete MLflow run. Export it again.")
    for kind, members in (("parameters", files.params), ("tags", files.tags)):
        room.take_config(f"'{shown(folder)}'", {name: source.size(member) for name, member in members.items()}, kind)
    tags = {name: _text(source, member) for name, member in files.tags.items()}
    begin = _seconds(about.get("start_time"), where)
    if begin is None:
        begin = min(values.moments, default=0.0)
    end = _seconds(about.get("end_time"), where)
    if end is None:
        end = max(values.moments, default=begin)
    status, cause = _STATUS.get(
        _NAMES.get(about.get("status", ""), about.get("status", "")), ("finished", "MLflow has no end status.")
    )
    environment = {
        "git_commit": tags.get("mlflow.source.git.commit", ""),
        "program": tags.get("mlflow.source.name", ""),
        "host": tags.get("mlflow.host", ""),
    }
    return ExternalRun(
        "mlflow",
        original_id=run_id[:200],
        fingerprint=fingerprint("mlflow", run_id),
        points=values.points(begin),
        point_count=len(values),
        created_at=moment(begin),
        ended_at=moment(max(begin, end)),
        seconds=max(0.0, end - begin),
        experiment=_experiment(source, folder),
        name=(about.get("run_name") or tags.get("mlflow.runName") or "")[:200],
        owner=(tags.get("mlflow.user") or about.get("user_id") or "unknown")[:200],
        host=environment["host"],
        status=status,
        cause=cause,
        config={name: _text(source, member) for name, member in files.params.items()},
        environment={name: value for name, value in environment.items() if value},
        tags=tuple(f"{name}={value}"[:40] for name, value in tags.items() if not name.startswith("mlflow.")),
        note=tags.get("mlflow.note.content", "")[:MOST_TEXT],
    )


def _experiment(source: Members, folder: str) -> str:
    """Return the experiment of a run's folder; 'imported' for MLflow's default and for names of ours."""
    above = str(PurePosixPath(folder).parent / META)
    name = _meta(source, above).get("name", "") if folder != "." and above in source.names else ""
    return IMPORTED_EXPERIMENT if name in ("", "Default", *EXPERIMENTS) else name[:200]


def _values(source: Members, folder: str, files: Mapping[str, str], room: ImportBudget) -> Values:
    """Return the values of `timestamp value step` lines (early MLflow wrote no step), with a note on each file that has
    other lines.

    A last line without its end may be cut within a number, so it is not read.
    """
    found = Values(f"'{shown(folder)}'", room)
    for name, member in files.items():
        number = wrong = first = 0
        has_steps = False
        for number, line in enumerate(lines(source, member, LONGEST_LINE), 1):
            match = _LINE.fullmatch(line)
            if match and (match[3] or not has_steps) and (value := _value(match, number)):
                has_steps = match[3] is not None
                found.add(name, *value)
            elif line.strip():
                wrong, first = wrong + 1, first or number
        if wrong:
            found.notes.append(
                f"'{shown(member)}': {wrong:,} of {number:,} lines left out as incomplete or damaged, the first is "
                f"line {first:,}."
            )
    found.done()
    return found


def _value(line: re.Match[bytes], number: int) -> tuple[float, int, float] | None:
    """Return time (s since 1970), step and value of a line; None if one of them can't be."""
    at, step = int(line[1]) / 1000, int(line[3] or number - 1)
    with suppress(ValueError):
        return (at, step, float(line[2])) if at < LATEST_S and abs(step) < 2**62 else None
    return None


def _meta(source: Members, member: str) -> dict[str, str]:
    """Return the names and values of a meta.yaml."""
    found: dict[str, str] = {}
    try:
        text = read(source, member, MOST_SMALL).decode()
    except UnicodeDecodeError as error:
        raise ImportRefused(f"'{shown(member)}' is not a text file. Export the run from MLflow again.") from error
    for line in text.splitlines():
        if (match := _META_LINE.fullmatch(line.rstrip())) is not None:
            found[match[1]] = _unquoted(match[2] or "")
    if not found:
        raise ImportRefused(
            f"'{shown(member)}' has no 'name: value' lines, so it is not a meta.yaml of MLflow. Export the run again."
        )
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return "" if value in ("null", "~") else value


def _seconds(milliseconds: str | None, where: str) -> float | None:
    if not milliseconds:
        return None
    if not milliseconds.isdecimal() or len(milliseconds) > 15 or int(milliseconds) / 1000 >= LATEST_S:
        raise ImportRefused(f"{where} has an invalid time ({shown(milliseconds)}). Export the run from MLflow again.")
    return int(milliseconds) / 1000


def _text(source: Members, member: str) -> str:
    return read(source, member, MOST_SMALL).decode("utf-8", "backslashreplace").strip()
