"""Run time estimates from similar runs: finished runs on this machine with the same experiment and the same values of
all settings that affect run time.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from engine.store.queue.queue import PastRun
from engine.store.reader import Reader
from engine.store.records import Demand
from engine.store.runs.rows import left_at_pace

COST_NO_TIME = {
    "seed",
    "learning_rate",
    "critic_learning_rate",
    "momentum",
    "device",
    "checkpoint_every_s",
    "render_every_s",
}
"""Settings that do not affect run time; the device is known from the GPUs that a run holds."""
TRUSTED = 0.05
"""From this share of its work on, a run's own pace is a better estimate than similar runs."""
EARLY = 0.5
"""The least remaining time, as a share of the expected remaining time."""
BEYOND = 0.1
"""The expected remaining time of a run that exceeds all similar runs, as a share of its time so far."""


@dataclass(frozen=True)
class Estimate:
    """The seconds that similar runs held their slots, start-up included."""

    median: float
    shortest: float
    longest: float
    runs: int
    """Number of similar runs."""


class History:
    """The run times of finished runs on this machine, read from the store once per experiment."""

    def __init__(self, store: Reader, host: str) -> None:
        self._store, self._host = store, host
        self._past: dict[str, list[PastRun]] = {}
        self._found: dict[str, dict[str, list[float]]] = {}

    def estimate(self, experiment: str, config: Mapping[str, Any], demand: Demand) -> Estimate | None:
        """Return the estimate from similar runs, None without any."""
        if experiment not in self._found:
            self._found[experiment] = by_kind(self._runs(experiment))
        seconds = self._found[experiment].get(kind_of(config, demand.cores, demand.gpus))
        return _estimate(seconds) if seconds else None

    def near(self, experiment: str, config: Mapping[str, Any], demand: Demand, but: Collection[str]) -> Estimate | None:
        """Return the estimate from runs that may also differ in the settings `but` and in their slots; None without.

        Runs with and without GPUs are never mixed.
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
    """Return the run times in seconds by kind of run; those of disturbed runs only where a kind has no others."""
    found: dict[str, list[PastRun]] = {}
    for run in past:
        found.setdefault(kind_of(run.config, run.cores, run.gpus), []).append(run)
    return {
        kind: [run.seconds for run in ([each for each in runs if not each.disturbed] or runs)]
        for kind, runs in found.items()
    }


def kind_of(config: Mapping[str, Any], cores: int, gpus: int) -> str:
    """Return the key that similar runs share: their slots and the settings that affect run time."""
    return json.dumps([cores, gpus, _without(config, ())], sort_keys=True)


def left(held_s: float, share: float, on_s: float, takes: Estimate | None) -> tuple[float | None, float | None]:
    """Return the least and the expected seconds until a run releases its slots, None if unknown.

    `held_s` is the time since its claim; `share` of its work was done in `on_s`.
    """
    expected = left_at_pace(share, on_s)
    if expected is not None and (takes is None or share >= TRUSTED):
        return expected * EARLY, expected
    if takes is None:
        return None, None
    later = next((end for end in (takes.median, takes.longest) if end > held_s), held_s * (1 + BEYOND))
    return max(0.0, takes.shortest - held_s) * EARLY, later - held_s
