"""The same value logged and printed is one curve: printed values are compared with logged ones before they are passed
on, and left out where these hold them.

A printed metric waits until the logged ones have reached its time, at most `HOLD_S` seconds. Then it is a copy of one
of them, or has a curve of its own: under its name, or with ` (printed)` where a logged metric of that name has other
values. A copy is checked value by value; where the two differ, the printed value is kept as well.
"""

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.runtime.command.sources.readings import Value

if TYPE_CHECKING:
    import numpy as np

FIRST_S, HOLD_S = 1.5, 12.0
"""Seconds that a printed metric waits for logged ones where no file of them exists yet, and where one does."""
MOST_HELD, NEAREST = 20_000, 200
FULL = 4_000
"""Values of a printed metric that wait, from which on logs are not read on while logged values are still to be read."""
MOST_KEPT, LEAST_KEPT = 100_000, 2_000
"""Steps of logged metrics, of all together and at least of each: a script's files are read in turn, each far ahead of
the others where much is left to read.
"""
NEAR_S = 5.0
"""The same value, logged and printed, has times at most this far apart, or the same step."""
_SAME_WORDS = {"acc": "accuracy", "valid": "val", "validation": "val", "lr": "learning_rate", "training": "train"}
_SAME_WORDS |= {"ppl": "perplexity", "avg": "average", "mean": "average", "err": "error", "evaluation": "eval"}
_FREE = {"average", "train", "set"}
"""Words that a name may have or lack."""


@dataclass
class Logged:
    """The last values of a logged metric, by step in two generations, of which the older one goes."""

    steps: dict[int, float] = field(default_factory=dict)
    before: dict[int, float] = field(default_factory=dict)
    nearest: deque[Value] = field(default_factory=lambda: deque(maxlen=NEAREST))

    def add(self, value: Value, most: int) -> None:
        """Take a value; a generation has at most so many steps."""
        if len(self.steps) >= most:
            self.before, self.steps = self.steps, {}
        self.steps[value.step] = value.value
        self.nearest.append(value)

    @property
    def at(self) -> float:
        return self.nearest[-1].at if self.nearest else 0.0

    def has(self, value: Value, tolerance: float) -> bool | None:
        """Return whether it has a printed value; None if it may still come."""
        known = self.steps.get(value.step, self.before.get(value.step))
        if known is not None and _equal(known, value.value, tolerance):
            return True
        if self.at >= value.at - NEAR_S and any(
            abs(one.at - value.at) <= NEAR_S and _equal(one.value, value.value, tolerance) for one in self.nearest
        ):
            return True
        return False if self.nearest and (self.at > value.at + 0.5 or self.nearest[-1].step > value.step) else None


@dataclass
class _Printed:
    """A printed metric of one rank: what waits of it, and what was decided."""

    since: float
    held: list[Value] = field(default_factory=list)
    name: str | None = None
    """The name of its curve; None while it waits."""
    copy_of: str = ""
    decimals: int = 0


class Duplicates:
    """The logged metrics so far, and the printed ones that wait."""

    def __init__(self, decisions: dict[str, tuple[str, str]] | None = None) -> None:
        self._logged: dict[tuple[str, int], Logged] = {}
        self._printed: dict[tuple[str, int | None], _Printed] = {}
        self._stored: Mapping[tuple[str, int | None], Iterable[tuple[int, float]]] = {}
        self._sorted: dict[tuple[str, int], np.ndarray] = {}
        """Stored values by logged metric and rank, of those that were asked for."""
        self.is_full = False
        """Whether many values of a printed metric wait."""
        self.decisions = decisions or {}
        """By rank and printed name: the name of its curve, and the logged metric that it copies."""

    def skip(self, stored: Mapping[tuple[str, int | None], Iterable[tuple[int, float]]]) -> None:
        """Leave out what a reader before this one took for copies: its times are not known, so values are compared."""
        self._stored = stored

    def _was_stored(self, name: str, of: int, value: float, tolerance: float) -> bool:
        """Return whether a value of a logged metric was stored before this reader."""
        import numpy as np

        if (found := self._sorted.get((name, of))) is None:
            curves = [points for (metric, rank), points in self._stored.items() if (metric, rank or 0) == (name, of)]
            values = (value for points in curves for _, value in points)
            found = self._sorted[name, of] = np.sort(np.fromiter(values, float))
        at = int(np.searchsorted(found, value - tolerance if math.isfinite(value) else value))
        return at < len(found) and _equal(float(found[at]), value, tolerance)

    def logged(self, name: str, rank: int | None) -> Logged:
        """Return where the values of a logged metric are to be added; the whole run counts as its first rank."""
        return self._logged.setdefault((name, rank or 0), Logged())

    @property
    def most_kept(self) -> int:
        """Number of steps of each logged metric that are remembered at least, where it has so many."""
        return max(LEAST_KEPT, MOST_KEPT // (len(self._logged) or 1))

    def has_taken(self, name: str, rank: int | None) -> bool:
        """Return whether a printed metric of the same rank has a name."""
        printed = (each for (_, of), each in self._printed.items() if (of or 0) == (rank or 0))
        return any(each.name == name and not each.copy_of for each in printed)

    def copies(self) -> dict[str, str]:
        """Return the printed metrics that copy a logged one, and which."""
        return {name: printed.copy_of for (name, _), printed in self._printed.items() if printed.copy_of}

    def hold(self, value: Value, rank: int | None, at: float) -> None:
        """Take a printed value."""
        printed = self._printed.get((value.name, rank))
        if printed is None:
            printed = self._printed[value.name, rank] = _Printed(at)
            if (known := self.decisions.get(_key(value.name, rank))) is not None:
                printed.name, printed.copy_of = known
        printed.held.append(value)
        printed.decimals = max(printed.decimals, _decimals(value.value))

    def settled(self, at: float, has_logs: bool, final: bool, is_behind: bool) -> Iterator[tuple[int | None, Value]]:
        """Yield the printed values that have curves of their own, under their names. Where reading `is_behind`, logged
        values are still to come, however many wait for them.
        """
        most = math.inf if is_behind else MOST_HELD
        self.is_full = False
        for (name, rank), printed in self._printed.items():
            if not printed.held:
                continue
            if printed.name is None:
                waited = at - printed.since > (HOLD_S if has_logs else FIRST_S) or len(printed.held) >= most
                self._decide(name, rank, printed, must=final or waited)
            if printed.name is None:
                self.is_full = self.is_full or len(printed.held) >= FULL
                continue
            if not printed.copy_of:
                yield from ((rank, value._replace(name=printed.name)) for value in printed.held)
                printed.held = []
                continue
            waiting, logged = [], self._logged.get((printed.copy_of, rank or 0), Logged())
            for value in printed.held:
                tolerance = _tolerance(printed.decimals, value.value)
                has = logged.has(value, tolerance)
                if not has and self._stored and self._was_stored(printed.copy_of, rank or 0, value.value, tolerance):
                    continue
                if has is False or (has is None and (final or len(printed.held) >= most)):
                    yield rank, value._replace(name=printed.name)
                elif has is None:
                    waiting.append(value)
            printed.held = waiting
            self.is_full = self.is_full or len(waiting) >= FULL

    def _decide(self, name: str, rank: int | None, printed: _Printed, *, must: bool) -> None:
        """Decide on a printed metric if enough is known, or if it must be."""
        is_open, of = False, rank or 0
        for other in self._similar(name, of):
            logged = self._logged[other, of]
            found = [logged.has(value, _tolerance(printed.decimals, value.value)) for value in printed.held[:20]]
            if False in found:
                continue
            if found.count(True) >= (1 if must else 3) and (must or None not in found[:3]):
                self._set(name, rank, printed, f"{name} (printed)", other)
                return
            is_open = True
        if must or (self._logged and not is_open and self._have_passed(printed)):
            self._set(name, rank, printed, f"{name} (printed)" if (name, of) in self._logged else name, "")

    def _have_passed(self, printed: _Printed) -> bool:
        """Return whether logged metrics have reached the time of what waits."""
        return max(logged.at for logged in self._logged.values()) > printed.held[-1].at + 1

    def _set(self, name: str, rank: int | None, printed: _Printed, shown: str, copy_of: str) -> None:
        printed.name, printed.copy_of = shown, copy_of
        self.decisions[_key(name, rank)] = shown, copy_of

    def _similar(self, name: str, of: int) -> list[str]:
        """Return the logged metrics of a rank whose name says the same, that of the same name first."""
        words, logged = _words(name), [other for other, rank in self._logged if rank == of]
        found = [other for other in logged if other == name or _words(other) - _FREE == words - _FREE != set()]
        return sorted(found, key=lambda other: (other != name, _words(other) != words, other))


def _key(name: str, rank: int | None) -> str:
    return f"{'' if rank is None else rank}:{name}"


def _words(name: str) -> set[str]:
    words = re.findall(r"[a-z]+\d*", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return {part for word in words for part in _SAME_WORDS.get(word, word).split("_")}


def _decimals(value: float) -> int:
    """Return the number of decimals of a printed value, at most 17."""
    text = repr(value)
    if not math.isfinite(value):
        return 0
    mantissa, _, exponent = text.partition("e")
    return max(0, min(17, len(mantissa.partition(".")[2]) - int(exponent or 0) - text.endswith(".0")))


def _tolerance(decimals: int, value: float) -> float:
    """Return how far a value with so many decimals may be from the one that was rounded to it."""
    return 0.51 * 10.0**-decimals + 1e-6 * abs(value)  # files hold 32-bit numbers


def _equal(one: float, other: float, tolerance: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other)) or abs(one - other) <= tolerance
