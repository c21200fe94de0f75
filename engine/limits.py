"""What a launch allows its run beside its config: how long it may be on, and how often it is tried again where it is lost."""

from dataclasses import dataclass

from engine.errors import ConfigError, Problem

LONGEST_S = 30 * 86_400.0
MOST_RETRIES = 10


@dataclass(frozen=True)
class Limits:
    """Launch options that the runner enforces; they are no setting of the experiment and change no figure."""

    max_run_time_s: float | None = None
    """Seconds from its worker taking the run to its end (None: no limit)."""
    max_retries: int = 0
    """How often a lost run is queued anew by itself, from its last checkpoint where it kept one."""

    def checked(self) -> "Limits":
        """Return itself; raises ConfigError for what breaks a rule."""
        problems = []
        if self.max_run_time_s is not None and not 1 <= self.max_run_time_s <= LONGEST_S:
            problems.append(Problem("max_run_time_s", f"max_run_time_s must be from 1 to {LONGEST_S:,.0f} s (30 days), got {self.max_run_time_s:g}."))
        if not 0 <= self.max_retries <= MOST_RETRIES:
            problems.append(Problem("max_retries", f"max_retries must be from 0 to {MOST_RETRIES}, got {self.max_retries}."))
        if problems:
            raise ConfigError(problems)
        return self


NO_LIMITS = Limits()
