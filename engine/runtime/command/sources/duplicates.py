"""The same value logged and printed is one curve: printed values are compared with logged ones before they are passed
on, and left out where these hold them.

A printed metric waits until the logged ones have reached its time, at most `HOLD_S` seconds. Then it is a copy of one
of them, or has a curve of its own: under its name, or with ` (printed)` where a logged metric of that name has other
values. A copy is checked value by value; where the two differ, the printed value is kept as well.
"""

import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.runtime.command.sources.readings import Value

FIRST_S, HOLD_S = 1.5, 12.0
"""Seconds that a printed metric waits for logged ones where no file of them exists yet, and where one does."""
MOST_HELD, MOST_KEPT, NEAREST = 2_000, 4_000, 200
NEAR_S = 5.0
"""The same value, logged and printed, has times at most this far apart, or the same step."""
_SAME_WORDS = {"acc": "accuracy", "valid": "val", "validation": "val", "lr": "learning_rate", "training": "train"}
_SAME_WORDS |= {"ppl": "perplexity", "avg": "average", "mean": "average", "err": "error", "evaluation": "eval"}
_FREE = {"average", "train", "set"}
"""Words that a name may have or lack."""


@dataclass
class _Logged:
    """The last values of a logged metric."""

    values: deque[Value] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    indexed: Value | None = None
    steps: dict[int, float] = field(default_factory=dict)
    nearest: list[Value] = field(default_factory=list)

    @property
    def at(self) -> float:
        return self.values[-1].at if self.values else 0.0

    def _index(self) -> None:
        """Renew what `has` looks at."""
        if self.values and self.indexed is not self.values[-1]:
            self.indexed, self.nearest = self.values[-1], [*self.values][-NEAREST:]
            self.steps = {value.step: value.value for value in self.values}

    def has(self, value: Value, tolerance: float) -> bool | None:
        """Return whether it has a printed value; None if it may still come."""
        self._index()
        if value.step in self.steps and _equal(self.steps[value.step], value.value, tolerance):
            return True
        if any(abs(one.at - value.at) <= NEAR_S and _equal(one.value, value.value, tolerance) for one in self.nearest):
            return True
        return False if self.indexed and (self.at > value.at + 0.5 or self.indexed.step > value.step) else None


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
        self._logged: dict[str, _Logged] = {}
        self._printed: dict[tuple[str, int | None], _Printed] = {}
        self.decisions = decisions or {}
        """By rank and printed name: the name of its curve, and the logged metric that it copies."""

    def recent(self, name: str) -> deque[Value]:
        """Return where the values of a logged metric of the whole run, or of its first rank, are to be added."""
        return self._logged.setdefault(name, _Logged()).values

    @property
    def plain(self) -> set[str]:
        """Names that printed metrics have taken."""
        return {printed.name for printed in self._printed.values() if printed.name and not printed.copy_of}

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

    def settled(self, at: float, has_logs: bool, final: bool) -> Iterator[tuple[int | None, Value]]:
        """Yield the printed values that have curves of their own, under their names."""
        for (name, rank), printed in self._printed.items():
            if not printed.held:
                continue
            if printed.name is None:
                waited = at - printed.since > (HOLD_S if has_logs else FIRST_S) or len(printed.held) >= MOST_HELD
                self._decide(name, rank, printed, must=final or waited)
            if printed.name is None:
                continue
            if not printed.copy_of:
                yield from ((rank, value._replace(name=printed.name)) for value in printed.held)
                printed.held = []
                continue
            waiting, logged = [], self._logged.get(printed.copy_of, _Logged())
            for value in printed.held:
                has = logged.has(value, _tolerance(printed.decimals, value.value))
                if has is False or (has is None and (final or len(printed.held) >= MOST_HELD)):
                    yield rank, value._replace(name=printed.name)
                elif has is None:
                    waiting.append(value)
            printed.held = waiting

    def _decide(self, name: str, rank: int | None, printed: _Printed, *, must: bool) -> None:
        """Decide on a printed metric if enough is known, or if it must be."""
        is_open = False
        for other in self._similar(name) if not rank else ():
            found = [
                self._logged[other].has(value, _tolerance(printed.decimals, value.value)) for value in printed.held[:20]
            ]
            if False in found:
                continue
            if found.count(True) >= (1 if must else 3) and (must or None not in found[:3]):
                self._set(name, rank, printed, f"{name} (printed)", other)
                return
            is_open = True
        if must or (self._logged and not is_open and self._have_passed(printed)):
            self._set(name, rank, printed, f"{name} (printed)" if name in self._logged and not rank else name, "")

    def _have_passed(self, printed: _Printed) -> bool:
        """Return whether logged metrics have reached the time of what waits."""
        return max(logged.at for logged in self._logged.values()) > printed.held[-1].at + 1

    def _set(self, name: str, rank: int | None, printed: _Printed, shown: str, copy_of: str) -> None:
        printed.name, printed.copy_of = shown, copy_of
        self.decisions[_key(name, rank)] = shown, copy_of

    def _similar(self, name: str) -> list[str]:
        """Return the logged metrics whose name says the same, that of the same name first."""
        words = _words(name)
        found = [other for other in self._logged if other == name or _words(other) - _FREE == words - _FREE != set()]
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
