"""Passes, updates and bytes per unit of a method's length, computed from its config. Torch-free and pure."""

from collections.abc import Sequence
from math import ceil

from engine.data.catalogue import MODELS, ModelName, data_set


def steps_of(dataset: str, batch_size: int) -> int:
    """Return the number of mini-batches in one pass over a data set."""
    return ceil(data_set(dataset).train / batch_size)


def steps_of_parts(dataset: str, trainers: int, batch_size: int) -> Sequence[int]:
    """Return the mini-batches per trainer in one pass, for equal parts with the remainder in the last."""
    size = data_set(dataset).train
    parts = [size // trainers] * (trainers - 1) + [size - size // trainers * (trainers - 1)]
    return [ceil(part / batch_size) for part in parts]


def bytes_exchanged(exchanges: float, width: int = 4, model: ModelName = "mnist_net") -> float:
    """Return the bytes of `exchanges`; in each, a trainer sends and receives the model as `width`-byte numbers."""
    return exchanges * 2 * MODELS[model].weights * width
