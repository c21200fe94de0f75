"""Messages between the worker and the agents of further nodes. Times are the sender's monotonic clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.trace.health import ProcessState


@dataclass(frozen=True)
class ClockPing:
    """The worker asks for the agent's time; also tells that the worker lives."""

    sent: float


@dataclass(frozen=True)
class ClockPong:
    """The answer to a ping."""

    sent: float
    here: float


@dataclass(frozen=True)
class SharedArguments:
    """What all ranks of a node get: the function and its arguments, pickled by `shared_values.dumps`."""

    content: bytes


@dataclass(frozen=True)
class StartRank:
    """Start a rank; `plan` is pickled by `shared_values.dumps`."""

    index: int
    plan: bytes


@dataclass(frozen=True)
class WorkerMessage:
    """A message of the worker to a rank."""

    index: int
    message: Any


@dataclass(frozen=True)
class StackQuestion:
    """Ask a rank for its stacks."""

    index: int


@dataclass(frozen=True)
class EndRanks:
    """End the ranks that still run: terminate, then kill after `grace_s`."""

    grace_s: float


@dataclass(frozen=True)
class AgentLeave:
    """The agent's work is done."""


@dataclass(frozen=True)
class RankStarted:
    """A rank's process runs."""

    index: int
    pid: int


@dataclass(frozen=True)
class RankMessage:
    """A message of a rank to the worker."""

    index: int
    message: Any


@dataclass(frozen=True)
class RankClosed:
    """A rank's process has ended."""

    index: int
    exit_code: int | None


@dataclass(frozen=True)
class RankRefused:
    """A rank could not be started."""

    index: int
    why: str


@dataclass(frozen=True)
class FlagChange:
    """Elements of a shared tensor that were written on the sender's node."""

    number: int
    places: Sequence[int]
    values: Sequence[int]


@dataclass(frozen=True)
class TracePart:
    """Parts of a rank's trace memory that have changed: the header, and blocks of the ring by place."""

    index: int
    header: bytes
    blocks: Mapping[int, bytes]


@dataclass(frozen=True)
class ProcessReport:
    """A rank's process as its node sees it."""

    state: ProcessState
    used_s: float
    """Seconds in which its threads have used a core."""
    waited_s: float
    """Seconds in which they have waited for one."""
    memory_mb: float | None
    cpu_percent: float | None


@dataclass(frozen=True)
class NodeReport:
    """The processes of a node's ranks, by rank."""

    processes: Mapping[int, ProcessReport]
