"""From a figure to the sweep that reproduces it. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S
from engine.published import figure
from engine.published.figure import Figure, Size
from engine.registry import experiment
from engine.sweep import Plan, launch_sweep, plan


@dataclass(frozen=True)
class Order:
    """A sweep before its launch."""

    experiment: str
    preset: str | None
    base: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    seeds: int
    title: str
    exclusive: bool
    figure: str

    def plan(self) -> Plan:
        """Return every run of it."""
        return plan(self.experiment, self.base, self.grid, self.seeds, exclusive=self.exclusive)


def order_of(found: Figure, size: Size) -> Order:
    """Return the sweep of a figure in a size; a preset that is changed gives its values, not its name."""
    version = found.versions[size]
    settings = {**experiment(found.experiment).preset(version.preset).settings, **version.changes}
    base = {name: value for name, value in settings.items() if name not in version.grid}
    title = f"{found.title} ({size})"
    preset = None if version.changes else version.preset
    return Order(found.experiment, preset, base, version.grid, version.seeds, title, found.timed, found.key(size))


def launch_figure(home: Home, name: str, size: Size, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue the sweep of a published figure and return the sweep's id; raises UnknownName, and what `launch_sweep` raises."""
    wanted = order_of(figure(name), size)
    return launch_sweep(
        home,
        wanted.experiment,
        wanted.base,
        wanted.grid,
        wanted.seeds,
        owner=owner,
        preset=wanted.preset,
        title=wanted.title,
        timeout_s=timeout_s,
        exclusive=wanted.exclusive,
        figure=wanted.figure,
    )
