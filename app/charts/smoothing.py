"""Smoothing of long, noisy curves; as in chart/smooth.js. Pure."""

import numpy as np

from engine.analysis.statistics.resample import Floats
from engine.metrics import metric


def weight(name: str, asked: float) -> float:
    """Return the effective smoothing (0 to 1) of a metric's curves for a requested smoothing."""
    return asked if metric(name).smooth else 0.0


FULL = 200
"""Points from which a requested smoothing counts in full; a shorter curve is smoothed less, or it would lag visibly."""


def smoothed(values: Floats, weight: float) -> Floats:
    """Return the bias-corrected exponential moving average, as in smooth.js: within the range of the values so far;
    gaps are kept.
    """
    weight **= max(1.0, FULL / max(1, (~np.isnan(values)).sum()))
    found = np.empty(values.shape)
    mean, norm = 0.0, 0.0
    for place, value in enumerate(values.tolist()):
        if value != value:
            found[place] = np.nan
            continue
        norm = norm * weight + (1 - weight)
        share = (1 - weight) / norm
        # From the nearer end, so that rounding leaves it between the two
        mean = mean + (value - mean) * share if share < 0.5 else value - (value - mean) * (1 - share)
        found[place] = mean
    return found


def is_monotone(values: Floats) -> bool:
    """Return whether a curve is monotone or constant: it has no noise, and an average would lag behind it."""
    steps = np.diff(values[np.isfinite(values)])
    return bool((steps >= 0).all() or (steps <= 0).all())
