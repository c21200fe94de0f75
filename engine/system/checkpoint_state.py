"""A run's last checkpoint, read without torch; engine/runtime/rank/rank.py writes it.

It is one file, so that a kill leaves the previous or the new one: the training state and, among its values, its
position. Versions before it kept the position in `checkpoint.json` beside the file, which are read too.
"""

import json
import pickle
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import seeding
from engine.errors import NoCheckpoint
from engine.home import flush
from engine.store import Store
from engine.store.records import Run
from engine.store.timestamps import now

CHECKPOINT, RESUMED, FORMER_POSITION = "checkpoint.pt", "resumed.pt", "checkpoint.json"
POSITION = "position"
PART = ".part"
PARTS = f"checkpoint-*{PART}"
"""Names of checkpoints that are not published yet."""
LAST_STEP = 2**53
"""Stands for an unknown step, where the time alone tells which points a checkpoint includes."""


FOREIGN = "the checkpoint in its folder is that of another run. Retry it, which repeats it from the start."


@dataclass(frozen=True)
class Checkpoint:
    """The position of a checkpoint: step, passes and training time up to it, and when it was saved (UTC ISO 8601)."""

    step: int
    passes: float
    time_s: float
    saved_at: str
    steps: Mapping[int, int] = field(default_factory=dict)
    """The last step of ranks that it includes; of other ranks, time and step tell which points it includes."""
    run: str = ""
    """Random id of the run that saved it; empty for one of an earlier version."""
    is_former: bool = False
    """Whether an earlier version saved it."""


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the last checkpoint in a run's folder, None without a readable one."""
    return position_of(folder / CHECKPOINT)


def why_not_own(run: Run, found: Checkpoint | None) -> str:
    """Return why a run can't resume from what its folder has as checkpoint; empty if it can.

    One of an earlier version names no run: it must have been saved during the run or, by the run that it resumed,
    before.
    """
    if found is None:
        if run.status == "failed":
            return "it failed before its first checkpoint. Correct what its cause names, and launch it again."
        return "it has no checkpoint. Launch it again with a shorter checkpoint_every_s."
    if found.is_former:
        begun = "" if run.resumes and run.parent_id else run.begun_at or ""
        is_own = begun <= found.saved_at <= (run.ended_at or now())
    else:
        is_own = bool(found.run) and found.run in (run.uid, run.resumed_uid)
    return "" if is_own else FOREIGN


def position_of(path: Path) -> Checkpoint | None:
    """Return the position of a checkpoint, None if the file is missing or damaged."""
    try:
        values = _plain_values(path)
        if (about := values.get(POSITION)) is not None:
            return Checkpoint(**about)
        return _former_position(values, json.loads(path.with_name(FORMER_POSITION).read_text()))
    except Exception:  # a damaged pickle raises anything
        return None


def go_on_from_parent(store: Store, run: Run, folder: Path) -> Path | None:
    """Give a run the curves and the checkpoint of the run that it resumes; return the checkpoint, None for a run that
    resumes none. Raises NoCheckpoint.

    The curves come first: a run that ends between the two has no checkpoint, and its parent can be resumed again.
    """
    if run.parent_id is None or not run.resumes:
        return None
    parent, source = store.read.runs.one(run.parent_id), store.db.home.run_folder(run.parent_id)
    found = last_checkpoint(source)
    why = seeding.why_not_resumable(parent.seeding) or why_not_own(parent, found)
    if why or found is None:
        raise NoCheckpoint(f"Run {parent.id} can't be resumed: {why}")
    store.worker.go_on_from_parent(run.id, step=found.step, time_s=found.time_s, steps=found.steps, uid=found.run)
    take_checkpoint(source, folder)
    return folder / RESUMED


def take_checkpoint(source: Path, target: Path) -> tuple[Path, Checkpoint] | None:
    """Link the last checkpoint of one run's folder into another's; None without one.

    It gets two names there: the checkpoint to resume from, and the run's last checkpoint until it saves its own, so
    that an early loss of the run keeps the previous progress. Checkpoints are replaced, never modified, so a hard link
    is equivalent to a copy.
    """
    found = last_checkpoint(source)
    if found is None:
        return None
    target.mkdir(parents=True, exist_ok=True)
    if found.is_former:
        _link(source / FORMER_POSITION, target / FORMER_POSITION)
    for name in (RESUMED, CHECKPOINT):
        _link(source / CHECKPOINT, target / name)
    return target / RESUMED, found


def publish(folder: Path, name: str) -> None:
    """Make a complete file of a run's folder its last checkpoint; the file is on disk already."""
    (folder / name).replace(folder / CHECKPOINT)
    flush(folder)


def _link(source: Path, target: Path) -> None:
    part = target.with_name(target.name + PART)
    part.unlink(missing_ok=True)
    try:
        part.hardlink_to(source)
    except OSError:  # a file system without hard links, or another one
        shutil.copyfile(source, part)
    part.replace(target)
    part.unlink(missing_ok=True)  # a rename onto another link of the same file does nothing


class _PlainValues(pickle.Unpickler):
    """Reads numbers, texts and their containers; anything else, such as a tensor, becomes None, and no code is run."""

    def find_class(self, module: str, name: str) -> Any:
        return _nothing

    def persistent_load(self, pid: Any) -> None:
        return None


def _nothing(*_: object) -> None:
    return None


def _plain_values(path: Path) -> dict[str, Any]:
    """Return the values of a file of torch that are no tensors."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        with archive.open(name) as file:
            values: dict[str, Any] = _PlainValues(file).load()
    return values


def _former_position(values: Mapping[str, Any], about: Mapping[str, Any]) -> Checkpoint:
    """Return the position of two files. A kill could leave a new state beside the position of the one before: the
    state's own numbers then decide.
    """
    step, time_s = int(about["step"]), float(about["time_s"])
    if "time_s" in values and float(values["time_s"]) != time_s:
        time_s = float(values["time_s"])
        step = int(values.get("step", values.get("version", LAST_STEP)))
    return Checkpoint(step, float(about["passes"]), time_s, str(about["saved_at"]), is_former=True)
