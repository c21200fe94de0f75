"""Run time estimates from similar runs: finished runs on this machine of the same experiment or script, with the same
values of all settings that affect run time.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, prod
from statistics import median
from typing import Any

from engine.registry import known_experiment
from engine.script.lengths import length_of
from engine.store.launches import Launch
from engine.store.queue.queue import PastRun, QueuedRun
from engine.store.records import Run
from engine.store.runs.rows import left_at_pace
from engine.store.store import Reader

COST_NO_TIME = {
    "seed",
    "learning_rate",
    "lr",
    "weight_decay",
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
    """The seconds that similar runs held their slots: start-up, execution and shutdown."""

    median: float
    shortest: float
    longest: float
    runs: int
    """Number of similar runs."""
    execution_s: float | None = None
    """Their median execution time; None if not recorded."""
    whole_s: float | None = None
    """The median without the time limit, where that ends the run first; `median` is then the limit."""
    scaled_from: tuple[str, ...] = ()
    """The counts, such as `epochs 2`, of the runs whose times were scaled by their work; empty for similar runs."""
    disturbed: bool = False
    """Whether other programs disturbed all of these runs, so that an idle machine is faster."""

    def within(self, limit_s: float | None) -> "Estimate":
        """Return the estimate of a run with that time limit."""
        if limit_s is None or limit_s >= self.longest:
            return self
        whole = self.median if limit_s < self.median else None
        median, shortest, longest = (min(each, limit_s) for each in (self.median, self.shortest, self.longest))
        return replace(self, median=median, shortest=shortest, longest=longest, whole_s=whole)


Timed = Launch | QueuedRun | Run
"""What an estimate is of."""


class History:
    """The run times of finished runs on this machine, read from the store once per experiment or script."""

    def __init__(self, store: Reader, host: str, *, scales: bool = False) -> None:
        """With `scales`, a run without similar ones is estimated from runs that differ only in their amount of work."""
        self._store, self._host, self._scales = store, host, scales
        self._past: dict[tuple[str, str], list[PastRun]] = {}
        self._found: dict[tuple[str, str], dict[str, list[PastRun]]] = {}

    def estimate(self, run: Timed) -> Estimate | None:
        """Return the estimate from similar runs, None without any."""
        key = run.experiment, run.script_key
        if key not in self._found:
            self._found[key] = by_kind(self._runs(run))
        runs = self._found[key].get(kind_of(run.config, run.demand.cores, run.demand.gpus))
        if runs or not self._scales:
            return _estimate(runs) if runs else None
        return self._scaled(run)

    def pace_s(self, run_id: int, share: float) -> float:
        """Return the seconds in which a script's run did that share of its work at its present pace, without the start
        of the script; 0 while the pace is unknown.
        """
        left_s = self._store.runs.entry(run_id).time_left_s
        return left_s * share / (1 - share) if left_s and share < 1 else 0.0

    def _scaled(self, asked: Timed) -> Estimate | None:
        """Return the estimate from runs that differ only in counts such as epochs; None without any.

        Start-up and shutdown stay, the execution is scaled by the work. The median is that of the runs with the
        nearest work, the range that of all.
        """
        config, demand, known = asked.config, asked.demand, known_experiment(asked.experiment)
        counts = known.config.counts(config) if known else length_of(config)
        if not counts or (work := _work(config, counts)) is None:
            return None
        wanted, slots = _without(config, counts), (demand.cores, demand.gpus)
        found: list[tuple[float, PastRun]] = []
        for run in self._runs(asked):
            own, executed = _work(run.config, counts), run.execution_s
            if own is None or executed is None or (run.cores, run.gpus) != slots:
                continue
            if _without(run.config, counts) == wanted:
                executed = min(executed, run.seconds)
                scaled = executed * work / own
                found.append((own, replace(run, seconds=run.seconds - executed + scaled, execution_s=scaled)))
        found = [each for each in found if not each[1].disturbed] or found
        if not found:
            return None
        nearest = min((own for own, _ in found), key=lambda own: abs(log(work / own)))
        median_of = _estimate([run for own, run in found if own == nearest])
        every = _estimate([run for _, run in found])
        sources = {_counted(run.config, counts): None for _, run in sorted(found, key=lambda each: each[0])}
        return replace(every, median=median_of.median, execution_s=median_of.execution_s, scaled_from=tuple(sources))

    def near(self, asked: Timed, but: Collection[str]) -> Estimate | None:
        """Return the estimate from runs that may also differ in the settings `but` and in their slots; None without.

        Runs with and without GPUs are never mixed.
        """
        wanted, on_gpus = _without(asked.config, but), asked.demand.gpus > 0
        runs = [run for run in self._runs(asked) if (run.gpus > 0) == on_gpus and _without(run.config, but) == wanted]
        return _estimate(runs) if runs else None

    def _runs(self, asked: Timed) -> list[PastRun]:
        key = asked.experiment, asked.script_key
        if key not in self._past:
            self._past[key] = self._store.queue.past_runs(*key, self._host)
        return self._past[key]


def _estimate(runs: Sequence[PastRun]) -> Estimate:
    """Return the estimate from some runs; disturbed ones count only where there are no others."""
    calm = [run for run in runs if not run.disturbed]
    runs = calm or runs
    seconds = [run.seconds for run in runs]
    executed = [run.execution_s for run in runs if run.execution_s is not None]
    execution_s = median(executed) if executed else None
    return Estimate(median(seconds), min(seconds), max(seconds), len(seconds), execution_s, disturbed=not calm)


def _work(config: Mapping[str, Any], counts: Sequence[str]) -> float | None:
    """Return the product of the counts; None where one is no positive number."""
    values = [value for name in counts if isinstance(value := config.get(name), int | float) and value > 0]
    return float(prod(values)) if len(values) == len(counts) else None


def _counted(config: Mapping[str, Any], counts: Sequence[str]) -> str:
    return ", ".join(f"{name} {config[name]:,}" for name in counts)


def _without(config: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in COST_NO_TIME and name not in but}


def by_kind(past: Iterable[PastRun]) -> dict[str, list[PastRun]]:
    """Return the runs by kind of run."""
    found: dict[str, list[PastRun]] = {}
    for run in past:
        found.setdefault(kind_of(run.config, run.cores, run.gpus), []).append(run)
    return found


def kind_of(config: Mapping[str, Any], cores: int, gpus: int) -> str:
    """Return the key that similar runs share: their slots and the settings that affect run time."""
    return json.dumps([cores, gpus, _without(config, ())], sort_keys=True)


def left(
    held_s: float, share: float, on_s: float, takes: Estimate | None, limit_left_s: float | None = None
) -> tuple[float | None, float | None]:
    """Return the least and the expected seconds until a run releases its slots, None if unknown.

    `held_s` is the time since its claim; `share` of its work was done in `on_s`; its time limit ends it in
    `limit_left_s`.
    """
    least, expected = _left(held_s, share, on_s, takes)
    if limit_left_s is None or least is None or expected is None:
        return least, expected
    return min(least, limit_left_s), min(expected, limit_left_s)


def _left(held_s: float, share: float, on_s: float, takes: Estimate | None) -> tuple[float | None, float | None]:
    expected = left_at_pace(share, on_s)
    if expected is not None and (takes is None or share >= TRUSTED):
        return expected * EARLY, expected
    if takes is None:
        return None, None
    later = next((end for end in (takes.median, takes.longest) if end > held_s), held_s * (1 + BEYOND))
    return max(0.0, takes.shortest - held_s) * EARLY, later - held_s
