"""Track which of a server's clients have closed their connection: a server that exits first would cut off its last
answers.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.runtime.rank.rank import Rank

GOODBYE_S = 2.0
"""Seconds that a finished server waits for clients to close their connections; a stopped one never does."""


@dataclass(frozen=True)
class Disconnects:
    """The clients, by rank index; passed to the ranks as an argument of `Ranks.run`."""

    clients: tuple[int, ...]
    said: Tensor = field(default_factory=lambda: torch.zeros(0))
    """uint8 [clients] in shared memory."""

    @classmethod
    def create(cls, clients: tuple[int, ...]) -> "Disconnects":
        """Return a list without departures."""
        return cls(clients, torch.zeros(len(clients), dtype=torch.uint8).share_memory_())  # type: ignore[no-untyped-call]

    @contextmanager
    def at_exit(self, rank: Rank) -> Iterator[None]:
        """Mark this client as departed at the end of the block."""
        try:
            yield
        finally:
            self.said[self.clients.index(rank.index)] = 1

    def wait(self, rank: Rank) -> None:
        """Wait briefly until every client has left or is gone."""
        deadline = time.monotonic() + GOODBYE_S
        while time.monotonic() < deadline:
            said, gone = self.said.tolist(), rank.gone()
            if all(said[place] or client in gone for place, client in enumerate(self.clients)):
                return
            time.sleep(0.002)
