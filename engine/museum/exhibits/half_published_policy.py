"""A policy that is published layer by layer into the one copy that collectors read."""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.outcome import Broken, ExhibitOutcome

LAYERS, SIZE, UPDATES = 4, 64, 10


class Board:
    """Two copies of the policy's layers [2, layers, size], each number the version that it belongs to, and the version
    to read.
    """

    def __init__(self) -> None:
        self.copies = torch.zeros(2, LAYERS, SIZE)
        self.version = 0

    def take(self, place: int) -> Tensor:
        """Return what a collector reads."""
        return self.copies[place].clone()


def wrong(seed: int) -> ExhibitOutcome:
    """Write over the copy that is read."""

    def publish(board: Board, version: int, meanwhile: Callable[[], None]) -> None:
        for layer in range(LAYERS):
            board.copies[0, layer] = version
            meanwhile()
        board.version = version

    return _played(publish, lambda board: board.take(0))


def right(seed: int) -> ExhibitOutcome:
    """Write into the other copy; its version, told last, makes it the one that is read."""

    def publish(board: Board, version: int, meanwhile: Callable[[], None]) -> None:
        for layer in range(LAYERS):
            board.copies[version % 2, layer] = version
            meanwhile()
        board.version = version

    return _played(publish, lambda board: board.take(board.version % 2))


def _played(
    publish: Callable[[Board, int, Callable[[], None]], None], take: Callable[[Board], Tensor]
) -> ExhibitOutcome:
    """Publish some versions; a collector begins a batch after each layer that was written, as it may at any moment."""
    board, series = Board(), dict[int, float]()

    def begin_batch() -> None:
        policy = take(board)
        series[len(series) + 1] = float(policy.max() - policy.min())

    for version in range(1, UPDATES + 1):
        publish(board, version, begin_batch)
    mixed = sum(apart > 0 for apart in series.values())
    return ExhibitOutcome({"mixed": float(mixed), "batches": float(len(series))}, series)


def invariant(outcome: ExhibitOutcome) -> None:
    """A batch has one policy."""
    mixed, batches = outcome.numbers["mixed"], outcome.numbers["batches"]
    if mixed:
        raise Broken(
            f"{mixed:.0f} of {batches:.0f} batches began with layers of two policies: weights must be "
            "published whole, in a copy that nobody reads yet."
        )
