"""Checkpoints of a run: its training state, written to a temporary file and renamed, so that the last good one is
always complete.

Next to `checkpoint.pt`, `checkpoint.json` describes the training position without torch.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from engine.errors import DataError
from engine.store.timestamps import now

TENSORS = "checkpoint.pt"
ABOUT = "checkpoint.json"


class Checkpoints:
    """Saves a run's state every `every_s` seconds (0: never), in the rank that holds the state.

    Use: `if checkpoints.due(): checkpoints.save({...}, step=step, passes=passes, time_s=training_time)`. A checkpoint
    includes every point that its rank has recorded: `flush` (the recorder's) sends them first, or a resumed run would
    continue past points that died with the rank.
    """

    def __init__(self, folder: Path, every_s: float, flush: Callable[[], None]) -> None:
        self._folder = folder
        self._every_s = every_s
        self._flush = flush
        self._saved_at = time.monotonic()

    def due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return self._every_s > 0 and time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: Mapping[str, Any], *, step: int, passes: float, time_s: float) -> bool:
        """Write `state` (tensors and plain values); return False, and keep the previous one, if a tensor of it is not
        finite.

        `time_s` is the training time of the state.
        """
        self._saved_at = time.monotonic()
        if not all(_finite(value) for value in state.values()):
            return False
        tensors, about = (self._folder / f"{name}.part" for name in (TENSORS, ABOUT))
        torch.save(dict(state), tensors)
        about.write_text(json.dumps({"step": step, "passes": passes, "time_s": time_s, "saved_at": now()}))
        self._flush()
        tensors.replace(self._folder / TENSORS)  # rename both together: a mix of two checkpoints would match no step
        about.replace(self._folder / ABOUT)
        return True


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state saved by a run, on the CPU whatever device it was on; raises DataError if the file is missing or
    damaged.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise DataError(
            f"The checkpoint {path.name} can't be read ({error}). Launch a new run instead of resuming this one."
        ) from error
    return state


def _finite(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return True
