"""Retention policy of a lab: preview and execution."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Store
from engine.store.curves.ingest import POINT_BYTES
from engine.store.maintenance.retention import Deletion, Thinning, delete, give_back, thin, to_delete, to_thin

LEAST_POINTS = 5
"""Fewer could not represent the extremes of one part."""

MOST_DAYS = 36_500


@dataclass(frozen=True)
class RetentionPolicy:
    """Age for thinning curves, number of points to keep, and age for deleting runs; None: never."""

    thin_after_days: float | None
    delete_after_days: float | None
    points: int

    def check(self) -> "RetentionPolicy":
        """Return the policy; raises ConfigError if it does nothing, or deletes before thinning."""
        if self.thin_after_days is None and self.delete_after_days is None:
            text = "gc needs --thin-after-days, --delete-after-days, or both. Add --dry-run to only preview the effect."
            raise ConfigError.of("", text)
        for field, days in (("thin_after_days", self.thin_after_days), ("delete_after_days", self.delete_after_days)):
            if days is not None and not 0 <= days <= MOST_DAYS:
                raise ConfigError.of(field, f"{field} must be 0 to {MOST_DAYS:,} days, got {days:g}.")
        if self.points < LEAST_POINTS:
            raise ConfigError.of("points", f"points must be at least {LEAST_POINTS}, got {self.points}.")
        return self


@dataclass(frozen=True)
class Collection:
    """The effect of a policy on a store."""

    thinned: tuple[Thinning, ...]
    deleted: tuple[Deletion, ...]
    points: int
    """Number of deleted points, of runs and of curves; for a curve, its length minus the points to keep."""
    store_bytes: int
    """Estimated bytes freed in the store's file; after execution, the file's actual reduction."""
    folder_bytes: int
    """Bytes in the folders of deleted runs, and of files that they alone keep."""


def preview(home: Home, policy: RetentionPolicy) -> Collection:
    """Return the effect that a policy would have now."""
    policy.check()
    with Reader.open(home) as reader, reader.db.snapshot():
        runs = to_delete(reader, policy.delete_after_days) if policy.delete_after_days is not None else []
        gone = {run.run_id for run in runs}
        file_bytes = reader.files.bytes_only_of(gone)
        curves = to_thin(reader, policy.thin_after_days, policy.points) if policy.thin_after_days is not None else []
    curves = [curve for curve in curves if curve.run_id not in gone]
    points = sum(run.points for run in runs) + sum(curve.points - policy.points for curve in curves)
    return Collection(
        tuple(curves),
        tuple(runs),
        points,
        points * POINT_BYTES,
        sum(size_of(home.run_folder(run.run_id)) for run in runs) + file_bytes,
    )


def collect(home: Home, policy: RetentionPolicy, *, by: str, timeout_s: float = 30.0) -> Collection:
    """Apply a policy, run by run, in short transactions; runs protected meanwhile are kept.

    May be killed and repeated at any time: it continues. Raises Forbidden.
    """
    wanted = preview(home, policy)
    deleted, points = [], 0
    with Store.open(home, timeout_s=timeout_s) as store:
        store.access.permit(
            "collect",
            by=by,
            detail=", ".join(f"{name}={value}" for name, value in vars(policy).items() if value is not None),
        )
        for run in wanted.deleted:
            if policy.delete_after_days is not None and delete(store, run.run_id, policy.delete_after_days):
                shutil.rmtree(home.run_folder(run.run_id), ignore_errors=True)
                deleted.append(run)
                points += run.points
        points += sum(thin(store, curve, policy.points) for curve in wanted.thinned)
        store.files.sweep()
        freed = sum(give_back(store))
    return Collection(wanted.thinned, tuple(deleted), points, freed, wanted.folder_bytes)


PROTECTED = (
    "Runs that have not ended, that have a star, a pin or a tag, or a job on a cluster, that a live run resumes, and "
    "runs of a sweep in progress are kept."
)


def deletable(reader: Reader, run_ids: Sequence[int]) -> list[int]:
    """Return those of some runs that may be deleted, in order."""
    free = {each.run_id for each in to_delete(reader, 0.0)}
    return [run_id for run_id in run_ids if run_id in free]


def delete_runs(home: Home, run_ids: Sequence[int], *, by: str, timeout_s: float = 30.0) -> list[int]:
    """Delete runs with all that is recorded of them, their folders and their files, one after another; return those
    that are gone. Protected ones are kept. Raises Forbidden, and nothing is deleted.
    """
    with Store.open(home, timeout_s=timeout_s) as store:
        store.runs.permit_deletion(chosen := deletable(store.read, run_ids), by=by)
        deleted = []
        for run_id in chosen:
            if delete(store, run_id, 0.0):
                shutil.rmtree(home.run_folder(run_id), ignore_errors=True)
                deleted.append(run_id)
        store.files.sweep()
    return deleted


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; 0 if it doesn't exist."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
