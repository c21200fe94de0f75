"""Checkpoints of a run: what training needs to go on, written aside and renamed, so that the last good one always
stands whole.

Beside `checkpoint.pt` lies `checkpoint.json`, which says without torch where the training was.
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
    """Saves a run's state each `every_s` seconds (0: never); for the one rank that holds the state.

    Use: `if checkpoints.due(): checkpoints.save({...}, step=step, passes=passes, time_s=training_time)`. A checkpoint
    stands for every point that its rank has recorded: `flush` (the recorder's) sends them before there is one, or a
    resumed run would go on beyond points that died with the rank.
    """

    def __init__(self, folder: Path, every_s: float, flush: Callable[[], None]) -> None:
        self._folder = folder
        self._every_s = every_s
        self._flush = flush
        self._saved_at = time.monotonic()

    def due(self) -> bool:
        """Say whether it is time for the next one."""
        return self._every_s > 0 and time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: Mapping[str, Any], *, step: int, passes: float, time_s: float) -> bool:
        """Write `state` (tensors and plain values); return False, and keep the one before, where a tensor of it is not
        finite.

        `time_s` is the training time that the state stands for.
        """
        self._saved_at = time.monotonic()
        if not all(_finite(value) for value in state.values()):
            return False
        tensors, about = (self._folder / f"{name}.part" for name in (TENSORS, ABOUT))
        torch.save(dict(state), tensors)
        about.write_text(json.dumps({"step": step, "passes": passes, "time_s": time_s, "saved_at": now()}))
        self._flush()
        tensors.replace(
            self._folder / TENSORS
        )  # both at once, as far as that goes: one beside the other's predecessor is a checkpoint of no step
        about.replace(self._folder / ABOUT)
        return True


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state that a run saved; raises DataError where the file is missing or damaged."""
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise DataError(
            f"The checkpoint {path.name} can't be read ({error}). Launch the run anew instead of resuming it."
        ) from error
    return state


def _finite(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return True
