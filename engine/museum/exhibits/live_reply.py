"""The live model as the reply: a fault of parameter_server.

source: PyTorch's tutorial on batch RPC processing: the parameter server
wrong: The handler returns the server's own weights. The transport reads them after the handler has returned, while
    other handlers write the next update into them: the reply mixes two versions.
right: The reply is a copy made under the update lock, with its version number.
seen: Each fetch of the published code spans several versions; a consistent one spans none. (22 of 22 were torn in a
    trial over RPC. Here a copy in two pieces, with an update in between, simulates the transport.)
chart: Version spread within one reply against Fetch
values: torn = Torn replies (fetches); fetches = Fetches (fetches)
rule: torn = 0
broken: Every reply must have one version; {torn:.0f} of {fetches:.0f} mix versions. Reply with a copy made under the
    update lock.
guard:
    tests/experiments/servers/test_servers.py::test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers
"""

from threading import Lock

import torch
from torch import Tensor

from engine.museum.exhibit import Outcome, Version

SIZE, FETCHES, UPDATES = 4096, 22, 3
"""Updates are those of other trainers while one reply is sent."""


class Server:
    """Weights to which each update adds 1, so that each weight equals its version."""

    def __init__(self) -> None:
        self.weights, self.lock = torch.zeros(SIZE), Lock()

    def update(self) -> None:
        """Apply another trainer's gradient."""
        with self.lock:
            self.weights += 1


def wrong(server: Server) -> Tensor:
    return server.weights


def right(server: Server) -> Tensor:
    with server.lock:
        return server.weights.clone()


def measure(seed: int, handle: Version) -> Outcome:
    """Send replies like a transport: after the handler has returned, in two pieces, with updates in between."""
    server, series = Server(), {}
    for number in range(1, FETCHES + 1):
        reply = handle(server)
        first = reply[: SIZE // 2].clone()
        for _ in range(UPDATES):
            server.update()
        received = torch.cat([first, reply[SIZE // 2 :]])
        series[number] = float(received.max() - received.min())
    return Outcome({"torn": sum(apart > 0 for apart in series.values()), "fetches": FETCHES}, series)
