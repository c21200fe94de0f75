"""What the tests of methods share: ranks that start soon, and sums as ranks have them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine.runtime.rank import fork_server
from tests.conftest import started
from tests.doubles import LocalRanks


@pytest.fixture(autouse=True)
def as_in_ranks(request: pytest.FixtureRequest) -> None:
    """Compute on one thread, as ranks do: sums are the same only then. Start the process that ranks are forked from,
    where there are any.
    """
    torch.set_num_threads(1)
    if any(request.node.get_closest_marker(name) for name in ("processes", "long")):
        fork_server.start()


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note where ranks are started as threads: a test that does is marked `ranks`."""

    def run(ranks: LocalRanks, *given: Any, carry_out: Callable[..., None] = LocalRanks.run, **more: Any) -> None:
        started.append(f"ranks as threads: {', '.join(ranks.roles)}")
        carry_out(ranks, *given, **more)

    monkeypatch.setattr(LocalRanks, "run", run)
