"""Launch the sweep that reproduces a figure. Torch-free."""

from engine.home import Home
from engine.launch import PAGE_TIMEOUT_S
from engine.published import figure
from engine.published.figure import Figure, Size
from engine.registry import experiment
from engine.sweep.launch import SweepOrder


def order_of(found: Figure, size: Size) -> SweepOrder:
    """Return the sweep order of a figure and size; a modified preset contributes its values, not its name."""
    version = found.versions[size]
    settings = {**experiment(found.experiment).preset(version.preset).settings, **version.changes}
    base = {name: value for name, value in settings.items() if name not in version.grid}
    title = f"{found.title} ({size})"
    preset = None if version.changes else version.preset
    return SweepOrder(
        found.experiment,
        preset,
        base,
        version.grid,
        version.seeds,
        title,
        exclusive=found.timed,
        figure=found.key(size),
    )


def launch_figure(home: Home, name: str, size: Size, *, owner: str, timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue the sweep of a published figure and return its id; raises UnknownName and the errors of `launch_sweep`."""
    return order_of(figure(name), size).launch(home, owner=owner, timeout_s=timeout_s)
