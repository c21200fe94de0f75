"""Runs by count (of ranks or splits): the data of all scaling charts and tables. Torch-free."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from engine.analysis.comparability import crowded, left_out, mixture, unlike
from engine.analysis.run_values import fields_in_words, lower_title, measured
from engine.analysis.statistics.intervals import Statistic
from engine.analysis.total_work import counted, declared, unequal_work_of
from engine.config_values import value_in_words
from engine.metrics import throughput
from engine.registry import experiment_title, experiments, known_experiment, server_roles
from engine.store import Reader, Surroundings
from engine.store.records import RunRow
from engine.store.sweeps.sweeps import SEED

THREADS = "threads_per_rank"
"""The count that every experiment has."""
PROCESSES = ("processes", "launcher_processes")
"""The field of a command that says how many processes its launcher starts (engine/script/command.py)."""
APART = frozenset({SEED, "checkpoint_every_s", "render_every_s", "timeout_s"})
"""Settings that may differ between runs with comparable timings."""


class NoAnswer(Exception):
    """Why a sweep does not answer its question, in words after a colon; `needs` complete runs more at least."""

    def __init__(self, why: str, needs: int = 1) -> None:
        super().__init__(why)
        self.needs = needs


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


WITH_DISTURBED = "With disturbed runs: "


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
    caveat: str = ""
    """What findings begin with where disturbed runs count: `WITH_DISTURBED`; else empty."""

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
        WITH_DISTURBED if with_disturbed and any(run.disturbed for run in timed) else "",
    )


def count_fields() -> dict[str, str]:
    """Return the fields of experiments and commands in which more should be faster, each with its singular word; the
    first one that varies is the x-axis.
    """
    own = {name: one for each in experiments() for name, one in each.counts.items()}
    return own | dict.fromkeys(PROCESSES, "process") | {THREADS: "thread per rank"}


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
    """Return the settings, except the seed, in which runs of one experiment differ, counts first; without their length
    where that makes them do the same total work.
    """
    names = dict.fromkeys(name for run in runs for name in run.config)
    works = [declared(run.experiment, run.config) for run in runs]
    is_even = len({(work.unit, work.amount) if work else None for work in works}) == 1
    apart = {*APART, *(work.length for work in works if work and is_even)}
    found = [
        name for name in names if name not in apart and len({value_in_words(run.config.get(name)) for run in runs}) > 1
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


# ------------------------------------------------------------------------------------------------------------------
# Time breakdown of ranks by count: seconds in each phase, the share of communication, and the break-even count.
# Torch-free.

WORK = ("compute", "update", "data", "evaluate")
"""Productive phases; all others except `serve` are overhead of parallelism."""
SHARES = {
    "work": WORK,
    "communication": ("communicate",),
    "waiting and locks": ("wait", "lock"),
    "other": ("other",),
}
"""Phases by the names under which they are summed."""
SERVE = "serve"
PhasesOf = Mapping[int, Mapping[str, Mapping[str, float]]]
"""Seconds by run, role and phase."""


@dataclass(frozen=True)
class PhaseBar:
    """The seconds of one rank, or the mean of several of the same kind, in each phase."""

    line: tuple[Any, ...]
    count: int
    rank: str
    """The role, or the kind of role (trainer, observer) if several were averaged."""
    seconds: Mapping[str, float]

    @property
    def whole_s(self) -> float:
        """Seconds of the main thread; the time of handler threads is not included."""
        return sum(spent for phase, spent in self.seconds.items() if phase != SERVE)

    def share(self, *phases: str) -> float:
        """Return the share (0 to 1) of some phases."""
        return sum(self.seconds.get(phase, 0.0) for phase in phases) / self.whole_s if self.whole_s else 0.0


@dataclass(frozen=True)
class CountStep:
    """Savings and costs of the step from one count to the next, in seconds per rank for the work of the
    smallest size.
    """

    line: tuple[Any, ...]
    first: int
    second: int
    saved_s: float
    cost_s: float

    @property
    def gain_s(self) -> float:
        """Seconds gained per added rank."""
        return (self.saved_s - self.cost_s) / (self.second - self.first)


def bars(timings: Sequence[TimedRun], phases: PhasesOf, *, each_rank: bool) -> list[PhaseBar]:
    """Return a bar for each line, count and rank (or kind of rank): the mean over seeds, in ascending order of
    counts.
    """
    groups: dict[tuple[tuple[Any, ...], int, str], list[Mapping[str, float]]] = {}
    for timing in sorted(timings, key=lambda timing: timing.count):
        for role, spent in phases.get(timing.run_id, {}).items():
            groups.setdefault((timing.line, timing.count, role if each_rank else kind_of(role)), []).append(spent)
    return [PhaseBar(*key, _mean(found)) for key, found in groups.items()]


def kind_of(role: str) -> str:
    """Return the kind of rank of a role: trainer for trainer3."""
    return role.rstrip("0123456789")


def steps(timings: Sequence[TimedRun], phases: PhasesOf) -> list[CountStep]:
    """Return savings and costs of each step to a larger count, by line; empty if phases or sizes are missing.

    Seconds are the mean over the ranks that compute, scaled to the same amount of work.
    """
    found = []
    for line in dict.fromkeys(timing.line for timing in timings):
        costs = _costs([timing for timing in timings if timing.line == line], phases)
        counts = sorted(costs)
        for first, second in pairwise(counts):
            (work, rest), (next_work, next_rest) = costs[first], costs[second]
            found.append(CountStep(line, first, second, work - next_work, next_rest - rest))
    return found


def break_even(found: Sequence[CountStep]) -> float | None:
    """Return the count at which an added rank costs what it saves, interpolated between the midpoints of the
    steps of one line; None if there is none.

    The first count if the first step already costs more than it saves.
    """
    middles = [((step.first + step.second) / 2, step.gain_s) for step in found]
    for place, (middle, gain) in enumerate(middles):
        if gain <= 0:
            if place == 0:
                return float(found[0].first)
            before, gained = middles[place - 1]
            return before + (middle - before) * gained / (gained - gain)
    return None


def _costs(timings: Sequence[TimedRun], phases: PhasesOf) -> dict[int, tuple[float, float]]:
    """Return the seconds of work and of overhead by count: the mean of the computing ranks, for the work of the
    smallest size.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    servers = server_roles()
    base = min(((timing.count, timing.work) for timing in timings), default=(0, 1.0))[1]
    for timing in timings:
        roles = [spent for role, spent in phases.get(timing.run_id, {}).items() if role not in servers]
        if roles:
            scale = base / timing.work
            own = sum(spent.get(phase, 0.0) for spent in roles for phase in WORK) / len(roles) * scale
            whole = (
                sum(seconds for spent in roles for phase, seconds in spent.items() if phase != SERVE)
                / len(roles)
                * scale
            )
            found.setdefault(timing.count, []).append((own, whole - own))
    return {
        count: (sum(one for one, _ in each) / len(each), sum(other for _, other in each) / len(each))
        for count, each in found.items()
    }


def _mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for spent in found for name in spent)
    return {name: sum(spent.get(name, 0.0) for spent in found) / len(found) for name in names}
