"""The mean over gloo: a ring all-reduce without a server."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed import PrefixStore, ProcessGroupGloo  # type: ignore[attr-defined]

from engine.runtime.rank.rank import Rank
from engine.runtime.transport.allreduce import Average, Collective, gone_round
from engine.runtime.transport.rendezvous import store_of, use_interface
from engine.system.network_isolation import check_listening
from engine.trace.layout import EVERYBODY


@contextmanager
def averaging(collective: Collective, rank: Rank) -> Iterator[Average]:
    """Yield the function that averages a vector over all ranks, for the block."""
    check_listening()
    use_interface(rank)
    patience = timedelta(seconds=collective.timeout_s)
    store: Any = PrefixStore("ring", store_of(rank, "ring"))
    store.set_timeout(patience)
    with rank.recorder.operation("barrier", "join gloo", peer=EVERYBODY):
        group: Any = ProcessGroupGloo(store, rank.index, rank.world, patience)

    arrival = torch.zeros(1)

    def average(vector: Tensor) -> float | None:
        waited_s = None
        if rank.meeting_point:  # the last one to arrive ends this small round
            began = time.monotonic()
            group.allreduce([arrival]).wait()
            waited_s = time.monotonic() - began
        group.allreduce([vector]).wait()
        vector.div_(rank.world)
        rank.recorder.exchanged(gone_round(vector.nbytes, rank.world))
        return waited_s

    yield average
