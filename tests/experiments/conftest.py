"""What the tests of methods share: ranks that start soon, and sums as ranks have them."""

import pytest
import torch

from engine.runtime import fork_server


@pytest.fixture(autouse=True)
def as_in_ranks(request: pytest.FixtureRequest) -> None:
    """Compute on one thread, as ranks do: sums are the same only then. Start the process that ranks are forked from, where there are any."""
    torch.set_num_threads(1)
    if any(request.node.get_closest_marker(name) for name in ("processes", "long")):
        fork_server.start()
