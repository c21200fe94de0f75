"""A policy published layer by layer into the only copy that collectors read."""

from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.outcome import Broken, ExhibitOutcome

LAYERS, SIZE, UPDATES = 4, 64, 10


class Board:
    """Two copies of the policy's layers [2, layers, size], whose values are their version, and the version to read."""

    def __init__(self) -> None:
        self.copies = torch.zeros(2, LAYERS, SIZE)
        self.version = 0

    def take(self, place: int) -> Tensor:
        """Return the copy that a collector reads."""
        return self.copies[place].clone()


def wrong(seed: int) -> ExhibitOutcome:
    """Overwrite the copy that collectors read."""

    def publish(board: Board, version: int, meanwhile: Callable[[], None]) -> None:
        for layer in range(LAYERS):
            board.copies[0, layer] = version
            meanwhile()
        board.version = version

    return _played(publish, lambda board: board.take(0))


def right(seed: int) -> ExhibitOutcome:
    """Write into the unused copy, then switch readers to it by the version number."""

    def publish(board: Board, version: int, meanwhile: Callable[[], None]) -> None:
        for layer in range(LAYERS):
            board.copies[version % 2, layer] = version
            meanwhile()
        board.version = version

    return _played(publish, lambda board: board.take(board.version % 2))


def _played(
    publish: Callable[[Board, int, Callable[[], None]], None], take: Callable[[Board], Tensor]
) -> ExhibitOutcome:
    """Publish some versions; a collector starts a batch after each written layer, as it could at any moment."""
    board, series = Board(), dict[int, float]()

    def begin_batch() -> None:
        policy = take(board)
        series[len(series) + 1] = float(policy.max() - policy.min())

    for version in range(1, UPDATES + 1):
        publish(board, version, begin_batch)
    mixed = sum(apart > 0 for apart in series.values())
    return ExhibitOutcome({"mixed": float(mixed), "batches": float(len(series))}, series)


def invariant(outcome: ExhibitOutcome) -> None:
    """A batch uses one policy."""
    mixed, batches = outcome.numbers["mixed"], outcome.numbers["batches"]
    if mixed:
        raise Broken(
            f"Every batch must use one policy; {mixed:.0f} of {batches:.0f} mixed layers of two. Publish weights as "
            "a whole, in a copy that is not being read."
        )
