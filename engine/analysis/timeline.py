"""What bounds a stretch of a run, in at most three sentences, from its critical path: what takes the time, how much of
it could be saved, and what to change.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.trace.critical_path import HELD, MESSAGE, OVERLAPPED, PathPart, own_work
from engine.trace.timeline import RunTrace

UNKNOWN = "unknown"
"""Kind of a wait whose cause is not traced."""
WORDS = {
    "compute": "computing",
    "update": "updating",
    "evaluate": "evaluation",
    "data": "loading data",
    "serve": "the server's handling of requests",
    "communicate": "communication",
    "collective": "averaging",
    "barrier": "barriers",
    "wait": "waiting",
    "lock": "waiting for locks",
    "other": "work that is not traced",
    "rpc": "communication",
    "queue": "queues",
    MESSAGE: "messages on their way",
    HELD: "work under a contended lock",
    OVERLAPPED: "backward passes and their averaging, which overlap",
    UNKNOWN: "waiting for something that is not traced",
}
EXCHANGE = ("communicate", MESSAGE, "collective", "barrier", "wait", "lock", "rpc", "queue", "send", "receive")
"""Kinds of a path's parts that would be gone if ranks needn't exchange anything."""
WORTH = 0.05
"""Share of the path below which nothing is said of a kind."""
UNEVEN = 1.25
"""Ratio of one rank's work to that of any other from which on it is called slow."""


@dataclass(frozen=True)
class PathShares:
    """The critical path of a stretch in shares from 0 to 1: by kind, and of computing by role."""

    length_s: float
    by_kind: dict[str, float]
    by_role: dict[str, float]
    """Share of the path in each rank."""
    computing: dict[str, float]
    work_s: dict[str, float] = field(default_factory=dict)
    """By role: seconds of the rank's own work in the stretch, on the path or not."""

    @classmethod
    def of(cls, path: Sequence[PathPart], roles: Sequence[str], work_ns: Sequence[int] = ()) -> "PathShares":
        """Return the shares of a path; `work_ns` is each rank's own work in the stretch."""
        kinds, ranks, computing = Counter[str](), Counter[str](), Counter[str]()
        for part in path:
            spent = part.end_ns - part.begin_ns
            kinds[part.kind if part.known else UNKNOWN] += spent
            ranks[roles[part.rank]] += spent
            if part.kind == "compute":
                computing[roles[part.rank]] += spent
        total = sum(kinds.values())
        by_kind, by_role, of_computing = (
            {name: spent / total for name, spent in each.items()} for each in (kinds, ranks, computing)
        )
        work = {role: spent / 1e9 for role, spent in zip(roles, work_ns, strict=False)}
        return cls(total / 1e9, by_kind, by_role, of_computing, work)

    @property
    def exchange(self) -> float:
        """Share of the path that is exchange between ranks."""
        return sum(share for kind, share in self.by_kind.items() if kind in EXCHANGE)

    @property
    def unknown(self) -> float:
        """Share of the path in waits whose cause is not traced."""
        return self.by_kind.get(UNKNOWN, 0.0)

    @property
    def busiest(self) -> tuple[str, float]:
        """The rank with the most work of its own, and its seconds, at most the path's length."""
        role, most = max(self.work_s.items(), key=lambda item: item[1], default=("", 0.0))
        return role, min(most, self.length_s)


def bounds(
    trace: RunTrace, path: Sequence[PathPart], begin_ns: int, end_ns: int, config: Mapping[str, Any]
) -> list[str]:
    """Return the sentences on a stretch of a run with this config and this critical path."""
    shares = PathShares.of(path, trace.roles, own_work(trace, begin_ns, end_ns)) if path else None
    return sentences(shares, len(trace.roles), config) if shares else []


def sentences(shares: PathShares, ranks: int, config: Mapping[str, Any] | None = None) -> list[str]:
    """Return what bounds the stretch, how far it is from that bound, and what to change; nothing if it is empty.

    `config` is the run's: the advice leaves out what it already does.
    """
    if shares.length_s <= 0:
        return []
    found = [_what(shares)]
    if ranks > 1:
        found.append(_how_far(shares))
        if advice := _what_to_change(shares, config or {}):
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
    if shares.unknown >= WORTH:
        return (
            f"The trace does not show what {_percent(shares.unknown)} of it waited for, so how much faster the same "
            "work could be is not known."
        )
    if shares.exchange < 0.005:
        return "Exchange between ranks takes none of it."
    free = shares.length_s * (1 - shares.exchange)
    busiest, work_s = shares.busiest
    least = max(free, work_s)
    if least <= 0:
        return "All of it is exchange between ranks."
    takes, faster = f"Exchange between ranks takes {_percent(shares.exchange)} of it", shares.length_s / least
    if work_s > free:
        return (
            f"{takes}, but {busiest} is at work for {_percent(work_s / shares.length_s)} of the time: without messages "
            f"and waits the same work would take at least {_seconds(least)}, at most {faster:.2f} times as fast."
        )
    return f"{takes}: without messages and waits the same work would take {_seconds(free)}, {faster:.2f} times as fast."


def _what_to_change(shares: PathShares, config: Mapping[str, Any]) -> str:
    if slow := _slow_rank(shares):
        return f"{slow} is on the path for most of the computing: give it less work, or more threads."
    kinds = shares.by_kind
    largest = max(kinds, key=lambda kind: kinds[kind])
    if largest == "evaluate" and kinds["evaluate"] > 0.2:
        return "" if config.get("evaluate_every") == 0 else "Evaluate less often: it is on the critical path."
    if largest == "data" or kinds.get("data", 0) > 0.2:
        is_tutorial = config.get("variant") == "tutorial"
        instead = "Choose the variant engine, which holds the data in memory."
        return instead if is_tutorial else "Load data ahead of the step, or choose a smaller data set."
    if kinds.get("lock", 0) + kinds.get(HELD, 0) > 0.1:
        return "Hold the lock for a shorter time, or update without it."
    if kinds.get("serve", 0) > 0.3:
        return f"The server is the bottleneck: {_relief(config)}."
    return "" if shares.unknown > WORTH else _about_exchange(shares, config)


def _about_exchange(shares: PathShares, config: Mapping[str, Any]) -> str:
    if shares.exchange > 0.3:
        return f"Exchange less often or less: {_less_exchange(config)}."
    if shares.exchange >= WORTH or shares.by_kind.get("compute", 0) <= 0.7:
        return ""
    if "splits" in config:
        return "Faster messages would not help here; smaller bubbles do: more splits, or stages of equal work."
    return "Faster messages would not help here; more ranks do, as long as there are free cores for them."


def _slow_rank(shares: PathShares) -> str:
    """Return the rank that has most of the path's computing, and more work than any other rank like it; empty if none
    has.
    """
    role, most = max(shares.computing.items(), key=lambda item: item[1], default=("", 0.0))
    like_it = [spent for name, spent in shares.work_s.items() if name != role and _kind_of(name) == _kind_of(role)]
    if not like_it or shares.work_s.get(role, 0.0) <= UNEVEN * max(like_it):
        return ""
    others = sum(share for name, share in shares.computing.items() if name != role)
    return role if most > max(0.25, UNEVEN * others) else ""


def _kind_of(role: str) -> str:
    return role.rstrip("0123456789")


def _relief(config: Mapping[str, Any]) -> str:
    """Return how a server gets fewer requests, by what the run doesn't do yet."""
    if config.get("mode") == "per_call":
        return "answer requests together (mode batched), or use fewer observers"
    if "envs_per_observer" in config:
        return "send the states of more environments in a message (envs_per_observer), or use fewer observers"
    if "batch_size" in config:
        return "compute more per request (batch_size), or use fewer trainers"
    return "send it fewer requests, or use fewer clients"


def _less_exchange(config: Mapping[str, Any]) -> str:
    """Return how to exchange less, by what the run doesn't do yet."""
    ways = ["more work per message"]
    if "envs_per_observer" in config:
        ways = ["more environments per message (envs_per_observer)"]
    elif "batch_size" in config or not config:
        ways.append("a larger batch")
    if config.get("variant") == "tutorial":
        ways.append("the variant engine")
    elif config.get("transport") in ("rpc", "gloo"):
        ways.append("the shared-memory transport")
    return f"{', '.join(ways[:-1])}, or {ways[-1]}" if len(ways) > 1 else ways[0]


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _seconds(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
