"""Published figures: claim, source, published values, the sweeps that reproduce them, and the rules that judge them.
Torch-free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.published.rules import Rule

WHOLE, EXECUTION = "perf/whole_time_s", "perf/execution_time_s"
"""Start-up plus execution, as in published timings; and execution only."""
PASSES = "passes"
"""The axis of a learning curve: passes over the data by all ranks."""
Size = Literal["full", "reduced"]
SIZES: tuple[Size, ...] = ("full", "reduced")


@dataclass(frozen=True)
class PublishedSeries:
    """One published series."""

    label: str
    points: Mapping[float, float]


@dataclass(frozen=True)
class Version:
    """One sweep that reproduces a figure."""

    preset: str
    grid: Mapping[str, tuple[Any, ...]]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the preset in every run."""
    seeds: int = 5
    reduced: tuple[str, ...] = ()
    """Reductions from the published work, one sentence each; empty for the full version."""
    values_count: bool = True
    """Whether its values are comparable with the published ones; otherwise only shapes are judged."""
    tested_every: float = 1.0
    """Passes between two tests of a run, where the axis is PASSES."""
    rules: tuple[Rule, ...] | None = None
    """Own shape rules, where the figure's don't apply to the reduced work."""


@dataclass(frozen=True)
class Figure:
    """One published result."""

    name: str
    title: str
    claim: str
    """The source's claim, in one sentence."""
    source: str
    """The source, and the published values."""
    experiment: str
    axis: str
    """The config field along x, or PASSES."""
    number: str
    """The y-axis: WHOLE, or a metric."""
    rules: tuple[Rule, ...]
    versions: Mapping[Size, Version]
    line: str = ""
    """The config field that separates lines; empty where there is one line."""
    published: tuple[PublishedSeries, ...] = ()
    """Empty where the source shows a picture without numbers."""
    assumed: str = ""
    """Assumptions about values that the source doesn't specify."""
    chosen: str = ""
    """Set-up chosen by its outcome, so that the figure can't be called reproduced."""
    timed: bool = False
    """Whether it measures time: its runs are exclusive and must share the same hardware."""
    hardware: str = ""
    """Hardware of the source's timings."""
    gpus: int = 0
    """GPUs that a machine needs for its timings to be comparable with the source's."""
    note: str = ""
    """Caveat for readers."""

    def key(self, size: Size) -> str:
        """Return the stored name of a sweep of this size."""
        return f"{self.name}/{size}"

    def judged(self, size: Size) -> tuple[Rule, ...]:
        """Return the rules of a size, floors first; the size's own shape rules replace the figure's."""
        own = self.versions[size].rules
        rules = self.rules if own is None else (*(rule for rule in self.rules if rule.kind == "value"), *own)
        return tuple(sorted(rules, key=lambda rule: rule.kind != "floor"))
