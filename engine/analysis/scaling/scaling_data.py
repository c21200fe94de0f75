"""Runs by count (of ranks or splits): the data of all scaling charts and tables. Torch-free."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.analysis.disturbance import left_out
from engine.analysis.hardware import crowded, unlike
from engine.analysis.run_values import fields_in_words, lower_title
from engine.analysis.seedings import mixture
from engine.analysis.statistics.confidence import Statistic
from engine.analysis.sweep_cells import measured
from engine.analysis.total_work import counted, unequal_work_of
from engine.config_values import value_in_words
from engine.metrics import throughput
from engine.registry import experiment_title, experiments, known_experiment
from engine.store import Reader, Surroundings
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

THREADS = "threads_per_rank"
"""The count that every experiment has."""
APART = frozenset({SEED, "checkpoint_every_s", "render_every_s", "timeout_s"})
"""Settings that may differ between runs with comparable timings."""


@dataclass(frozen=True)
class TimedRun:
    """One finished run: its count and line, and its timing."""

    run_id: int
    line: tuple[Any, ...]
    """The values that identify its line, such as the mode; empty if there is only one line."""
    count: int
    seed: int
    execution_time_s: float
    work: float
    """Units of work done; 1 if none were counted, so that every run counts equally."""
    crowded: str
    """Why it is oversubscribed, in words; empty if it isn't."""
    disturbance: float | None = None
    """The share (0 to 1) of its CPU time that others took; None if unknown."""

    @property
    def per_second(self) -> float:
        """Throughput in units of work per second."""
        return throughput(self.work, self.execution_time_s) or 0.0


@dataclass(frozen=True)
class Study:
    """Finished runs by count, and obstacles to comparing them."""

    field: str
    lines: tuple[str, ...]
    """The fields that identify lines."""
    timings: tuple[TimedRun, ...]
    unit: str
    """The unit of work; empty if not counted in every run."""
    obstacles: tuple[str, ...]
    """Reasons why no law may be fitted, a sentence each."""
    disturbed: tuple[TimedRun, ...] = ()
    """Runs that other programs disturbed; no mean and no fit counts them."""
    left_out: str = ""
    """Which these are, as a sentence; empty if there are none."""
    statistic: Statistic = "mean"
    """The statistic over seeds: the median for a sweep for timing."""

    def line_keys(self) -> list[tuple[Any, ...]]:
        """Return the lines in order of first appearance."""
        return list(dict.fromkeys(timing.line for timing in self.timings))

    def of(self, line: tuple[Any, ...]) -> list[TimedRun]:
        """Return the timings of one line in ascending order of counts."""
        return sorted(
            (timing for timing in self.timings if timing.line == line), key=lambda timing: (timing.count, timing.seed)
        )


def study(
    runs: Sequence[RunRow],
    around: Mapping[int, Surroundings],
    field: str,
    lines: Sequence[str] = (),
    *,
    with_disturbed: bool = False,
    statistic: Statistic = "mean",
) -> Study:
    """Return finished runs by `field`; runs without the field or without timing are omitted. Disturbed runs are apart,
    unless `with_disturbed`.
    """
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
            run.disturbance,
        )
        for run in timed
    )
    apart = set() if with_disturbed else {run.id for run in timed if run.disturbed}
    return Study(
        field,
        tuple(lines),
        tuple(timing for timing in timings if timing.run_id not in apart),
        units.pop() if counted else "",
        tuple(_obstacles(finished, known, {field, *lines})),
        tuple(timing for timing in timings if timing.run_id in apart),
        left_out([run for run in timed if run.id in apart]),
        statistic,
    )


def count_fields() -> dict[str, str]:
    """Return the fields of all experiments in which more should be faster, each with its singular word; the first one
    that varies is the x-axis.
    """
    own = {name: one for each in experiments() for name, one in each.counts.items()}
    return own | {THREADS: "thread per rank"}


def words_of(field: str) -> tuple[str, str]:
    """Return a count's plural and singular words."""
    return "threads per rank" if field == THREADS else lower_title(field), count_fields().get(field, lower_title(field))


def count_in_words(field: str, count: object) -> str:
    """Return a value of a count, such as `2 trainers`."""
    plural, singular = words_of(field)
    return f"{value_in_words(count)} {singular if count == 1 else plural}"


def by_values(fields: Iterable[str], runs: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Return the runs of each combination of values of some fields by its name, such as `2 trainers`."""
    names, found = tuple(fields), dict[str, list[RunRow]]()
    is_count = len(names) == 1 and names[0] in count_fields()
    for run in runs:
        values = {name: run.config.get(name) for name in names}
        title = count_in_words(names[0], values[names[0]]) if is_count else fields_in_words(values)
        found.setdefault(title, []).append(run)
    return found


def unequal_of_sweep(reader: Reader, sweep_id: int) -> str:
    """Return that the values of a sweep do unequal total work, as a sentence; empty if they don't. Raises
    NoSuchSweep.
    """
    sweep = reader.sweeps.one(sweep_id)
    return unequal_work_of(counted(by_values(sweep.fields, measured(sweep, reader.sweeps.runs(sweep_id)))), reader)


def at_once(runs: Sequence[RunRow], field: str) -> int | None:
    """Return the number of concurrent workers in runs by `field`, as defined by their experiment; None if it is the
    value of the field itself.
    """
    for run in runs:
        known = known_experiment(run.experiment)
        scaling = known.scaling if known else None
        if scaling and scaling.field == field and (found := run.config.get(scaling.at_once)):
            return int(found)
    return None


def axis_of(varied: Iterable[str]) -> str | None:
    """Return the field that is a count of ranks or splits, None if none of the varied fields is one."""
    found = set(varied)
    return next((name for name in count_fields() if name in found), None)


def differing(runs: Sequence[RunRow]) -> list[str]:
    """Return the settings, except the seed, in which runs of one experiment differ, counts first."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    found = [
        name for name in names if name not in APART and len({value_in_words(run.config.get(name)) for run in runs}) > 1
    ]
    counts = list(count_fields())
    return sorted(found, key=lambda name: counts.index(name) if name in counts else len(counts))


def _obstacles(runs: Sequence[RunRow], known: Sequence[Surroundings], grouped: set[str]) -> Iterable[str]:
    experiments = sorted({run.experiment for run in runs})
    if len(experiments) > 1:
        yield (
            f"The runs belong to {len(experiments)} experiments ({', '.join(map(experiment_title, experiments))}). "
            "Select runs of one experiment."
        )
    elif others := [name for name in differing(runs) if name not in grouped]:
        values = "; ".join(
            f"{lower_title(name)} {', '.join(sorted({value_in_words(run.config.get(name)) for run in runs}))}"
            for name in others[:3]
        )
        yield f"The runs also differ in {values}. Select runs with equal settings, or group by that setting."
    if mixed := mixture(runs):
        yield f"{mixed} Select runs with one rule: filter by seeding."
    if difference := unlike(known):
        yield f"The runs used different machines: {difference}. Select runs of one machine."
