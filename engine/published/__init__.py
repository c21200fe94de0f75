"""Published figures, and what a sweep says of their values. Torch-free."""

from engine.published.figures import (
    EXECUTION,
    FIGURES,
    PASSES,
    SIZES,
    WHOLE,
    Figure,
    PublishedValue,
    Size,
    Version,
    figure,
)

__all__ = ["EXECUTION", "FIGURES", "PASSES", "SIZES", "WHOLE", "Figure", "PublishedValue", "Size", "Version", "figure"]
