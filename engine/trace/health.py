"""What the hang doctor knows of a run at one moment: each rank's state, and its verdict. Torch-free."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

ProcessState = Literal["running", "sleeping", "stopped", "disk wait", "dead", "ended"]
VerdictState = Literal["QUEUED", "STARTING", "RUNNING", "WAITING", "SLOW", "STALLED", "HUNG", "ENDED"]
"""HUNG: no rank makes progress. STALLED: one rank makes none, while others do. SLOW: others wait for a rank that works.
WAITING: none moves, because one works on something long, such as an evaluation.
"""
BAD: tuple[VerdictState, ...] = ("STALLED", "HUNG")


@dataclass(frozen=True)
class RankState:
    """One rank at one moment."""

    rank: int
    role: str
    pid: int
    state: ProcessState
    phase: str
    """The outermost operation that is under way; empty if none is."""
    operation: str
    """The innermost one, with its number: "average #41"; empty if none is."""
    step: int
    waits_for: tuple[str, ...] = ()
    """The roles that it waits for."""
    since_s: float = 0.0
    """Seconds since it last made progress."""
    works: bool = False
    """Whether it has used the CPU since."""
    place: str = ""
    """Where it is in the code, if known: "take(), batches.py:52"."""


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a run, or that nothing is."""

    state: VerdictState
    rank: str = ""
    """The role that is the cause; empty if none is."""
    cause: str = ""
    """One of engine.hang.rules.CAUSES; empty if nothing is wrong."""
    sentence: str = ""


@dataclass(frozen=True)
class Health:
    """The ranks and the verdict, as stored with the run."""

    at: str
    ranks: tuple[RankState, ...]
    verdict: Verdict

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"at": self.at, "ranks": [asdict(rank) for rank in self.ranks], "verdict": asdict(self.verdict)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Health":
        """Return what `plain` returned."""
        ranks = tuple(RankState(**{**rank, "waits_for": tuple(rank["waits_for"])}) for rank in plain["ranks"])
        return cls(plain["at"], ranks, Verdict(**plain["verdict"]))
