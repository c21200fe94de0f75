"""Launch options besides the config: priority, time limit, retries, end of a hung run. Torch-free."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import ConfigError, Problem

Priority = Literal["low", "normal", "high"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high")
LONGEST_S = 30 * 86_400.0
MOST_RETRIES = 10
HERE = "this machine"
"""The target of runs that no cluster runs, in filters, columns and groups."""


@dataclass(frozen=True)
class LaunchOptions:
    """Launch options for queue and runner, separate from the experiment's settings."""

    priority: Priority = "normal"
    """Runs of higher priority start first."""
    oversubscribe: bool = False
    """Whether it may start on cores that other runs hold, without core binding: sooner, but with unreliable timings."""
    max_run_time_s: float | None = None
    """Maximum seconds from the claim by its worker to its end (None: no limit)."""
    max_retries: int = 0
    """Number of automatic retries of a lost run, from its last checkpoint if it has one."""
    end_when_hung: bool = False
    """Whether the run fails, with the cause, when the hang doctor finds that it stands still."""
    target: str = ""
    """The cluster that it runs on; empty for this machine."""
    nodes: int = 1
    """Number of the cluster's nodes that its ranks are spread over."""

    def checked(self) -> "LaunchOptions":
        """Return the options; raises ConfigError for an invalid value."""
        problems = []
        if self.priority not in PRIORITIES:
            problems.append(unknown_priority(self.priority))
        if self.max_run_time_s is not None and not 1 <= self.max_run_time_s <= LONGEST_S:
            problems.append(
                Problem(
                    "max_run_time_s",
                    f"Time limit must be from 1 to {LONGEST_S:,.0f} s (30 days), got {self.max_run_time_s:,.12g}.",
                )
            )
        if not 0 <= self.max_retries <= MOST_RETRIES:
            problems.append(
                Problem("max_retries", f"Retries must be from 0 to {MOST_RETRIES}, got {self.max_retries}.")
            )
        if problems:
            raise ConfigError(problems)
        return self


def unknown_priority(named: object) -> Problem:
    """Return the error for an unknown priority."""
    return Problem("priority", f"priority must be one of {', '.join(PRIORITIES)}, got '{named}'.")


USUAL = LaunchOptions()
