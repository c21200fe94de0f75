"""What a launch asks for its run beside its config: its place in the queue, how long it may be on, how often it is
tried again. Torch-free.
"""

from dataclasses import dataclass
from typing import Literal

from engine.errors import ConfigError, Problem

Priority = Literal["low", "normal", "high"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high")
LONGEST_S = 30 * 86_400.0
MOST_RETRIES = 10


@dataclass(frozen=True)
class Terms:
    """Launch options that queue and runner keep to; they are no setting of the experiment."""

    priority: Priority = "normal"
    """Runs of a higher one start first."""
    oversubscribe: bool = False
    """Whether it may start on cores that other runs hold, bound to none: sooner, and with times that say little."""
    max_run_time_s: float | None = None
    """Seconds from its worker taking the run to its end (None: no limit)."""
    max_retries: int = 0
    """How often a lost run is queued anew by itself, from its last checkpoint where it kept one."""

    def checked(self) -> "Terms":
        """Return itself; raises ConfigError for what breaks a rule."""
        problems = []
        if self.priority not in PRIORITIES:
            problems.append(unknown_priority(self.priority))
        if self.max_run_time_s is not None and not 1 <= self.max_run_time_s <= LONGEST_S:
            problems.append(
                Problem(
                    "max_run_time_s",
                    f"max_run_time_s must be from 1 to {LONGEST_S:,.0f} s (30 days), got {self.max_run_time_s:g}.",
                )
            )
        if not 0 <= self.max_retries <= MOST_RETRIES:
            problems.append(
                Problem("max_retries", f"max_retries must be from 0 to {MOST_RETRIES}, got {self.max_retries}.")
            )
        if problems:
            raise ConfigError(problems)
        return self


def unknown_priority(named: object) -> Problem:
    """Return what is wrong with a priority that is none."""
    return Problem("priority", f"priority must be one of {', '.join(PRIORITIES)}, got '{named}'.")


USUAL = Terms()
