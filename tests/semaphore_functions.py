"""What ranks do in the tests of bells; here because a rank's process must be able to import its function."""

from torch import Tensor

from engine.runtime.rank.rank import Semaphore
from engine.runtime.worker.ranks import Rank
from tests.waiting import PATIENCE_S


def ring_and_hear(rank: Rank, bell: Semaphore, answers: Semaphore, heard: Tensor, times: int) -> None:
    """The first rank rings, the others hear and answer, until all rings were heard."""
    rank.ready()
    if rank.index == 0:
        for _ in range(times):
            bell.release()
        for _ in range(times):
            assert answers.acquire(PATIENCE_S)
        return
    while int(heard.sum()) < times:
        if bell.acquire(0.1):
            heard[rank.index] += 1
            answers.release()
