"""Where a run's training was at its last checkpoint, without torch; runtime/worker/checkpoints.py writes what is read
here.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

TENSORS, ABOUT, RESUMED = "checkpoint.pt", "checkpoint.json", "resumed.pt"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint stands for: the step, the passes and the training time up to it, and when it was saved (UTC ISO
    8601).
    """

    step: int
    passes: float
    time_s: float
    saved_at: str


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """Return what stands beside the last checkpoint in a run's folder, None where there is none that can be read."""
    try:
        told = json.loads((folder / ABOUT).read_text())
        found = Checkpoint(int(told["step"]), float(told["passes"]), float(told["time_s"]), str(told["saved_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if (folder / TENSORS).is_file() else None


def take_checkpoint(source: Path, target: Path) -> tuple[Path, Checkpoint] | None:
    """Bring the last checkpoint of one run's folder into another's, where it outlives the first; None where there is
    none.

    It stands there twice: as what the run went on from, and as its last checkpoint until it saves one of its own, so
    that a run which is lost early loses nothing of the one before it. A checkpoint is replaced, never written into, so
    a second name for the same file is as good as a copy.
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
