"""Match the runs of a bundle with existing ones, and record the origin of the others."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ImportRefused, NoSuchRun
from engine.store import Reader
from engine.store.runs.origins import Origin, fingerprint_of
from engine.transfer.archives import Members, shown
from engine.transfer.bundles.config_kinds import odd_setting
from engine.transfer.bundles.manifest import Manifest
from engine.transfer.bundles.rows import read_sheet, refusal
from engine.transfer.bundles.sweep_checks import check_sweeps

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
            f"The bundle has {len(runs):,} runs; at most {MOST_OF_BUNDLE:,} can be imported at once. Export fewer at a time."
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
