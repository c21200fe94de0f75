"""Published values beside the mean and interval of a sweep: inside, outside, set-up assumed, not comparable.
Torch-free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

from engine.analysis.comparability import gpus_used, mixture, unlike
from engine.analysis.run_values import fields_in_words, label, tries
from engine.analysis.statistics.intervals import EQUAL, FEWEST, Interval, mean_interval
from engine.config_values import value_in_words
from engine.metrics import metric
from engine.published.figures import EXECUTION, PASSES, PRESET, SIZES, WHOLE, Figure, PublishedValue, Size
from engine.registry import experiment, experiment_title
from engine.store import Reader, Surroundings, Sweep, Tested
from engine.store.records import ENDED, RunRow
from engine.store.sweeps.sweeps import SEED
from engine.transfer.tables import Table

Result = Literal["inside", "outside", "set-up assumed", "not comparable"]
RESULTS: tuple[Result, ...] = get_args(Result)
NO_NUMBERS = "no numbers published"
MOST_NAMED = 3
MEAN_COLUMNS = ("Mean", "95 % CI from", "95 % CI to", "Seeds")


@dataclass(frozen=True)
class FigureReading:
    """One value of one run, with its line and x."""

    line: str
    x: float
    run_id: int
    value: float


@dataclass(frozen=True)
class ComparedValue:
    """One published value beside the mean of our runs."""

    published: PublishedValue
    mean: Interval | None = None
    """With its 95 % interval; None without a run."""
    result: Result | None = None
    """None where too few seeds have finished for an interval."""
    reason: str = "not measured yet"


@dataclass(frozen=True)
class FigureComparison:
    """A figure compared with one of its sweeps."""

    figure: Figure
    size: Size
    sweep: Sweep
    readings: Mapping[str, Sequence[FigureReading]]
    """Readings by metric name."""
    finished: tuple[RunRow, ...]
    """The run of each cell that counts."""
    planned: int
    """Number of runs that the figure requires."""
    missing: tuple[str, ...]
    """Missing runs and the cure, one sentence each."""
    obstacles: tuple[str, ...]
    """Obstacles to a fair comparison, one sentence each."""
    values: tuple[ComparedValue, ...]

    @property
    def counts(self) -> dict[Result, int]:
        """Return the number of values by result, without results that no value has."""
        found = [value.result for value in self.values]
        return {result: found.count(result) for result in RESULTS if result in found}

    @property
    def summary(self) -> str:
        """Return the counts in words: 2 inside, 1 outside."""
        if not self.values:
            return NO_NUMBERS
        return ", ".join(f"{count} {result}" for result, count in self.counts.items()) or "not enough finished runs"


def size_of(sweep: Sweep, figure: Figure) -> Size:
    """Return the size at which a figure's sweep was launched."""
    return next(size for size in SIZES if sweep.figure == figure.key(size))


def sweeps_of(reader: Reader, figure: Figure) -> list[Sweep]:
    """Return the sweeps launched for a figure, newest first."""
    return reader.sweeps.of_figures([figure.key(size) for size in figure.versions])


def best_comparison(reader: Reader, figure: Figure) -> FigureComparison | None:
    """Return the comparison with the newest sweep with finished runs, a full one if any; None without one."""
    known = [compare(reader, figure, sweep) for sweep in sweeps_of(reader, figure)[:4]]
    known = [each for each in known if each.finished]
    return next((each for each in known if each.size == "full"), known[0] if known else None)


def compare(reader: Reader, figure: Figure, sweep: Sweep) -> FigureComparison:
    """Compare a figure with one of its sweeps."""
    size = size_of(sweep, figure)
    cells = {key: _counted(tried, figure) for key, tried in tries(sweep, reader.sweeps.runs(sweep.id)).items()}
    ended = [run for run in cells.values() if run.status == "finished" and _belongs(figure, size, run)]
    finished = tuple(run for run in ended if not (figure.timed and run.disturbed))
    ids = [run.id for run in finished]
    around = reader.studies.surroundings(ids)
    names = metrics_of(figure)
    if figure.axis == PASSES:
        readings = _on_the_way(figure, size, reader.studies.tested(ids, names))
    else:
        readings = {name: list(_readings(figure, finished, name)) for name in names}
    obstacles = tuple(_obstacles(figure, size, sweep, finished, around))
    why = _why_not(figure, size, obstacles, around)
    left_out = [float(run.config.get(figure.axis, 0)) for run in ended if run not in finished]
    values = tuple(_compared(figure, value, readings[value.metric], why, left_out) for value in figure.published)
    wanted = _planned(figure, size, sweep)
    missing = tuple(_missing(figure, wanted, [*sweep.grid], cells))
    return FigureComparison(figure, size, sweep, readings, finished, len(wanted), missing, obstacles, values)


def metrics_of(figure: Figure) -> list[str]:
    """Return the names of all metrics that a figure's values and chart use."""
    times = [WHOLE, EXECUTION] if figure.timed else []
    return list(dict.fromkeys([figure.metric, *(value.metric for value in figure.published), *times]))


def number_of(run: RunRow, name: str) -> float | None:
    """Return the value of a metric that represents a finished run."""
    if name in (WHOLE, EXECUTION):
        more = run.startup_time_s or 0.0 if name == WHOLE else 0.0
        return None if run.execution_time_s is None else run.execution_time_s + more
    return (run.last if name.startswith("test/") else run.mean).get(name)


def values_table(figure: Figure, values: Sequence[ComparedValue]) -> Table:
    """Return each published value beside our mean, with its result."""
    rows = [
        [
            _titled(each.published.metric),
            each.published.x,
            f"{each.published.value:g} ± {each.published.spread:g}" if each.published.spread else each.published.value,
            each.result or "–",
            *mean_cells(each.mean),
            each.reason,
        ]
        for each in values
    ]
    return Table(("Metric", figure.axis, "Published", "Result", *MEAN_COLUMNS, "Reason"), rows)


def _titled(name: str) -> str:
    found = metric(name)
    return f"{found.label} ({found.unit})" if found.unit else found.label


def mean_cells(mean: Interval | None) -> list[float | None]:
    """Return the cells of MEAN_COLUMNS."""
    if mean is None:
        return [None, None, None, 0]
    ends = (mean.low, mean.high) if mean.count >= FEWEST["mean"] else (None, None)
    return [mean.mean, *ends, mean.count]


def _compared(
    figure: Figure, published: PublishedValue, readings: Sequence[FigureReading], why: str, left_out: Sequence[float]
) -> ComparedValue:
    values = [reading.value for reading in readings if reading.x == published.x]
    mean = mean_interval(values) if values else None
    few = len(values) < FEWEST["mean"]
    if few and not why and (disturbed := left_out.count(published.x)):
        why = f"{disturbed} of {len(values) + disturbed} runs were disturbed by other programs or the host"
    if why:
        return ComparedValue(published, mean, "not comparable", why)
    if mean is None or few:
        return ComparedValue(published, mean, None, f"at least {FEWEST['mean']} seeds required; got {len(values)}")
    apart = published.spread + EQUAL * abs(published.value)
    inside = mean.low - apart <= published.value <= mean.high + apart
    where: Result = "inside" if inside else "outside"
    if figure.assumed:
        why = f"{where} our interval; not stated by the source: {figure.assumed}"
        return ComparedValue(published, mean, "set-up assumed", why)
    return ComparedValue(published, mean, where, "")


def _why_not(figure: Figure, size: Size, obstacles: Sequence[str], around: Mapping[int, Surroundings]) -> str:
    """Return why values aren't comparable with the published ones; empty where they are."""
    if obstacles:
        return obstacles[0]
    if figure.versions[size].reduced:
        return "the reduced version does different work from the source"
    if figure.timed and any(gpus_used(run) < figure.gpus for run in around.values()):
        return f"timings on other hardware: the source used {figure.gpus} GPUs, these runs fewer"
    return ""


def _belongs(figure: Figure, size: Size, run: RunRow) -> bool:
    """Return whether a run belongs to the figure: runs added to its sweep may differ only along its axis and lines."""
    grid = figure.versions[size].grid
    return all(run.config.get(name) in grid[name] for name in grid if name not in (figure.axis, figure.line))


def _counted(tried: Sequence[RunRow], figure: Figure) -> RunRow:
    """Return the run that counts for a cell: the newest that finished (undisturbed, where times count), else the
    newest.
    """
    finished = [run for run in reversed(tried) if run.status == "finished"]
    return next((run for run in finished if not (figure.timed and run.disturbed)), (*finished, tried[-1])[0])


def _on_the_way(figure: Figure, size: Size, tested: Sequence[Tested]) -> dict[str, list[FigureReading]]:
    """Return each test of each run, at the pass at which it was due.

    Other processes train on while one tests, so the actual passes are slightly higher and differ between runs.
    """
    readings: dict[str, list[FigureReading]] = {name: [] for name in metrics_of(figure)}
    places: dict[tuple[int, str], int] = {}
    for point in tested:
        place = places[point.run_id, point.name] = places.get((point.run_id, point.name), 0) + 1
        x = place * figure.versions[size].tested_every
        readings[point.name].append(FigureReading("", x, point.run_id, point.value))
    return readings


def _readings(figure: Figure, runs: Sequence[RunRow], name: str) -> Iterable[FigureReading]:
    for run in runs:
        if figure.axis in run.config and (value := number_of(run, name)) is not None:
            line = str(run.config.get(figure.line, "")) if figure.line else ""
            yield FigureReading(line, float(run.config[figure.axis]), run.id, value)


def _planned(figure: Figure, size: Size, sweep: Sweep) -> list[tuple[Any, ...]]:
    """Return the keys of the cells that the figure requires, as in `engine.analysis.run_values`."""
    grid = {**figure.versions[size].grid, SEED: sweep.seeds[: figure.versions[size].seeds]}
    return list(product(*(grid.get(name, values) for name, values in sweep.grid.items())))


def _missing(
    figure: Figure, wanted: Sequence[tuple[Any, ...]], names: Sequence[str], cells: Mapping[tuple[Any, ...], RunRow]
) -> Iterable[str]:
    there = {key: cells[key] for key in wanted if key in cells}
    bad = [key for key, run in there.items() if run.status in ENDED and run.status != "finished"]
    ends = ", ".join(sorted({there[key].status for key in bad}))
    for keys, what, cure in (
        (bad, f"did not finish ({ends})", "Use Retry on the sweep's page."),
        ([key for key in wanted if key not in cells], "missing", "Launch the figure again."),
        (
            [key for key, run in there.items() if figure.timed and run.disturbed],
            "disturbed by other programs or the host, and left out",
            "Use Measure again on the sweep's page.",
        ),
    ):
        shown = "; ".join(fields_in_words(dict(zip(names, key, strict=True))) for key in keys[:MOST_NAMED])
        more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
        if keys:
            yield f"{len(keys)} of {len(wanted)} runs {what}: {shown}{more}. {cure}"


def _obstacles(
    figure: Figure, size: Size, sweep: Sweep, runs: Sequence[RunRow], around: Mapping[int, Surroundings]
) -> Iterable[str]:
    if sweep.experiment != figure.experiment:
        its, needed = experiment_title(sweep.experiment), experiment_title(figure.experiment)
        yield f"The sweep runs {its}, but the figure needs {needed}. Launch the figure again."
        return
    config = experiment(figure.experiment).configure(PRESET, figure.versions[size].changes)
    for name, value in config.model_dump(mode="json").items():
        if name in {figure.axis, figure.line, SEED, *sweep.grid}:
            continue
        others = {value_in_words(run.config[name]): run.id for run in runs if run.config.get(name, value) != value}
        for other, run_id in others.items():
            yield f"{label(name)} must be {value_in_words(value)}; run {run_id} has {other}. Launch the figure again."
    if mixed := mixture(runs):
        yield f"{mixed} Launch the figure again."
    if figure.timed and (difference := unlike([around[run.id] for run in runs if run.id in around])):
        yield f"Its timings come from different machines: {difference}. Launch it again on one machine."
