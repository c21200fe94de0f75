"""What bounds a stretch of a run, in at most three sentences, from its critical path: what takes the time, how much of
it could be saved, and what to change.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.trace.critical_path import MESSAGE, PathPart

WORDS = {
    "compute": "computing",
    "update": "updating",
    "evaluate": "evaluation",
    "data": "loading data",
    "serve": "the server's handling of requests",
    "communicate": "communication",
    "message": "messages on their way",
    "collective": "averaging",
    "barrier": "barriers",
    "wait": "waiting",
    "lock": "waiting for locks",
    "other": "work that is not traced",
    "rpc": "communication",
    "queue": "queues",
}
EXCHANGE = ("communicate", MESSAGE, "collective", "barrier", "wait", "lock", "rpc", "queue", "send", "receive")
"""Kinds of a path's parts that would be gone if ranks needn't exchange anything."""
WORTH = 0.05
"""Share of the path below which nothing is said of a kind."""
UNEVEN = 1.25
"""Ratio of one rank's computing on the path to that of all others from which on it is called slow."""


@dataclass(frozen=True)
class PathShares:
    """The critical path of a stretch in shares from 0 to 1: by kind, and of computing by role."""

    length_s: float
    by_kind: dict[str, float]
    by_role: dict[str, float]
    """Share of the path in each rank."""
    computing: dict[str, float]

    @classmethod
    def of(cls, path: Sequence[PathPart], roles: Sequence[str]) -> "PathShares":
        """Return the shares of a path."""
        kinds, ranks, computing = Counter[str](), Counter[str](), Counter[str]()
        for part in path:
            spent = part.end_ns - part.begin_ns
            kinds[part.kind] += spent
            ranks[roles[part.rank]] += spent
            if part.kind == "compute":
                computing[roles[part.rank]] += spent
        total = sum(kinds.values())
        return cls(
            total / 1e9, *({name: spent / total for name, spent in each.items()} for each in (kinds, ranks, computing))
        )

    @property
    def exchange(self) -> float:
        """Share of the path that is exchange between ranks."""
        return sum(share for kind, share in self.by_kind.items() if kind in EXCHANGE)


def sentences(shares: PathShares, ranks: int) -> list[str]:
    """Return what bounds the stretch, how far it is from that bound, and what to change; nothing if it is empty."""
    if shares.length_s <= 0:
        return []
    found = [_what(shares)]
    if ranks > 1:
        found.append(_how_far(shares))
        if advice := _what_to_change(shares):
            found.append(advice)
    return found


def _what(shares: PathShares) -> str:
    first, *others = sorted(shares.by_kind.items(), key=lambda item: -item[1])
    rest = [f"{WORDS.get(kind, kind)} {_percent(share)}" for kind, share in others if share >= WORTH]
    kind, share = first
    where = ""
    if kind == "compute" and len(shares.computing) > 1:
        role, most = max(shares.computing.items(), key=lambda item: item[1])
        where = f", {_percent(most)} in {role}"
    elif kind == "compute":
        where = f", all in {next(iter(shares.computing))}"
    also = f"; {', '.join(rest[:3])}" if rest else ""
    most_of_it = f"{WORDS.get(kind, kind)} for {_percent(share)}{where}"
    return f"In this stretch, the critical path ({_seconds(shares.length_s)}) is {most_of_it}{also}."


def _how_far(shares: PathShares) -> str:
    if shares.exchange < 0.005:
        return "Exchange between ranks takes none of it."
    free = shares.length_s * (1 - shares.exchange)
    if free <= 0:
        return "All of it is exchange between ranks."
    faster = shares.length_s / free
    return (
        f"Exchange between ranks takes {_percent(shares.exchange)} of it: without messages and waits the same work "
        f"would take {_seconds(free)}, {faster:.2f} x as fast."
    )


def _what_to_change(shares: PathShares) -> str:
    kinds = shares.by_kind
    largest = max(kinds, key=lambda kind: kinds[kind])
    if len(shares.computing) > 2:
        role, most = max(shares.computing.items(), key=lambda item: item[1])
        others = [share for name, share in shares.computing.items() if name != role]
        if most > UNEVEN * sum(others) and most > 0.25:
            return f"{role} is on the path for most of the computing: give it less work, or more threads."
    if largest == "evaluate" and kinds["evaluate"] > 0.2:
        return "Evaluate less often: it is on the critical path."
    if largest == "data" or kinds.get("data", 0) > 0.2:
        return "Load data ahead of the step, or choose a smaller data set."
    if kinds.get("lock", 0) > 0.1:
        return "Hold the lock for a shorter time, or update without it."
    if kinds.get("serve", 0) > 0.3:
        return "The server is the bottleneck: batch its requests, or use fewer clients."
    if shares.exchange > 0.3:
        return "Exchange less often or less: more work per message, a larger batch, or the shared-memory transport."
    if shares.exchange < WORTH and kinds.get("compute", 0) > 0.7:
        return "Faster messages would not help here; more ranks do, as long as there are free cores for them."
    return ""


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _seconds(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
