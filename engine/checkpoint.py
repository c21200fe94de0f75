"""Where a run's training was at its last checkpoint, without torch; engine/runtime/checkpoints.py writes what is read here."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

TENSORS, ABOUT, RESUMED = "checkpoint.pt", "checkpoint.json", "resumed.pt"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint stands for: the step, the passes and the training time up to it, and when it was saved (UTC ISO 8601)."""

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
    """Bring the last checkpoint of one run's folder into another's, where it outlives the first; None where there is none.

    A checkpoint is replaced, never written into, so a second name for the same file is as good as a copy.
    """
    found = last_checkpoint(source)
    if found is None:
        return None
    target.mkdir(parents=True, exist_ok=True)
    kept = target / RESUMED
    kept.unlink(missing_ok=True)
    try:
        kept.hardlink_to(source / TENSORS)
    except OSError:  # a file system without hard links
        shutil.copyfile(source / TENSORS, kept)
    return kept, found
