"""Reader for MLflow's folder of runs (mlruns/): each run is a folder with meta.yaml, metrics/, params/ and tags/. Its
database has the same members (engine/store/imports/mlflow_database.py).

Source: the file store of MLflow.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import yaml

from engine.registry import EXPERIMENTS
from engine.store.imports.external_import import IMPORTED_EXPERIMENT, ExternalFile, ExternalRun
from engine.store.records import Status
from engine.store.runs.origins import fingerprint
from engine.transfer.archives import Members, lines, opened, read, shown
from engine.transfer.import_bounds import LONGEST_TAG, ImportBudget, Values, fit_units
from engine.transfer.readers.tensorboard import LATEST_S, moment

META = "meta.yaml"
MOST_SMALL = 1 << 20
MOST_TEXT = 20_000
LONGEST_LINE = 1_000
"""Maximum bytes of a metric's line, which has two or three numbers."""
_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\d{1,15})\s+([-+.0-9A-Za-z]+)(?:\s+(-?\d{1,19}))?\s*\n")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?=\d*[.eE])(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WORDS = {"true": True, "false": False, "none": None, "null": None}
"""Booleans and None, in lower case: MLflow writes parameters as Python or YAML would."""
_AS_TEXT = "parameters_as_text"
"""Entry of a run's environment: parameters that were written otherwise than their values are, such as 1e-3."""
_NULLS = ("", "~", "null", "Null", "NULL")
"""What is no value in YAML, without quotes."""
_NO_RUN = {"version", "model_id"}
"""Entries of the meta.yaml of a registered or logged model."""
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
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
    """Return the folders among names that may be runs: those with a meta.yaml and metrics, params or tags."""
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


class _NotARun(Exception):
    """Why a folder is not imported."""


def read_mlflow(source: Members, folders: Mapping[str, _Files], beside: Members) -> tuple[list[ExternalRun], list[str]]:
    """Return the runs with their artifacts and logged models, which are `beside` a database; and notes on what was left
    out: deleted and unreadable runs, models of no run, traces, and damaged lines.

    An experiment, a model and what a run has as artifacts are no runs, whatever files they have.
    """
    models = _logged_models(source, folders)
    artifacts, taken = _artifacts(beside.names, folders, models), {each.about for each in models.values()}
    runs: dict[str, ExternalRun] = {}
    recorded: list[Values] = []
    notes: list[str] = []
    room = ImportBudget()
    for folder, files in sorted(folders.items()):
        if any(str(above) in runs for above in PurePosixPath(folder).parents):
            continue
        try:
            about = _meta(source, str(PurePosixPath(folder) / META))
            if not about.get("run_id", about.get("run_uuid")) or _NO_RUN & about.keys():
                if (files.metrics or files.params) and not _NO_RUN & about.keys():
                    raise _NotARun(f"its {META} has no run_id")
                continue
            if about.get("lifecycle_stage") == "deleted":
                raise _NotARun("it was deleted in MLflow")
        except _NotARun as why:
            notes.append(f"'{shown(folder)}' was skipped: {why}.")
            continue
        values = _values(source, folder, files.metrics, room)
        recorded.append(values)
        notes += values.notes
        run = _run(source, folder, files, about, values, room, notes)
        its = artifacts.pop(_place(folder), {})
        taken.update(its.values())
        files_of = {name: ExternalFile(beside.size(each), partial(opened, beside, each)) for name, each in its.items()}
        runs[folder] = replace(run, files=files_of)
    for what, count in _besides({*source.names} - taken).items():
        notes.append(f"{count:,} {what}{' was' if count == 1 else 's were'} left out.")
    return list(runs.values()), notes + fit_units(recorded)


def _place(folder: str) -> str:
    """Return where a run is among all: the folder of its experiment, and its own."""
    return str(PurePosixPath(*PurePosixPath(folder).parts[-2:]))


@dataclass(frozen=True)
class _Model:
    """A model that a run of MLflow 3 logged, whose files are beside those of the run."""

    name: str
    run: str
    """Place of the run."""
    about: str
    """Member that says so."""


def _logged_models(source: Members, folders: Collection[str]) -> dict[str, _Model]:
    """Return the models that runs logged, by their places."""
    runs = {PurePosixPath(folder).name: _place(folder) for folder in folders}
    found: dict[str, _Model] = {}
    for path in map(PurePosixPath, source.names):
        if path.name == META and path.parent.parent.name == "models":
            with suppress(_NotARun):
                about = _meta(source, str(path))
                if run := runs.get(about.get("source_run_id", "")):
                    found[_place(str(path.parent))] = _Model(about.get("name") or path.parent.name, run, str(path))
    return found


def _artifacts(
    names: Collection[str], folders: Collection[str], models: Mapping[str, _Model]
) -> dict[str, dict[str, str]]:
    """Return the members that are artifacts by the place of their run, each by its name as a kept file: folders, and
    the name of a logged model, become part of it.
    """
    found: dict[str, dict[str, str]] = {_place(folder): {} for folder in folders}
    for name in names:
        parts = PurePosixPath(name).parts
        for number, part in enumerate(parts[:-1]):
            if part == "artifacts":
                place, inside = _place(str(PurePosixPath(*parts[:number]))), parts[number + 1 :]
                if model := models.get(place):
                    place, inside = model.run, (model.name, *inside)
                if (its := found.get(place)) is not None:
                    its.setdefault("-".join(inside), name)
                    break
    return found


def _besides(names: Collection[str]) -> dict[str, int]:
    """Return how many models, traces and other artifacts there are."""
    found = Counter[str]()
    for parts in (PurePosixPath(name).parts for name in names):
        if "artifacts" in parts[:-1]:
            found["trace" if "traces" in parts else "artifact"] += 1
        elif "models" in parts[:-2] and parts[-1] == META:
            found["logged or registered model"] += 1
    return found


def _run(
    source: Members,
    folder: str,
    files: _Files,
    about: Mapping[str, str],
    values: Values,
    room: ImportBudget,
    notes: list[str],
) -> ExternalRun:
    run_id = about.get("run_id") or about["run_uuid"]
    params, tags = (
        {name: _text(source, members[name]) for name in _fitting(source, folder, kind, members, room, notes)}
        for kind, members in (("parameters", files.params), ("tags", files.tags))
    )
    config = {name: typed(text) for name, text in params.items()}
    times = {name: _seconds(about.get(name)) for name in ("start_time", "end_time")}
    notes += [
        f"'{shown(folder)}': the tag {shown(name)} was cut to {LONGEST_TAG:,} characters."
        for name, value in tags.items()
        if not name.startswith("mlflow.") and len(f"{name}={value}") > LONGEST_TAG
    ]
    notes += [
        f"'{shown(folder)}' has an invalid {name} ({shown(about[name])}): that of its values was taken."
        for name, at in times.items()
        if at is None and about.get(name)
    ]
    begin = times["start_time"] if times["start_time"] is not None else min(values.moments, default=0.0)
    end = times["end_time"] if times["end_time"] is not None else max(values.moments, default=begin)
    status, cause = _STATUS.get(
        _NAMES.get(about.get("status", ""), about.get("status", "")), ("finished", "MLflow has no end status.")
    )
    environment = {
        "git_commit": tags.get("mlflow.source.git.commit", ""),
        "program": tags.get("mlflow.source.name", ""),
        "host": tags.get("mlflow.host", ""),
        "experiment_note": _note_above(source, folder),
        _AS_TEXT: {name: text for name, text in params.items() if str(config[name]) != text},
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
        name=(about.get("run_name") or tags.get("mlflow.runName") or about.get("name") or "")[:200],
        owner=(tags.get("mlflow.user") or about.get("user_id") or "unknown")[:200],
        host=tags.get("mlflow.host", ""),
        status=status,
        cause=cause,
        config=config,
        environment={name: value for name, value in environment.items() if value},
        tags=tuple(f"{name}={value}"[:LONGEST_TAG] for name, value in tags.items() if not name.startswith("mlflow.")),
        note=tags.get("mlflow.note.content", "")[:MOST_TEXT],
    )


def _fitting(
    source: Members, folder: str, kind: str, members: Mapping[str, str], room: ImportBudget, notes: list[str]
) -> list[str]:
    """Return the names of the parameters or tags that fit a run, those of MLflow itself first."""
    names = sorted(members, key=lambda name: not name.startswith("mlflow."))
    kept, left_out = room.take_config(f"'{shown(folder)}'", {name: source.size(members[name]) for name in names}, kind)
    notes += left_out
    return kept


def _note_above(source: Members, folder: str) -> str:
    """Return the note of the experiment of a run's folder; empty without one."""
    member = str(PurePosixPath(folder).parent / "tags" / "mlflow.note.content")
    return _text(source, member)[:MOST_TEXT] if folder != "." and member in source.names else ""


def typed(text: str) -> str | int | float | bool | None:
    """Return the value of a parameter, which MLflow records as text: a number, a boolean or None if it is written as
    Python or YAML would write one. Numbers with leading zeros, NaN and infinities stay text.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _experiment(source: Members, folder: str) -> str:
    """Return the experiment of a run's folder; 'imported' for MLflow's default and for names of ours."""
    above, name = str(PurePosixPath(folder).parent / META), ""
    if folder != "." and above in source.names:
        with suppress(_NotARun):
            name = _meta(source, above).get("name", "")
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
    """Return the names and values of a meta.yaml as they are written, without those that are null; raises _NotARun if
    it is no YAML with names. No YAML type, alias or merge is evaluated.
    """
    nodes, depth = list[Any](), 0
    try:
        # events, since composing recurses: a file of brackets would end the process
        for event in yaml.parse(read(source, member, MOST_SMALL).decode(), _Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth == 1 and isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                nodes.append(event)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise _NotARun(f"its {META} is damaged: it is not YAML") from error
    found = {
        name.value: value.value
        for name, value in zip(nodes[1::2], nodes[2::2], strict=False)
        if isinstance(name, yaml.ScalarEvent)
        and isinstance(value, yaml.ScalarEvent)
        and (value.style or value.value not in _NULLS)
    }
    if not found:
        raise _NotARun(f"its {META} is damaged: it has no 'name: value' lines")
    return found


def _seconds(milliseconds: str | None) -> float | None:
    """Return a time in s since 1970; None without a valid one."""
    if not milliseconds or not milliseconds.isdecimal() or len(milliseconds) > 15:
        return None
    return at if (at := int(milliseconds) / 1000) < LATEST_S else None


def _text(source: Members, member: str) -> str:
    return read(source, member, MOST_SMALL).decode("utf-8", "backslashreplace").strip()
