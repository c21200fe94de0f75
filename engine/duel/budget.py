"""How far one unit of a method's length takes it, in passes, updates and bytes: by arithmetic from its config, before
anything runs. Torch-free and pure.
"""

from collections.abc import Sequence
from math import ceil

from engine.data.catalogue import data_set

WEIGHTS = 21_840
"""Numbers in the one net that all of them train."""


def steps_of(dataset: str, batch_size: int) -> int:
    """Return the mini-batches in one pass over a data set."""
    return ceil(data_set(dataset).train / batch_size)


def steps_of_parts(dataset: str, trainers: int, batch_size: int) -> Sequence[int]:
    """Return the mini-batches that each trainer has in one pass; parts are taken to be equal, the last with the
    remainder.
    """
    size = data_set(dataset).train
    parts = [size // trainers] * (trainers - 1) + [size - size // trainers * (trainers - 1)]
    return [ceil(part / batch_size) for part in parts]


def bytes_exchanged(exchanges: float, width: int = 4) -> float:
    """Return the bytes of exchanges, in each of which a trainer gives a vector and gets one, a number `width` bytes."""
    return exchanges * 2 * WEIGHTS * width
