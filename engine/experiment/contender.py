"""How an experiment takes part in duels; stands on its `Experiment`. Torch-free and pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

Kind = Literal["seconds", "passes", "updates", "bytes"]
KINDS: tuple[Kind, ...] = ("seconds", "passes", "updates", "bytes")


@dataclass(frozen=True)
class Pace:
    """What a method does in one unit of its length, and in one pass over the data."""

    passes: float
    """Passes over the data, by all trainers, in one unit of it; also from one test to the next."""
    updates: float
    """Updates of the model in one pass."""
    bytes: float | None
    """Bytes that travel between processes in one pass; None where they share memory instead, or there is one alone."""
    step_passes: float | None = None
    """Passes that one step of whoever tests stands for, where others train on meanwhile; None where a test records its
    own passes exactly.
    """
    step_updates: float = 1.0
    """Updates of the model that one recorded step stands for."""

    def units(self, kind: Kind, amount: float) -> int | None:
        """Return the length that reaches a budget, at least 1; None for seconds, which no arithmetic tells, and for
        bytes where none travel.
        """
        passes = self.passes_of(kind, amount)
        return None if passes is None else max(1, ceil(passes / self.passes - 1e-9))

    def passes_of(self, kind: Kind, amount: float) -> float | None:
        """Return a budget in passes, None where it can't be told."""
        if kind == "passes":
            return amount
        each = {"updates": self.updates, "bytes": self.bytes}.get(kind)
        return amount / each if each else None

    def spent(self, kind: Kind, step: int, time_s: float, passes: float | None) -> float:
        """Return how much of a budget was spent at a test, which was recorded at a step, a time and (where known) so
        many passes.
        """
        if kind == "seconds":
            return time_s
        if kind == "updates":
            return step * self.step_updates
        stood = step * self.step_passes if self.step_passes else passes or 0.0
        return stood if kind == "passes" else stood * (self.bytes or 0.0)


@dataclass(frozen=True)
class Ready:
    """A strategy that is offered under a short name."""

    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it has beside what all share."""


@dataclass(frozen=True)
class Contender:
    """What a duel has to know of a method, which learns the one net on the data that all share and tests on its way."""

    length: str
    """The setting that says how long it trains."""
    pace: Callable[[Any], Pace]
    """How far one unit of that length takes a config."""
    strategies: Mapping[str, Ready]
    """Those that are offered, by short names that no other experiment has."""
    data: str
    """What of the data each trainer trains on, in words."""
    momentum: Callable[[Any], str]
    """Whose the momentum is under a config, in words."""
    tests: str
    """Who tests, and who waits meanwhile, in words."""
    gradients: Callable[[Any], int] = lambda config: 1
    """Gradients that make one update under a config."""
    given: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda settings: {}
    """Settings that the duel gives it, made from all that it would have else; a strategy's own outdo them."""
