"""The hang museum: three ranks run one of `hangs`; the hang doctor ends the run when they hang."""

from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

from engine.experiments.hang_museum import hangs
from engine.experiments.hang_museum.config import HangMuseumConfig
from engine.runtime.transport.allreduce import Collective
from engine.runtime.worker.ranks import Ranks
from engine.trace.layout import NOBODY

QUIET_S = 3.0
"""Seconds without progress: the ranks do nothing that takes longer."""
SIZE, ROOM = 8, 3
"""Values in an average, and items in a queue."""


def run(config: HangMuseumConfig, ranks: Ranks) -> None:
    """Return when all ranks are done. Raises RankFailed, with the hang doctor's verdict, when they hang."""
    ranks.end_when_hung_for(QUIET_S)
    guilty = config.exhibit.guilty if config.version == "wrong" else NOBODY
    ranks.run(getattr(hangs, config.cause), guilty, *_given(config.cause, config.roles))


def _given(name: str, roles: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what the ranks of an exhibit share."""
    makers: dict[str, Callable[[], Any]] = {"fill_a_queue": lambda: get_context("forkserver").Queue(ROOM)}
    averaging = ("stop_before_an_average", "give_another_shape", "give_another_type", "have_unequal_batches")
    makers |= {each: lambda: Collective.create("gloo", SIZE, roles, hangs.HANG_S) for each in averaging}
    return (makers[name](),) if name in makers else ()
