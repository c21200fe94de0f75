"""Entries of a trace for tests, in microseconds."""

import numpy as np

from engine.trace.chunk import DTYPE, Entries
from engine.trace.layout import NO_VERSION, NOBODY
from engine.trace.timeline import KIND


def traced(kind: str, entered_us: float, left_us: float, **rest: int) -> Entries:
    """Return one operation as an array of one entry; `rest` are further columns."""
    found = np.zeros(1, DTYPE)
    found["kind"], found["peer"], found["version"] = KIND[kind], NOBODY, NO_VERSION
    found["entered_ns"], found["left_ns"] = round(entered_us * 1e3), round(left_us * 1e3)
    for column, value in rest.items():
        found[column] = value
    return found
