"""Messages between a rank and its worker."""

from dataclasses import dataclass

from engine.runtime.rank.channel_recorder import Flush
from engine.runtime.rank.rank import Saved


@dataclass(frozen=True)
class Hello:
    """A rank's first message: its identity and environment."""

    pid: int
    preloaded: bool


@dataclass(frozen=True)
class Meeting:
    """A rank waits at a barrier."""

    name: str


@dataclass(frozen=True)
class Said:
    """A rank's entry for the run's events."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Done:
    """A rank's function returned, at this time (monotonic clock)."""

    at: float


@dataclass(frozen=True)
class Failed:
    """A rank's function raised."""

    sentence: str
    traceback: str
    at: float
    echo: bool = False
    """Whether it only lost another rank, whose end is the cause."""


@dataclass(frozen=True)
class Go:
    """The worker's answer at a barrier: all ranks have arrived; `at` is the same time for all."""

    name: str
    at: float


Message = Hello | Flush | Meeting | Said | Saved | Done | Failed
