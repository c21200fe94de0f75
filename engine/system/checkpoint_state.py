"""Read a run's last checkpoint without torch; engine/runtime/worker/checkpoints.py writes it."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

TENSORS, ABOUT, RESUMED = "checkpoint.pt", "checkpoint.json", "resumed.pt"


@dataclass(frozen=True)
class Checkpoint:
    """Metadata of a checkpoint: step, passes and training time up to it, and when it was saved (UTC ISO 8601)."""

    step: int
    passes: float
    time_s: float
    saved_at: str


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the last checkpoint in a run's folder, None without a readable one."""
    try:
        about = json.loads((folder / ABOUT).read_text())
        found = Checkpoint(int(about["step"]), float(about["passes"]), float(about["time_s"]), str(about["saved_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if (folder / TENSORS).is_file() else None


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
    for name in (RESUMED, TENSORS):
        _link(source / TENSORS, target / name)
    _link(source / ABOUT, target / ABOUT)
    return target / RESUMED, found


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
