"""The live weights as the reply: the transport reads them after the handler returns, while updates are written."""

import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

from engine.museum.outcome import Broken, ExhibitOutcome

SIZE, FETCHES = 4096, 22
PATIENCE_S, UPDATE_S = 10.0, 0.001


class Server:
    """Weights to which a pusher adds 1 per update, so that each weight equals its version."""

    def __init__(self) -> None:
        self.weights = torch.zeros(SIZE)
        self.version = 0
        self.lock = threading.Lock()
        self.moved = threading.Condition(self.lock)
        self.over = False

    def update_until_over(self) -> None:
        """Simulate the other trainers: push one gradient after another."""
        while not self.over:
            time.sleep(UPDATE_S)
            with self.moved:
                self.weights += 1
                self.version += 1
                self.moved.notify_all()

    def wait_for_an_update(self) -> None:
        """Return when another update has been applied."""
        with self.moved:
            seen = self.version
            self.moved.wait_for(lambda: self.version > seen, PATIENCE_S)


def wrong(seed: int) -> ExhibitOutcome:
    """Answer a fetch with the weights themselves."""
    return _fetched(lambda server: server.weights)


def right(seed: int) -> ExhibitOutcome:
    """Answer a fetch with a copy made under the lock."""

    def copy(server: Server) -> Tensor:
        with server.lock:
            return server.weights.clone()

    return _fetched(copy)


def _fetched(handle: Callable[[Server], Tensor]) -> ExhibitOutcome:
    server = Server()
    pusher = threading.Thread(target=server.update_until_over, daemon=True)
    pusher.start()
    series = {}
    for number in range(1, FETCHES + 1):
        received = _send(handle(server), server)
        series[number] = float(received.max() - received.min())
    server.over = True
    pusher.join(PATIENCE_S)
    return ExhibitOutcome(
        {"torn": float(sum(apart > 0 for apart in series.values())), "fetches": float(FETCHES)}, series
    )


def _send(reply: Tensor, server: Server) -> Tensor:
    """Send a reply like a transport, in pieces and after the handler has returned, with an update in between."""
    received = torch.empty_like(reply)
    received[: SIZE // 2] = reply[: SIZE // 2]
    server.wait_for_an_update()
    received[SIZE // 2 :] = reply[SIZE // 2 :]
    return received


def invariant(outcome: ExhibitOutcome) -> None:
    """No reply mixes two versions."""
    torn, fetches = outcome.numbers["torn"], outcome.numbers["fetches"]
    if torn:
        raise Broken(
            f"Every reply must have one version; {torn:.0f} of {fetches:.0f} mix versions. Reply with a copy made "
            "under the update lock."
        )
