"""Checkpoints of a run: its training state and position in one file, which replaces the previous one at once.

A rank writes the file under a temporary name; the worker renames it when all points that it includes are stored
(`RunProgress`). A resumed run continues from the checkpoint, so a point that it includes but that died on the way to
the store would be lost for good.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from engine.errors import DataError
from engine.runtime.rank.rank import Rank, Saved
from engine.store.timestamps import now
from engine.system.checkpoint_state import PARTS, POSITION, Checkpoint

NONE: Mapping[int, int] = {}


class Checkpoints:
    """Saves a run's state every `every_s` seconds (0: never), in the rank that holds the state.

    Use: `if checkpoints.due(): checkpoints.save({...}, step=step, passes=passes, time_s=training_time)`.
    """

    def __init__(self, rank: Rank, every_s: float) -> None:
        self._rank = rank
        self._every_s = every_s
        self._saved_at = time.monotonic()
        self._count = 0

    def due(self) -> bool:
        """Return whether the next checkpoint is due."""
        return self._every_s > 0 and time.monotonic() - self._saved_at >= self._every_s

    def save(
        self,
        state: Mapping[str, Any],
        *,
        step: int,
        passes: float,
        time_s: float,
        steps: Mapping[int, int] = NONE,
    ) -> bool:
        """Write `state` (tensors and plain values); return False, and keep the previous one, if a tensor of it is not
        finite.

        `time_s` is the training time of the state, `steps` the last step that it includes of each rank that records
        steps. It includes what this rank has recorded so far.
        """
        self._saved_at = time.monotonic()
        if not all(_finite(value) for value in state.values()):
            return False
        self._count += 1
        path = self._rank.folder / PARTS.replace("*", str(self._count))
        position = asdict(Checkpoint(step, passes, time_s, now(), dict(steps), self._rank.context.uid))
        with self._rank.recorder.operation("other", "checkpoint"), path.open("wb") as file:
            torch.save({**state, POSITION: position}, file)
            file.flush()
            os.fsync(file.fileno())
        self._rank.recorder.flush()
        self._rank.publish(Saved(path.name, dict(steps)))
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
