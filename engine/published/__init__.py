"""The table of published figures; register new ones here. Torch-free."""

from collections.abc import Sequence

from engine.errors import UnknownName
from engine.published.dppo import DPPO
from engine.published.figure import EXECUTION, PASSES, SIZES, WHOLE, Figure, PublishedSeries, Size, Version
from engine.published.mnist import HOGWILD, SERVER, SYNC
from engine.published.pipeline import AS_READ, AS_RUN
from engine.published.reinforce import REINFORCE

FIGURES: Sequence[Figure] = (REINFORCE, AS_READ, AS_RUN, SERVER, HOGWILD, SYNC, DPPO)

__all__ = ["EXECUTION", "FIGURES", "PASSES", "SIZES", "WHOLE", "Figure", "PublishedSeries", "Size", "Version", "figure"]


def figure(name: str) -> Figure:
    """Return a figure by name; raises UnknownName, which suggests the closest name."""
    found = {each.name: each for each in FIGURES}
    if name not in found:
        raise UnknownName("figure", name, found, field="figure")
    return found[name]
