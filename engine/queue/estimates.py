"""How long a run takes, told by its like: finished runs of this machine with the same experiment and every setting that
costs time.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from engine.store.queue.queue import PastRun
from engine.store.reader import Reader
from engine.store.records import Demand

COST_NO_TIME = {
    "seed",
    "learning_rate",
    "critic_learning_rate",
    "momentum",
    "device",
    "checkpoint_every_s",
    "render_every_s",
}
"""Settings that change what is learned or kept, not how much is computed; the device is told by the GPUs that a run
holds.
"""
TRUSTED = 0.05
"""From this share of its work on a run's own pace tells more than its like."""
EARLY = 0.5
"""The least share of the time expected for the rest that a run is taken to need."""
BEYOND = 0.1
"""A run that is past the longest of its like is taken to need another such share of its time so far."""


@dataclass(frozen=True)
class Estimate:
    """The seconds that like runs held their slots, start-up included."""

    median: float
    shortest: float
    longest: float
    runs: int
    """How many like runs there are."""


class History:
    """What finished runs of this machine took, read from the store once for each experiment."""

    def __init__(self, store: Reader, host: str) -> None:
        self._store, self._host = store, host
        self._past: dict[str, list[PastRun]] = {}
        self._found: dict[str, dict[str, list[float]]] = {}

    def estimate(self, experiment: str, config: Mapping[str, Any], demand: Demand) -> Estimate | None:
        """Return what like runs took, None where there is none."""
        if experiment not in self._found:
            self._found[experiment] = by_kind(self._runs(experiment))
        seconds = self._found[experiment].get(kind_of(config, demand.cores, demand.gpus))
        return _estimate(seconds) if seconds else None

    def near(self, experiment: str, config: Mapping[str, Any], demand: Demand, but: Collection[str]) -> Estimate | None:
        """Return what runs took that differ from like ones at most in the settings `but`, and so in their slots; None
        where there is none.

        One on GPUs tells nothing of one without.
        """
        wanted, on_gpus = _without(config, but), demand.gpus > 0
        seconds = [
            run.seconds
            for run in self._runs(experiment)
            if (run.gpus > 0) == on_gpus and _without(run.config, but) == wanted
        ]
        return _estimate(seconds) if seconds else None

    def _runs(self, experiment: str) -> list[PastRun]:
        if experiment not in self._past:
            self._past[experiment] = self._store.queue.past_runs(experiment, self._host)
        return self._past[experiment]


def _estimate(seconds: Sequence[float]) -> Estimate:
    return Estimate(median(seconds), min(seconds), max(seconds), len(seconds))


def _without(config: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in COST_NO_TIME and name not in but}


def by_kind(past: Iterable[PastRun]) -> dict[str, list[float]]:
    """Return the seconds of each kind of run."""
    found: dict[str, list[float]] = {}
    for run in past:
        found.setdefault(kind_of(run.config, run.cores, run.gpus), []).append(run.seconds)
    return found


def kind_of(config: Mapping[str, Any], cores: int, gpus: int) -> str:
    """Return what runs that take equally long have in common: their slots and the settings that a run's length depends
    on.
    """
    return json.dumps([cores, gpus, _without(config, ())], sort_keys=True)


def left(held_s: float, share: float, on_s: float, takes: Estimate | None) -> tuple[float | None, float | None]:
    """Return the least and the expected seconds that a run still holds its slots, None where nothing tells.

    `held_s` has passed since its claim; `share` of its work was done in the last `on_s`.
    """
    if share > 0 and (takes is None or share >= TRUSTED):
        expected = on_s * (1 - min(share, 1.0)) / share
        return expected * EARLY, expected
    if takes is None:
        return None, None
    later = next((end for end in (takes.median, takes.longest) if end > held_s), held_s * (1 + BEYOND))
    return max(0.0, takes.shortest - held_s) * EARLY, later - held_s
