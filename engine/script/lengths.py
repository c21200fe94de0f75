"""The setting of a script that its run time is proportional to, by its name. Torch-free and pure."""

import re
from collections.abc import Mapping
from typing import Any

NAMES = (
    *("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "train_epochs", "nb_epochs"),
    *("max_steps", "num_steps", "steps", "train_steps", "max_train_steps", "num_train_steps", "total_steps"),
    *("max_iters", "max_iter", "num_iters", "iterations", "num_iterations", "total_timesteps", "timesteps"),
    *("num_episodes", "episodes", "num_updates"),
)
"""The first of these that a script has counts, as a setting or within a group: `trainer.max_epochs`, `EPOCHS`."""


def length_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name of that setting; empty if there is none whose value is a positive number."""
    known = {re.split(r"[./]", name)[-1].lower(): name for name, value in settings.items() if _is_count(value)}
    return tuple(known[name] for name in NAMES if name in known)[:1]


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
