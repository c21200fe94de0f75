"""A half-published policy: a fault of dppo.

source: The public reader-writer code of DPPO that the note on bounded queues starts from
wrong: The learner writes layer by layer into the only copy of the policy that collectors read: a collector that starts
    a batch in the meantime plays with layers of two policies.
right: There are two copies. The learner writes the unused one, then a version number switches readers to it.
seen: A collector starts a batch after each layer is written. Three of four batches start with a mixture that belongs to
    no version.
chart: Version spread within one policy against Batch
values: mixed = Mixed policies (batches); batches = Batches started (batches)
rule: mixed = 0
broken: Every batch must use one policy; {mixed:.0f} of {batches:.0f} mixed layers of two. Publish weights as a whole,
    in a copy that is not being read.
guard: tests/experiments/dppo/test_dppo.py::test_weights_are_taken_whole_while_another_process_publishes
"""

from collections.abc import Callable

import torch

from engine.museum.exhibit import Outcome, Version

LAYERS, SIZE, UPDATES = 4, 64, 10


class Board:
    """Two copies of the policy's layers [2, layers, size], whose values are their version; collectors read one."""

    def __init__(self) -> None:
        self.copies, self.shown = torch.zeros(2, LAYERS, SIZE), 0


def wrong(board: Board, version: int, meanwhile: Callable[[], None]) -> None:
    for layer in board.copies[board.shown]:
        layer.fill_(version)
        meanwhile()


def right(board: Board, version: int, meanwhile: Callable[[], None]) -> None:
    for layer in board.copies[1 - board.shown]:
        layer.fill_(version)
        meanwhile()
    board.shown = 1 - board.shown


def measure(seed: int, publish: Version) -> Outcome:
    """Publish some versions; a collector starts a batch after each written layer, as it could at any moment."""
    board, series = Board(), dict[int, float]()

    def begin_batch() -> None:
        policy = board.copies[board.shown]
        series[len(series) + 1] = float(policy.max() - policy.min())

    for version in range(1, UPDATES + 1):
        publish(board, version, begin_batch)
    return Outcome({"mixed": sum(apart > 0 for apart in series.values()), "batches": len(series)}, series)
