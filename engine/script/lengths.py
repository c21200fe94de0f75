"""The setting of a script that its run time is proportional to, by its name, and how far the script is by it.
Torch-free and pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Progress = tuple[int, int, str]
"""Done, total and the unit; a total of 0 is unknown."""
UNKNOWN: Progress = (0, 0, "")

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


@dataclass
class LengthProgress:
    """How far a script is, from the setting that is its length and the step or epoch that it prints or logs."""

    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        self._names, self._first = length_of(self.settings), 1

    def at(self, step: int | None, epoch: int | None) -> Progress:
        """Return the progress; unknown without a length, and for good once what is printed exceeds it."""
        for name in self._names:
            total = int(self.settings[name])
            done, unit = (epoch, "epochs") if "epoch" in name.lower() else (step, "steps")
            if done is not None and done <= total:
                return done, total, unit
            self._names = self._names if done is None else ()
        return UNKNOWN

    def over_epochs(self, progress: Progress, epoch: int) -> Progress:
        """Return progress within an epoch as that of the run, where the length is a number of epochs; else as it is."""
        self._first = min(self._first, epoch)
        for name in self._names:
            epochs, before = int(self.settings[name]), epoch - self._first
            if "epoch" in name.lower() and before < epochs:
                done, total, unit = progress
                return before * total + done, epochs * total, unit
        return progress


@dataclass
class ScriptPace:
    """The rate of a script's progress between its first and its last value: a start-up counts for nothing."""

    first: tuple[Progress, float] | None = None
    last: tuple[Progress, float] | None = None

    def add(self, progress: Progress, at_s: float) -> None:
        """Take the progress at a time; what has another total, or falls, begins again."""
        if not progress[1] or (self.last and progress == self.last[0]):
            return
        if self.last and (progress[1:] != self.last[0][1:] or progress[0] < self.last[0][0]):
            self.first = None
        self.last = progress, at_s
        self.first = self.first or self.last

    @property
    def per_second(self) -> float | None:
        """Return the rate; None before a second value."""
        if self.first is None or self.last is None or self.last[1] <= self.first[1]:
            return None
        return (self.last[0][0] - self.first[0][0]) / (self.last[1] - self.first[1])
