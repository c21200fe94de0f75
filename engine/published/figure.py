"""Published figures: claim, source, published values, and the sweeps that reproduce them. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.registry import experiment
from engine.store import Launch, SweepLaunch

WHOLE, EXECUTION = "perf/whole_time_s", "perf/execution_time_s"
"""Start-up plus execution, as in published timings; and execution only."""
PASSES = "passes"
"""The axis of a learning curve: passes over the data by all ranks."""
PRESET = "published"
"""The preset with the settings of the source, of each experiment that has a figure."""
Size = Literal["full", "reduced"]
SIZES: tuple[Size, ...] = ("full", "reduced")


@dataclass(frozen=True)
class PublishedValue:
    """One published value."""

    metric: str
    x: float
    value: float
    spread: float = 0.0
    """Half the width of the range around the value; 0 where the source states none."""


@dataclass(frozen=True)
class Version:
    """One sweep that reproduces a figure."""

    grid: Mapping[str, tuple[Any, ...]]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the preset in every run."""
    seeds: int = 5
    reduced: tuple[str, ...] = ()
    """Reductions from the published work, one sentence each; empty for the full version."""
    tested_every: float = 1.0
    """Passes between two tests of a run, where the axis is PASSES."""


@dataclass(frozen=True)
class Figure:
    """One published result."""

    name: str
    title: str
    claim: str
    """The source's claim, in one sentence."""
    source: str
    experiment: str
    axis: str
    """The config field along x, or PASSES."""
    metric: str
    """The y-axis: WHOLE, or a metric."""
    versions: Mapping[Size, Version]
    line: str = ""
    """The config field that separates lines; empty where there is one line."""
    published: tuple[PublishedValue, ...] = ()
    """Empty where the source shows a picture without numbers."""
    published_label: str = "published"
    assumed: str = ""
    """The part of the set-up that the source leaves out, as we assumed it."""
    timed: bool = False
    """Whether it measures time: its runs are exclusive and must share the same hardware."""
    gpus: int = 0
    """GPUs that the source's timings used."""
    note: str = ""
    """Caveat for readers."""

    def key(self, size: Size) -> str:
        """Return the stored name of a sweep of this size."""
        return f"{self.name}/{size}"

    def sweep(self, size: Size, owner: str = "") -> SweepLaunch:
        """Return the sweep that reproduces it in a size, to launch."""
        version = self.versions[size]
        settings = {**experiment(self.experiment).preset(PRESET).settings, **version.changes}
        base = {name: value for name, value in settings.items() if name not in version.grid}
        runs = Launch(self.experiment, base, owner, PRESET, f"{self.title} ({size})")
        return SweepLaunch(runs, version.grid, version.seeds, exclusive=self.timed, figure=self.key(size))
