"""How an experiment takes part in duels; a field of its `Experiment`. Torch-free and pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

from engine.experiment.work import Work

Kind = Literal["seconds", "passes", "updates", "bytes"]
KINDS: tuple[Kind, ...] = ("seconds", "passes", "updates", "bytes")


@dataclass(frozen=True)
class Pace:
    """The work of a method in one unit of its length and in one pass over the data."""

    passes: float
    """Passes over the data by all trainers in one unit of length; also between two tests."""
    updates: float
    """Model updates per pass."""
    bytes: float | None
    """Bytes sent between processes per pass; None for shared memory or a single process."""
    step_passes: float | None = None
    """Passes per step of the rank that tests, where others keep training meanwhile; None where each test records its
    own passes exactly.
    """
    step_updates: float = 1.0
    """Model updates per recorded step."""

    def units(self, kind: Kind, amount: float) -> int | None:
        """Return the length that reaches a budget, at least 1; None for seconds, which can't be computed, and for bytes
        where none are sent.
        """
        passes = self.passes_of(kind, amount)
        return None if passes is None else max(1, ceil(passes / self.passes - 1e-9))

    def passes_of(self, kind: Kind, amount: float) -> float | None:
        """Return a budget in passes, or None where it can't be computed."""
        if kind == "passes":
            return amount
        each = {"updates": self.updates, "bytes": self.bytes}.get(kind)
        return amount / each if each else None

    def spent(self, kind: Kind, step: int, time_s: float, passes: float | None) -> float:
        """Return the budget spent at a test, given its step, its time and (if recorded) its passes."""
        if kind == "seconds":
            return time_s
        if kind == "updates":
            return step * self.step_updates
        stood = step * self.step_passes if self.step_passes else passes or 0.0
        return stood if kind == "passes" else stood * (self.bytes or 0.0)


@dataclass(frozen=True)
class Ready:
    """A strategy offered under a short name."""

    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the shared ones."""


@dataclass(frozen=True)
class Contender:
    """The description of a method for duels. The method trains the shared net on the shared data and tests during
    training.
    """

    length: str
    """The setting for the length of training."""
    pace: Callable[[Any], Pace]
    """The work in one unit of that length under a config."""
    strategies: Mapping[str, Ready]
    """Strategies offered, under short names unique among all experiments."""
    data: str
    """The data each trainer trains on, in words."""
    momentum: Callable[[Any], str]
    """Who owns the momentum under a config, in words."""
    tests: str
    """Which rank tests, and which ranks wait for it, in words."""
    gradients: Callable[[Any], int] = lambda config: 1
    """Gradients per update under a config."""
    given: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda settings: {}
    """Settings that the duel derives from all others; a strategy's own settings take precedence."""

    def work(self, config: Any, pass_size: int) -> Work:
        """Return the total work of a run of that config, whose passes have `pass_size` samples."""
        pace = self.pace(config)
        passes = getattr(config, self.length) * pace.passes
        steps = round(passes / pace.step_passes) if pace.step_passes else None
        return Work(self.length, round(passes * pass_size), passes=passes, updates=passes * pace.updates, steps=steps)
