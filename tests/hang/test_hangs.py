"""Three ranks hang in thirteen ways: the hang doctor names rank and cause; without the fault the run completes."""

from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from engine.errors import RankFailed
from engine.hang.watch import HangLimits
from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.ranks import Ranks
from engine.trace.layout import NOBODY
from tests.doubles import MemorySink, process_ranks
from tests.hang import hangs
from tests.patient import ROLES

pytestmark = pytest.mark.ranks
SIZE, ROOM = 8, 3
"""Values in an average, and items in a queue."""


@dataclass(frozen=True)
class Hang:
    """One way to hang: a function of `hangs`, and what is said of it."""

    name: str
    verdict: str
    """The hang doctor's cause; for a hang that ends by itself, words of the error."""
    guilty: int = 1
    """The rank that is at fault."""
    averages: bool = False
    says: str = ""
    """Words of the hang doctor's sentence."""

    def given(self) -> tuple[Any, ...]:
        """Return what the ranks share."""
        if self.averages:
            return (Collective.create("gloo", SIZE, ROLES, hangs.HANG_S),)
        return (get_context("forkserver").Queue(ROOM),) if self.name == "fill_a_queue" else ()


HANGS = (
    Hang("never_join", "not joined", says="has not entered the barrier 'ready'"),
    Hang("try_a_wrong_port", "not joined"),
    Hang("return_early", "exited", says="it has finished its work and left; trainer1 and trainer3 wait for it"),
    Hang("stop_before_an_average", "stopped", averages=True),
    Hang("wait_for_a_disk", "disk wait"),
    Hang("run_out_of_memory", "memory"),
    Hang("mix_up_collectives", "order mismatch"),
    Hang("give_another_shape", "got 9 of float32", averages=True),
    Hang("give_another_type", "got 8 of float64", averages=True),
    Hang("have_unequal_batches", "unequal steps", averages=True),
    Hang("call_within_a_call", "nested calls"),
    Hang("keep_a_lock", "lock kept", says="trainer1 and trainer3 wait for it"),
    Hang("fill_a_queue", "full queue", guilty=0),
)


def run(hang: Hang, guilty: int, folder: Path, sink: MemorySink) -> Ranks:
    ranks = process_ranks(ROLES, ("cpu",) * 3, 1, 0, folder, sink)
    ranks.context = replace(ranks.context, hang_limits=HangLimits(1.0, between_s=0.5), end_when_hung=True)
    ranks.run(getattr(hangs, hang.name), guilty, *hang.given())
    return ranks


@pytest.mark.parametrize("hang", HANGS, ids=lambda hang: hang.name)
def test_the_fault_is_named_and_ends_the_run(hang: Hang, tmp_path: Path) -> None:
    sink = MemorySink()
    with pytest.raises(RankFailed) as caught:
        run(hang, hang.guilty, tmp_path, sink)
    assert caught.value.role == f"trainer{hang.guilty + 1}"
    verdict = sink.healths[-1].verdict
    assert hang.verdict in (verdict.cause if verdict.state == "HUNG" else str(caught.value))
    assert hang.says in verdict.sentence
    if hang.name == "try_a_wrong_port":
        assert "in connect(), hangs.py:" in str(caught.value) and "(connect to 127.0.0.1:" in str(caught.value)


@pytest.mark.parametrize("hang", HANGS, ids=lambda hang: hang.name)
def test_without_the_fault_the_run_completes(hang: Hang, tmp_path: Path) -> None:
    sink = MemorySink()
    assert run(hang, NOBODY, tmp_path, sink).execution_time_s is not None
    assert all(row.state == "done" for row in sink.rows.values())
