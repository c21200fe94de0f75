"""Smoothing of long, noisy curves; as in chart/smooth.js. Pure."""

import numpy as np

from engine.analysis.statistics.resample import Floats
from engine.metrics import metric


def weight(name: str, asked: float) -> float:
    """Return the effective smoothing (0 to 1) of a metric's curves for a requested smoothing."""
    return asked if metric(name).smooth else 0.0


def smoothed(values: Floats, weight: float) -> Floats:
    """Return the bias-corrected exponential moving average, as in smooth.js: within the range of the values so far;
    gaps are kept.
    """
    found = np.empty(values.shape)
    mean, norm = np.nan, 0.0
    for place, value in enumerate(values.tolist()):
        if value != value:
            found[place] = np.nan
            continue
        norm = norm * weight + (1 - weight)
        mean = value if mean != mean else mean + (value - mean) * ((1 - weight) / norm)
        found[place] = mean
    return found


def is_monotone(values: Floats) -> bool:
    """Return whether a curve is monotone or constant: it has no noise, and an average would lag behind it."""
    steps = np.diff(values[np.isfinite(values)])
    return bool((steps >= 0).all() or (steps <= 0).all())
