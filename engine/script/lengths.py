"""The setting of a script that its run time is proportional to, by its name. Torch-free and pure."""

from collections.abc import Mapping
from typing import Any

NAMES = (
    *("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "train_epochs", "nb_epochs"),
    *("max_steps", "num_steps", "steps", "train_steps", "max_iters", "iterations", "total_timesteps"),
)
"""The first of these that a script has counts."""


def length_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name of that setting; empty if there is none, or its value is no positive number."""
    found = next((name for name in NAMES if settings.get(name) is not None), "")
    value = settings.get(found)
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return (found,) if is_count else ()
