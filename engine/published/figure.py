"""What a published figure is: its claim and source, the numbers as published, the sweeps that reproduce it, and the
rules that judge them. Torch-free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.published.rules import Rule

WHOLE, EXECUTION = "perf/whole_time_s", "perf/execution_time_s"
"""Start-up and execution together, as published timings count; and execution alone."""
PASSES = "passes"
"""The axis of a figure about one run's way: passes over the data by all ranks."""
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
    """What differs from the preset in every run."""
    seeds: int = 5
    reduced: tuple[str, ...] = ()
    """What is less than published, a sentence each; empty for the full version."""
    values_count: bool = True
    """Whether its values can be held against the published ones; else only shapes are judged."""
    tested_every: float = 1.0
    """Passes from one test of a run to the next, where the axis is PASSES."""
    rules: tuple[Rule, ...] | None = None
    """Shapes of its own, where the figure's do not go with what was reduced."""


@dataclass(frozen=True)
class Figure:
    """One published result."""

    name: str
    title: str
    claim: str
    """What the source says, in one sentence."""
    source: str
    """Where it stands, and what is published of it."""
    experiment: str
    axis: str
    """The config field along x, or PASSES."""
    number: str
    """What is drawn along y: WHOLE, or a metric."""
    rules: tuple[Rule, ...]
    versions: Mapping[Size, Version]
    line: str = ""
    """The config field that tells lines apart; empty where there is one line."""
    published: tuple[PublishedSeries, ...] = ()
    """Empty where the source shows a picture without numbers."""
    assumed: str = ""
    """What the source leaves open and was assumed; empty where nothing was."""
    chosen: str = ""
    """What was chosen by the outcome it gives, so that the figure can't be called reproduced; empty where nothing was.
    """
    timed: bool = False
    """Whether it is about time: its runs have the machine to themselves, and must have run on the same hardware."""
    hardware: str = ""
    """What the source's times were measured on, in words, where its values are times."""
    gpus: int = 0
    """GPUs that a machine needs for its times to be held against the source's."""
    note: str = ""
    """What to know when reading it."""

    def key(self, size: Size) -> str:
        """Return the name under which a sweep of that size is kept."""
        return f"{self.name}/{size}"

    def judged(self, size: Size) -> tuple[Rule, ...]:
        """Return the rules of that size, its floor first: where it has shapes of its own, those in place of the
        figure's, beside the figure's values.
        """
        own = self.versions[size].rules
        rules = self.rules if own is None else (*(rule for rule in self.rules if rule.kind == "value"), *own)
        return tuple(sorted(rules, key=lambda rule: rule.kind != "floor"))
