"""Entries of a trace as a NumPy array, a row per operation."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.trace.layout import ENTRY

DTYPE = np.dtype(
    [
        ("seq", "<u8"),
        ("entered_ns", "<i8"),
        ("left_ns", "<i8"),
        ("kind", "u1"),
        ("lane", "u1"),
        ("name", "<u2"),
        ("peer", "<i2"),
        ("depth", "u1"),
        ("flags", "u1"),
        ("bytes", "<i8"),
        ("step", "<i8"),
        ("number", "<i8"),
        ("version", "<i4"),
        ("value", "<i4"),
    ]
)
"""One operation: `lane` numbers the threads of a rank (0: its main thread), `depth` counts the operations around it,
`step` is the rank's last logged step, `version` that of the weights; `number` tells messages of one kind apart, and
`value` is the staleness of a gradient, or the stage of a pipeline.
"""
Entries = NDArray[Any]
"""Entries of `DTYPE`."""

assert DTYPE.itemsize == ENTRY.size
