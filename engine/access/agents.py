"""The agent that gives a command for a person: a program that acts by a token of its own, or in a lab without accounts
under the name that it sends.

What it does is marked in the audit log and in the events of runs, has a quota of its own, and needs no more than a
member's permissions, whichever account the token is of.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

HEADER = "parallab-agent"
"""The header by which an agent names itself in a lab without accounts; with accounts its token counts alone."""
AGENT_RUNS = 4
"""Usual number of runs that an agent may have queued or running at once."""
MOST_AGENT_RUNS = 1_000


@dataclass(frozen=True)
class ActingAgent:
    """An agent, and its own quota."""

    name: str
    runs: int = AGENT_RUNS
    """Most runs of it that are queued or running at once."""
    token_id: int | None = None
    """Its token; None in a lab without accounts."""

    @property
    def words(self) -> str:
        """What audit log and events say of it."""
        return f"via agent {self.name}"


_acting: ContextVar[ActingAgent | None] = ContextVar("agent", default=None)


def acting_agent() -> ActingAgent | None:
    """Return the agent of the current request, None for a person's own."""
    return _acting.get()


@contextmanager
def acting_through(agent: ActingAgent | None) -> Iterator[None]:
    """Let every command of the block be the agent's."""
    before = _acting.set(agent)
    try:
        yield
    finally:
        _acting.reset(before)
