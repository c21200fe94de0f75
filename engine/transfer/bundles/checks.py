"""Checks of a bundle's content before import: runs that exist already, sweeps, and types of settings."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.config_values import MOST_RUNS
from engine.errors import ConfigError, ImportRefused, NoSuchRun, counted
from engine.registry import known_experiment
from engine.store import Reader
from engine.store.launches import Timing
from engine.store.runs.origins import Origin, fingerprint_of
from engine.store.schema.config_text import MOST_LISTED
from engine.store.sweeps.sweeps import SEED
from engine.sweep.plan import MOST_FIELDS
from engine.sweep.random_search import MOST_FIELDS as MOST_DRAWN
from engine.transfer.archives import Members, shown
from engine.transfer.bundles.rows import Manifest, read_sheet, refusal

# ---- Match the runs of a bundle with existing ones, and record the origin of the others ----------------------------

MOST_OF_BUNDLE = 10_000
_NEEDED_OF_RUN = ("id", "experiment", "created_at", "config", "environment", "owner", "status")


@dataclass(frozen=True)
class MatchedRuns:
    """The runs of a bundle, by their ids in it."""

    fresh: Mapping[int, Origin]
    known: Mapping[int, int]
    """Runs that already exist, with their ids here."""


def match_runs(reader: Reader, source: Members, about: Manifest) -> MatchedRuns:
    """Separate existing runs from new ones; raises ImportRefused for invalid rows."""
    runs = _rows(source, about, "runs")
    check_sweeps(_rows(source, about, "sweeps") if "sweeps" in about.tables else [], runs)
    if not runs:
        raise ImportRefused("The bundle has no runs. Export it again.")
    if len(runs) > MOST_OF_BUNDLE:
        raise ImportRefused(
            f"The bundle has {counted(len(runs), 'run')}; at most {MOST_OF_BUNDLE:,} can be imported at once. "
            "Export fewer at a time."
        )
    before = {row.get("run_id"): row for row in _rows(source, about, "origins")}
    fresh: dict[int, Origin] = {}
    known: dict[int, int] = {}
    seen: set[str] = set()
    for number, run in enumerate(runs, 1):
        _check(run, number, {*fresh, *known})
        origin = _origin(run, before.get(run["id"]))
        here = _here(reader, run, origin.fingerprint)
        if here is not None:
            known[run["id"]] = here
        elif origin.fingerprint in seen:
            raise refusal("runs", number, "duplicate run")
        else:
            fresh[run["id"]] = origin
            seen.add(origin.fingerprint)
    return MatchedRuns(fresh, known)


def _rows(source: Members, about: Manifest, table: str) -> list[dict[str, Any]]:
    part = read_sheet(source, table, about.tables[table])
    return [dict(zip(part.columns, row, strict=True)) for row in part.rows]


def _check(run: Mapping[str, Any], number: int, seen: set[int]) -> None:
    """Raise ImportRefused for a run without a required value."""
    if missing := [name for name in _NEEDED_OF_RUN if run.get(name) in (None, "")]:
        raise refusal("runs", number, f"{missing[0]} is empty or missing")
    if type(run["id"]) is not int or run["id"] < 1 or run["id"] in seen:
        raise refusal("runs", number, "the id is not a unique positive integer")
    if odd := odd_setting(run["experiment"], json.loads(run["config"])):
        raise refusal("runs", number, f"setting '{shown(odd)}' has the wrong type for {run['experiment']}")


def _origin(run: Mapping[str, Any], before: Mapping[str, Any] | None) -> Origin:
    """Return a run's origin: the one in its store, else that store itself."""
    names = ("kind", "host", "original_id", "owner", "fingerprint")
    if (
        before
        and all(isinstance(before.get(name), str) for name in names)
        and before["kind"] in ("parallab", "tensorboard", "mlflow")
    ):
        return Origin(**{name: before[name] for name in names}, file="", imported_at="", imported_by="")
    told = _told(run)
    return Origin(
        "parallab",
        str(told["environment"].get("host", "")),
        str(run["id"]),
        run["owner"],
        fingerprint_of(told),
        "",
        "",
        "",
    )


def _told(run: Mapping[str, Any]) -> dict[str, Any]:
    return {**run, "config": json.loads(run["config"]), "environment": json.loads(run["environment"])}


def _here(reader: Reader, run: Mapping[str, Any], fingerprint: str) -> int | None:
    """Return the existing run that is the same: imported before, or launched here originally."""
    if (imported := reader.origins.run_of(fingerprint)) is not None:
        return imported
    try:
        own = reader.runs.one(run["id"])
    except NoSuchRun:
        return None
    same = fingerprint_of(
        {
            "id": own.id,
            "experiment": own.experiment,
            "created_at": own.created_at,
            "config": own.config,
            "environment": own.environment,
        }
    )
    return own.id if same == fingerprint else None


# ---- Validation of the sweeps of a bundle: pages compute with their grids, so invalid ones are refused -------------

LONGEST = 500
"""Maximum length of a name, a value or a range."""
_NEEDED = ("id", "experiment", "owner", "created_at", "grid", "fingerprint")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_FIGURE = re.compile(r"(\w{1,60}/(full|reduced))?", re.ASCII)


def check_sweeps(sweeps: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> None:
    """Raise ImportRefused for an invalid sweep, or for a run that can't be part of its sweep."""
    known: dict[int, Mapping[str, Any]] = {}
    for number, sweep in enumerate(sweeps, 1):
        if wrong := _wrong(sweep) or _twice(sweep, known.values()):
            raise refusal("sweeps", number, wrong)
        known[sweep["id"]] = sweep
    for number, run in enumerate(runs, 1):
        if (wanted := run.get("sweep_id")) is not None and (wrong := _no_part_of(run, known.get(wanted))):
            raise refusal("runs", number, wrong)


def _wrong(sweep: Mapping[str, Any]) -> str:
    """Return the error in a sweep, empty if valid."""
    if missing := [name for name in _NEEDED if sweep.get(name) in (None, "")]:
        return f"{missing[0]} is empty or missing"
    if type(sweep["id"]) is not int or sweep["id"] < 1:
        return "the id is not a positive integer"
    if not isinstance(sweep["fingerprint"], str) or not _FINGERPRINT.fullmatch(sweep["fingerprint"]):
        return "the fingerprint is invalid"
    if not isinstance(sweep.get("figure"), str) or not _FIGURE.fullmatch(sweep["figure"]):
        return "figure is not a name and size such as hogwild/full"
    if sweep.get("exclusive") not in (0, 1) or not _is_count(sweep.get("stop_after"), or_none=True):
        return "exclusive or stop_after is invalid"
    if not _is_timing(sweep.get("timing", "")):
        return "timing is not a JSON object of within and most"
    if not _is_equal_work(sweep.get("equal_work", ""), json.loads(sweep["grid"])):
        return "equal_work is not a JSON object of a length and the varied settings"
    return _wrong_grid(sweep["experiment"], json.loads(sweep["grid"]), sweep.get("draw"), bool(sweep["figure"]))


def _twice(sweep: Mapping[str, Any], before: Any) -> str:
    alike = any(sweep[name] == other[name] for other in before for name in ("id", "fingerprint"))
    return "duplicate sweep" if alike else ""


def _wrong_grid(experiment: str, grid: Mapping[str, Any], draw: object, is_figure: bool) -> str:
    fields = [name for name in grid if name != SEED]
    if not all(
        isinstance(values, list) and values and len(values) <= MOST_RUNS and all(map(_is_plain, values))
        for values in grid.values()
    ):
        return f"its grid must have 1 to {MOST_RUNS} plain values per field"
    if not all(type(seed) is int for seed in grid.get(SEED, [None])):
        return "the seeds of its grid are not integers"
    fewest = 0 if grid.get(SEED) and not draw else 1
    most = MOST_DRAWN if draw else MOST_FIELDS
    if not fewest <= len(fields) <= most or any(len(name) > LONGEST for name in fields):
        return f"its grid has {len(fields)} fields, which no sweep can have"
    if not draw and math.prod(map(len, grid.values())) > MOST_RUNS:
        return f"its grid has more than {MOST_RUNS} runs"
    for field in fields:
        if any(odd_setting(experiment, {field: value}) for value in grid[field]):
            return f"a value of '{shown(field)}' has the wrong type for {shown(experiment)}"
    return _wrong_draw(draw, fields, is_figure) if draw else "" if draw == "" else "draw is not a text"


def _is_timing(timing: object) -> bool:
    if timing == "":
        return True
    try:
        Timing(**json.loads(timing)).checked()  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError, ConfigError):
        return False
    return True


def _is_equal_work(told: object, grid: Mapping[str, Any]) -> bool:
    """Return whether it has a plain value of each varied setting, and of one other, the length."""
    if told == "":
        return True
    try:
        found = json.loads(told)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return False
    fields = {name for name in grid if name != SEED}
    return (
        isinstance(found, dict)
        and fields < found.keys()
        and len(found) == len(fields) + 1
        and all(map(_is_plain, found.values()))
    )


def _wrong_draw(draw: object, fields: Sequence[str], is_figure: bool) -> str:
    try:
        told = json.loads(draw) if isinstance(draw, str) else None
    except (ValueError, RecursionError):
        told = None
    if (
        not isinstance(told, dict)
        or set(told) != {"count", "seed", "over"}
        or not _is_count(told["count"])
        or type(told["seed"]) is not int
    ):
        return "its draw is not a JSON object of count, seed and over"
    if (
        is_figure
        or told["count"] > MOST_RUNS
        or not isinstance(told["over"], dict)
        or list(told["over"]) != list(fields)
    ):
        return "its draw doesn't match its grid"
    return (
        ""
        if all(isinstance(text, str) and len(text) <= LONGEST for text in told["over"].values())
        else "a range of its draw is not a text"
    )


def _no_part_of(run: Mapping[str, Any], sweep: Mapping[str, Any] | None) -> str:
    """Return why a run can't be part of a sweep, empty if it can."""
    if sweep is None:
        return "its sweep is not in the bundle"
    config = json.loads(run["config"])
    if len(run["config"]) > MOST_LISTED:
        return f"its config has {len(run['config']):,} characters; at most {MOST_LISTED:,} for a run of a sweep"
    if run["experiment"] != sweep["experiment"]:
        return "its experiment differs from its sweep's"
    if lacking := [name for name in json.loads(sweep["grid"]) if name not in config or not _is_plain(config[name])]:
        return f"its config has no plain value of '{shown(lacking[0])}', which its sweep varies"
    return "" if type(config[SEED]) is int else "its seed is not an integer"


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, int | float) and math.isfinite(value) and abs(value) < 2**63)
    )


def _is_count(value: object, *, or_none: bool = False) -> bool:
    return (value is None and or_none) or (type(value) is int and 1 <= value < 2**31)


# ------------------------------------------------------------------------------------------------------------------
# Type check of a run's settings against its experiment: pages compute with them, so text must not take a number's
# place. Values out of range, removed names and choices of other versions pass: an old run keeps its settings.


def odd_setting(name: str, config: Mapping[str, Any]) -> str | None:
    """Return a setting of the wrong type, None if all are valid or the experiment is unknown here."""
    if (known := known_experiment(name)) is None:
        return None
    fields = known.config.model_fields
    return next(
        (field for field, value in config.items() if field in fields and not _fits(fields[field].annotation, value)),
        None,
    )


def _fits(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return isinstance(value, str) and all(
            each["type"] in ("literal_error", "none_required") for each in error.errors()
        )
    return True
