"""Published figures, and what a sweep says of their values. Torch-free."""

from engine.published.figure import EXECUTION, PASSES, SIZES, WHOLE, Figure, PublishedValue, Size, Version
from engine.published.figures import FIGURES, figure

__all__ = ["EXECUTION", "FIGURES", "PASSES", "SIZES", "WHOLE", "Figure", "PublishedValue", "Size", "Version", "figure"]
