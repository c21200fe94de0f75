"""Runs laid along a count: of ranks, or of splits. What every scaling chart and table is made from. Torch-free and
pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.analysis.hardware import crowded, unlike
from engine.analysis.seedings import mixture
from engine.config_values import value_in_words
from engine.registry import experiments, known_experiment
from engine.store import Surroundings
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

THREADS = "threads_per_rank"
"""The count that every experiment has."""
APART = frozenset({SEED, "checkpoint_every_s", "render_every_s", "timeout_s"})
"""Settings that runs may differ in and still be timed against each other."""


@dataclass(frozen=True)
class TimedRun:
    """One finished run: where it stands, and what it took."""

    run_id: int
    line: tuple[Any, ...]
    """The values of what tells lines apart, such as the mode; empty where nothing does."""
    count: int
    seed: int
    execution_time_s: float
    work: float
    """Units of work done; 1 where none were counted, so that every run counts as much."""
    crowded: str
    """Why its ranks were in each other's way, in words; empty where they were not."""

    @property
    def per_second(self) -> float:
        """Units of work a second."""
        return self.work / self.execution_time_s


@dataclass(frozen=True)
class Study:
    """Finished runs along a count, and what stands against comparing them."""

    field: str
    lines: tuple[str, ...]
    """The fields that tell lines apart."""
    timings: tuple[TimedRun, ...]
    unit: str
    """What work is counted in; empty where it was not counted in every run."""
    obstacles: tuple[str, ...]
    """Why no law may be fitted to any of it, a sentence each."""

    def line_keys(self) -> list[tuple[Any, ...]]:
        """Return the lines in the order in which they first appear."""
        return list(dict.fromkeys(timing.line for timing in self.timings))

    def of(self, line: tuple[Any, ...]) -> list[TimedRun]:
        """Return the timings of one line by rising count."""
        return sorted(
            (timing for timing in self.timings if timing.line == line), key=lambda timing: (timing.count, timing.seed)
        )


def study(runs: Sequence[RunRow], around: Mapping[int, Surroundings], field: str, lines: Sequence[str] = ()) -> Study:
    """Return finished runs laid along `field`; those that lack it or were not timed are left out."""
    finished = [run for run in runs if run.status == "finished"]
    timed = [run for run in finished if run.execution_time_s and isinstance(run.config.get(field), int)]
    known = [around[run.id] for run in timed if run.id in around]
    units = {about.unit for about in known if about.work} if all(about.work for about in known) else set()
    counted = len(units) == 1 and len(known) == len(timed)
    timings = tuple(
        TimedRun(
            run.id,
            tuple(run.config.get(name) for name in lines),
            int(run.config[field]),
            int(run.config.get(SEED, 0)),
            run.execution_time_s or 0.0,
            float(around[run.id].work) if counted else 1.0,
            crowded(around[run.id]) if run.id in around else "",
        )
        for run in timed
    )
    return Study(
        field,
        tuple(lines),
        timings,
        units.pop() if counted else "",
        tuple(_obstacles(finished, known, {field, *lines})),
    )


def count_fields() -> dict[str, str]:
    """Return the fields of all experiments along which more should be faster, each with the word for one; the first of
    them that varies is the axis.
    """
    own = {name: one for each in experiments() for name, one in each.counts.items()}
    return own | {THREADS: "thread a rank"}


def words_of(field: str) -> tuple[str, str]:
    """Return a count's words for several and for one."""
    return "threads a rank" if field == THREADS else field, count_fields().get(field, field)


def at_once(runs: Sequence[RunRow], field: str) -> int | None:
    """Return how many work at a time in runs along `field`, as their experiment says; None where it is the value of the
    field itself.
    """
    for run in runs:
        known = known_experiment(run.experiment)
        scaling = known.scaling if known else None
        if scaling and scaling.field == field and (found := run.config.get(scaling.at_once)):
            return int(found)
    return None


def axis_of(varied: Iterable[str]) -> str | None:
    """Return the field that is a count of ranks or splits, None where none of those that vary is one."""
    found = set(varied)
    return next((name for name in count_fields() if name in found), None)


def differing(runs: Sequence[RunRow]) -> list[str]:
    """Return the settings, without the seed, in which runs of one experiment differ, counts first."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    found = [
        name for name in names if name not in APART and len({value_in_words(run.config.get(name)) for run in runs}) > 1
    ]
    counts = list(count_fields())
    return sorted(found, key=lambda name: counts.index(name) if name in counts else len(counts))


def _obstacles(runs: Sequence[RunRow], known: Sequence[Surroundings], told: set[str]) -> Iterable[str]:
    experiments = sorted({run.experiment for run in runs})
    if len(experiments) > 1:
        yield f"The runs are of {len(experiments)} experiments ({', '.join(experiments)}). Choose runs of one."
    elif others := [name for name in differing(runs) if name not in told]:
        values = "; ".join(
            f"{name} {', '.join(sorted({value_in_words(run.config.get(name)) for run in runs}))}" for name in others[:3]
        )
        yield f"The runs differ in more than that: {values}. Choose runs that are alike, or let it tell lines apart."
    if mixed := mixture(runs):
        yield f"{mixed} Choose those of one rule: filter by seeding."
    if difference := unlike(known):
        yield f"The runs are of unlike machines: {difference}. Choose those of one machine."
