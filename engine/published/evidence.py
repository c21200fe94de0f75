"""Evidence of a sweep for a figure: readings, missing runs, and obstacles to a fair comparison. Torch-free and pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from engine.analysis.hardware import unlike
from engine.analysis.run_values import fields_in_words, label
from engine.analysis.seedings import mixture
from engine.analysis.sweep_cells import tries
from engine.config_values import value_in_words
from engine.published.figure import EXECUTION, PASSES, WHOLE, Figure, Size
from engine.published.readings import FigureReading, Readings
from engine.registry import experiment, experiment_title
from engine.store import Surroundings, Sweep, Tested
from engine.store.records import ENDED, RunRow
from engine.store.sweeps.sweeps import SEED

MOST_NAMED = 3
_LAST = ("test/", "perf/steps_used")
"""Metrics whose last value represents a run; for others it is the mean."""


@dataclass(frozen=True)
class FigureEvidence:
    """Evidence for judging a figure."""

    readings: Readings
    finished: tuple[RunRow, ...]
    """The run of each cell that counts."""
    planned: int
    """Number of runs that the figure requires."""
    missing: tuple[str, ...]
    """Missing runs and the cure, one sentence each."""
    obstacles: tuple[str, ...]
    """Obstacles to a fair comparison, one sentence each."""


def numbers_of(figure: Figure) -> list[str]:
    """Return the names of all metrics that a figure's rules and chart use."""
    ruled = [rule.number for version in figure.versions for rule in figure.judged(version)]  # type: ignore[attr-defined]
    return list(dict.fromkeys([figure.number, *ruled, *([WHOLE, EXECUTION] if figure.timed else [])]))


def gather(
    figure: Figure,
    size: Size,
    sweep: Sweep,
    runs: Sequence[RunRow],
    around: Mapping[int, Surroundings],
    tested: Sequence[Tested],
) -> FigureEvidence:
    """Return the evidence of a sweep; `around` and `tested` belong to its runs."""
    cells = {key: _chosen(tried, figure) for key, tried in tries(sweep, runs).items()}
    finished = tuple(
        run
        for run in cells.values()
        if run.status == "finished" and not (figure.timed and run.disturbed) and _belongs(figure, size, run)
    )
    wanted = _planned(figure, size, sweep)
    return FigureEvidence(
        _on_the_way(figure, size, finished, tested) if figure.axis == PASSES else _readings(figure, finished),
        finished,
        len(wanted),
        (*_missing(wanted, [*sweep.grid], cells), *(_disturbed(wanted, [*sweep.grid], cells) if figure.timed else ())),
        tuple(_obstacles(figure, size, sweep, finished, around)),
    )


def number_of(run: RunRow, name: str) -> float | None:
    """Return the value of a metric that represents a finished run."""
    if name in (WHOLE, EXECUTION):
        more = run.startup_time_s or 0.0 if name == WHOLE else 0.0
        return None if run.execution_time_s is None else run.execution_time_s + more
    return (run.last if name.startswith(_LAST) else run.mean).get(name)


def _belongs(figure: Figure, size: Size, run: RunRow) -> bool:
    """Say whether a run belongs to the figure: runs added to its sweep may differ only along its axis and lines."""
    return all(
        run.config.get(name) in values
        for name, values in figure.versions[size].grid.items()
        if name not in (figure.axis, figure.line)
    )


def _chosen(tried: Sequence[RunRow], figure: Figure) -> RunRow:
    """Return the run that counts for a cell: the newest that finished (undisturbed, where times count), else the
    newest.
    """
    finished = [run for run in reversed(tried) if run.status == "finished"]
    return next((run for run in finished if not (figure.timed and run.disturbed)), (*finished, tried[-1])[0])


def _on_the_way(figure: Figure, size: Size, runs: Sequence[RunRow], tested: Sequence[Tested]) -> Readings:
    """Return each test of each run, at the pass at which it was due.

    Other processes train on while one tests, so the actual passes are slightly higher and differ between runs.
    """
    found: dict[str, list[FigureReading]] = {name: [] for name in numbers_of(figure)}
    seeds = {run.id: int(run.config[SEED]) for run in runs}
    places: dict[tuple[int, str], int] = {}
    for point in tested:
        if point.run_id in seeds and point.name in found:
            place = places[point.run_id, point.name] = places.get((point.run_id, point.name), 0) + 1
            found[point.name].append(
                FigureReading(
                    "", place * figure.versions[size].tested_every, seeds[point.run_id], point.run_id, point.value
                )
            )
    return found


def _readings(figure: Figure, runs: Sequence[RunRow]) -> Readings:
    found: dict[str, list[FigureReading]] = {name: [] for name in numbers_of(figure)}
    for run in runs:
        if figure.axis not in run.config:
            continue
        for name, readings in found.items():
            if (value := number_of(run, name)) is not None:
                line = str(run.config.get(figure.line, "")) if figure.line else ""
                readings.append(
                    FigureReading(line, float(run.config[figure.axis]), int(run.config[SEED]), run.id, value)
                )
    return found


def _planned(figure: Figure, size: Size, sweep: Sweep) -> list[tuple[Any, ...]]:
    """Return the keys of the cells that the figure requires, as in `engine.analysis.sweep_cells`."""
    version = figure.versions[size]
    seeds = sweep.seeds[: version.seeds]
    return list(
        product(*(version.grid.get(name, values) if name != SEED else seeds for name, values in sweep.grid.items()))
    )


def _missing(
    wanted: Sequence[tuple[Any, ...]], names: Sequence[str], cells: Mapping[tuple[Any, ...], RunRow]
) -> Iterable[str]:
    gone = [key for key in wanted if key not in cells]
    bad = [key for key in wanted if key in cells and cells[key].status in ENDED and cells[key].status != "finished"]
    if bad:
        ends = ", ".join(sorted({cells[key].status for key in bad}))
        yield (f"{_count(bad, wanted)} did not finish ({ends}): {_named(bad, names)}. Use Retry on the sweep's page.")
    if gone:
        yield (
            f"{_count(gone, wanted)} {'is' if len(gone) == 1 else 'are'} missing: {_named(gone, names)}. Launch the "
            "figure again."
        )


def _disturbed(
    wanted: Sequence[tuple[Any, ...]], names: Sequence[str], cells: Mapping[tuple[Any, ...], RunRow]
) -> Iterable[str]:
    if keys := [key for key in wanted if key in cells and cells[key].disturbed]:
        yield (
            f"{_count(keys, wanted)} {'was' if len(keys) == 1 else 'were'} disturbed by other programs or the host and "
            f"left out: {_named(keys, names)}. Use Measure again on the sweep's page."
        )


def _obstacles(
    figure: Figure, size: Size, sweep: Sweep, runs: Sequence[RunRow], around: Mapping[int, Surroundings]
) -> Iterable[str]:
    if sweep.experiment != figure.experiment:
        its, needed = experiment_title(sweep.experiment), experiment_title(figure.experiment)
        yield f"The sweep runs {its}, but the figure needs {needed}. Launch the figure again."
        return
    wanted = (
        experiment(figure.experiment)
        .configure(figure.versions[size].preset, figure.versions[size].changes)
        .model_dump(mode="json")
    )
    varied = {figure.axis, figure.line, SEED, *sweep.grid}
    for name, value in wanted.items():
        others = {
            value_in_words(run.config[name]): run.id
            for run in runs
            if name not in varied and name in run.config and run.config[name] != value
        }
        for other, run_id in others.items():
            yield (f"{label(name)} must be {value_in_words(value)}; run {run_id} has {other}. Launch the figure again.")
    if mixed := mixture(runs):
        yield f"{mixed} Launch the figure again."
    if figure.timed and (difference := unlike([around[run.id] for run in runs if run.id in around])):
        yield f"Its timings come from different machines: {difference}. Launch it again on one machine."


def _count(some: Sequence[object], all_: Sequence[object]) -> str:
    return f"{len(some)} of {len(all_)} runs"


def _named(keys: Sequence[tuple[Any, ...]], names: Sequence[str]) -> str:
    shown = "; ".join(fields_in_words(dict(zip(names, key, strict=True))) for key in keys[:MOST_NAMED])
    return f"{shown} and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else shown
