"""Figures of a run over the points of all its ranks: the mean of its last episodes, and how far its loss fell."""

import math
from collections import deque
from collections.abc import Iterable
from statistics import fmean

from engine.metrics import EPISODES, LAST_EPISODES, LOSS, LOSS_FALL, MOST_EPISODES, WINDOW
from engine.recorder import Point


class LearningFigures:
    """What points of all ranks show together; points arrive in portions."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._episodes: deque[float] = deque(maxlen=MOST_EPISODES)
        self._first: list[float] = []
        self._latest: deque[float] = deque(maxlen=WINDOW)
        self._steps = 0

    def add(self, points: Iterable[Point]) -> None:
        """Add a portion of the ranks' points; values that are not finite don't count."""
        known = (point for point in points if point.name in (EPISODES, LOSS) and math.isfinite(point.value))
        for point in sorted(known, key=lambda point: point.time_s):
            if point.name == EPISODES:
                self._episodes.append(point.value)
                continue
            self._steps += 1
            self._latest.append(point.value)
            if len(self._first) < WINDOW:
                self._first.append(point.value)

    def values(self, *, final: bool) -> dict[str, float]:
        """Return the figures so far. The fall of the loss is known at the end of a run that began at its first step and
        recorded two windows.
        """
        found = {LAST_EPISODES: fmean(self._episodes)} if self._episodes else {}
        if final and not self._resumed and self._steps >= 2 * WINDOW:
            found[LOSS_FALL] = fmean(self._first) - fmean(self._latest)
        return found
