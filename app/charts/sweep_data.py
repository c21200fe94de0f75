"""The data of a sweep's chart and table: available metrics, a group of runs per point, and reference lines."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any, NamedTuple

import streamlit as st

from engine.analysis.pipeline import BatchSpans, SplitCost, batches, stage_work, work_s
from engine.analysis.result import ranked, ranking_metric, reached_most
from engine.analysis.run_values import field_in_words, split
from engine.analysis.scaling.answers import question
from engine.analysis.scaling.scaling_data import axis_of, by_values
from engine.analysis.scaling.time_difference import Compares
from engine.analysis.statistics.groups import Group, grouped
from engine.errors import MethodFault
from engine.experiment import Baseline, Experiment, Reference, Scaling, TradeOff
from engine.experiments.pipeline.config import PipelineConfig
from engine.metrics import LAST_EPISODES, depends_on_time, metric
from engine.registry import known_experiment
from engine.store import Reader, Sweep
from engine.store.records import Run, RunRow, is_complete

EXECUTION, STARTUP = "perf/execution_time_s", "perf/startup_time_s"
Lines = dict[tuple[object, ...], list[Reference]]
"""Reference lines by the values that identify a measured line."""


def experiment_of(sweep: Sweep) -> Experiment | None:
    """Return the sweep's experiment, None if this version doesn't have it."""
    return known_experiment(sweep.experiment)


def is_for_learning(sweep: Sweep) -> bool:
    """Return whether a sweep asks about learning alone: by its ready-made question, else as it is not for timing and
    varies no count.
    """
    ready = question(sweep)
    return not ready.is_timed if ready else not (sweep.timing or sweep.exclusive or axis_of(sweep.fields))


def metric_asked(sweep: Sweep, runs: Sequence[RunRow]) -> str:
    """Return the metric that a sweep asks about: the quality that its ready-made question weighs, or the cost where it
    is about that; execution time if it is for timing or varies a count, unless its ready-made question is another; else
    the result of its experiment, and of a lab's own script the metric that ranks its runs, or tells most. A sweep over
    a count that is not for timing is asked about its result where that has an answer, or where all its times are
    disturbed.
    """
    known, ready = experiment_of(sweep), question(sweep)
    if ready and isinstance(ready.answer, TradeOff) and (asked := split(ready.answer.asked)):
        return asked[0]
    is_for_timing = bool(sweep.timing or sweep.exclusive)
    timed = ready.is_timed if ready else is_for_timing or axis_of(sweep.fields)
    complete = [run for run in runs if is_complete(run)]
    if known is None:
        found = (each.result.metric for run in complete or runs if (each := ranked(run)))
        return EXECUTION if timed else ranking_metric(complete or runs) or next(found, EXECUTION)
    if not timed:
        return known.result.metric
    is_disturbed = bool(complete) and all(run.disturbed for run in complete)
    if not is_for_timing and (is_disturbed or (not ready and reached_most(by_values(sweep.fields, runs)))):
        return known.result.metric
    return EXECUTION


def metric_choices(runs: Sequence[RunRow], asked: str = EXECUTION) -> list[str]:
    """Return the metrics that complete runs can be compared by: execution time first, where there is one, then tests,
    rewards, throughput; `asked` also while no run is complete.
    """
    complete = [run for run in runs if is_complete(run)]
    found = {name for run in complete for name in run.last} if complete else {asked}
    found -= {EXECUTION, STARTUP}
    timed = [EXECUTION] if not complete or any(run.execution_time_s is not None for run in complete) else []
    order = ("test/", "charts/", "perf/", "train/")
    rank = {
        name: next((place for place, start in enumerate(order) if name.startswith(start)), len(order)) for name in found
    }
    return [
        *timed,
        *sorted(found, key=lambda name: (rank[name], metric(name).better is None, name != LAST_EPISODES, name)),
        STARTUP,
    ]


def default_metric(choices: Sequence[str], compares: Compares, asked: str = EXECUTION) -> str:
    """Return the metric `asked` about if the runs have it and it is no time, else the first one by which they
    compare.
    """
    if asked != EXECUTION and asked in choices:
        return asked
    rates = [name for name in choices if compares == "rate" and metric(name).is_rate]
    others = [name for name in choices if compares == "neither" and name not in (EXECUTION, STARTUP)]
    return [*rates, *others, *choices][0]


def statistic_of(name: str, *, of_script: bool = False) -> str:
    """Return which statistic of a metric represents a run, in words; empty if it has only one. Runs `of_script`s of the
    lab's own are ranked by last values.
    """
    if metric(name).is_single:
        return ""
    return (
        "last value of each run"
        if of_script or name.startswith("test/") or name == LAST_EPISODES
        else "mean over each run"
    )


def value_of(run: RunRow, name: str) -> float | None:
    """Return a complete run's value for a metric."""
    if not is_complete(run):
        return None
    if name in (EXECUTION, STARTUP):
        return run.execution_time_s if name == EXECUTION else run.startup_time_s
    statistic = statistic_of(name, of_script=known_experiment(run.experiment) is None)
    return (run.mean if statistic.startswith("mean") else run.last).get(name)


class DisturbedPoint(NamedTuple):
    """A disturbed run as a point apart."""

    x: Any
    y: float
    run_id: int
    share: float
    """Its disturbance (0 to 1)."""


def disturbed_of(sweep: Sweep, runs: Sequence[RunRow], name: str) -> list[DisturbedPoint]:
    """Return the disturbed runs of a metric that depends on time."""
    if not depends_on_time(name):
        return []
    return [
        DisturbedPoint(key_of(sweep, run)[0], value, run.id, run.disturbance or 0.0)
        for run in runs
        if run.disturbed and (value := value_of(run, name)) is not None
    ]


def is_by_median(sweep: Sweep, name: str) -> bool:
    """Return whether a sweep is judged by the medians of a metric: a sweep for timing, by what depends on time."""
    return sweep.timing is not None and depends_on_time(name)


def groups_of(sweep: Sweep, runs: Sequence[RunRow], name: str) -> list[Group]:
    """Return a group for each combination with a finished run; keys are the values of the sweep's fields."""
    return _in_order(
        sweep,
        grouped((key_of(sweep, run), run.id, value) for run in runs if (value := value_of(run, name)) is not None),
    )


def rank_groups_of(sweep: Sweep, runs: Sequence[RunRow], name: str, reader: Reader) -> list[Group]:
    """Return a group for each combination and rank; keys are the values of the sweep's fields and the rank's role."""
    keys = {run.id: key_of(sweep, run) for run in runs}
    numbers = reader.sweeps.rank_numbers(sweep.id, name)
    return _in_order(
        sweep,
        grouped(
            ((*keys[found.run_id], found.role), found.run_id, found.value) for found in numbers if found.run_id in keys
        ),
    )


def key_of(sweep: Sweep, run: RunRow) -> tuple[object, ...]:
    """Return a run's values of the fields that the chart is drawn across."""
    return tuple(run.config.get(field) for field in sweep.across)


def line_name(sweep: Sweep, line: Sequence[object]) -> str:
    """Return the name of a line from the values of all fields but the x-axis, such as `gpipe`, `lock true` or `gpipe,
    stage1`; empty if there are none.
    """
    fields = sweep.fields[1:]
    return ", ".join(field_in_words(field, value) for field, value in zip_longest(fields, line, fillvalue=""))


def references(sweep: Sweep, runs: Sequence[RunRow], name: str, reader: Reader) -> tuple[Lines, str]:
    """Return the reference lines for execution time, by measured line, and a note if some have no starting
    point yet.
    """
    known = experiment_of(sweep)
    scaling = known.scaling if known else None
    if scaling is None or name != EXECUTION or sweep.draw or sweep.fields[:1] != (scaling.field,):
        return {}, ""
    try:
        found = {
            line: lines
            for line, starts in _starts(sweep, runs, scaling)
            if (lines := _lines(starts, sweep, scaling, reader))
        }
    except MethodFault as fault:  # code of the lab's own
        return {}, str(fault)
    wanted = {key_of(sweep, run)[1:] for run in runs}
    if len(found) == len(wanted):
        return found, ""
    start = field_in_words(scaling.field, scaling.start)
    cure = (
        f"available once a run with {start} has finished."
        if scaling.start in sweep.grid[scaling.field]
        else f"add {start} to a sweep to see them."
    )
    return found, f"{scaling.called} need the execution time measured with {start}: {cure}"


def explained(sweep: Sweep) -> str:
    """Return the explanation of the sweep's reference lines."""
    known = experiment_of(sweep)
    return known.scaling.explained if known and known.scaling else ""


def _starts(
    sweep: Sweep, runs: Sequence[RunRow], scaling: Scaling
) -> Iterator[tuple[tuple[object, ...], list[RunRow]]]:
    """Yield each measured line with its finished runs at the start value of the reference lines."""
    lines = dict.fromkeys(key_of(sweep, run)[1:] for run in runs)
    for line in lines:
        wanted = (scaling.start, *line)
        yield (
            line,
            [
                run
                for run in runs
                if run.status == "finished" and run.execution_time_s is not None and key_of(sweep, run) == wanted
            ],
        )


def _lines(starts: Sequence[RunRow], sweep: Sweep, scaling: Scaling, reader: Reader) -> list[Reference]:
    times = [run.execution_time_s for run in starts if run.execution_time_s is not None]
    if not times:
        return []
    each = [found for run in starts if (found := stage_work_of(run, reader))]
    work = [[fmean(kind) for kind in zip(*of_stage, strict=True)] for of_stage in zip(*each, strict=True)]
    return scaling.references(Baseline(starts[0].config, sum(times) / len(times), work), axis(sweep))


def axis(sweep: Sweep) -> list[int]:
    """Return the axis values of reference lines, in ascending order."""
    return sorted(sweep.grid[sweep.fields[0]])


def in_order(sweep: Sweep, keys: Iterable[tuple[Hashable, ...]]) -> list[tuple[Hashable, ...]]:
    """Return the keys of groups in grid order."""
    places = [{value: place for place, value in enumerate(sweep.grid[field])} for field in sweep.across]
    last = max(map(len, places), default=0)
    return sorted(
        keys,
        key=lambda key: [
            *(place.get(value, last) for place, value in zip(places, key, strict=False)),
            *map(str, key[len(places) :]),
        ],
    )


def _in_order(sweep: Sweep, groups: Sequence[Group]) -> list[Group]:
    by_key = {group.key: group for group in groups}
    return [by_key[key] for key in in_order(sweep, by_key)]


# ------------------------------------------------------------------------------------------------------------------
# Store queries about a pipeline's batches: which batch to show, and the cost of another run with fewer splits.

LOOKED_BACK = 4
"""Number of newest batches searched for a complete one: stages report at different times."""
COMPARED = 30
FREE = {"splits", "seed", "batches", "evaluate_every", "timeout_s", "learning_rate", "momentum", "fault", "fault_stage"}
"""Settings that may differ between two runs whose work per image is compared."""


def batch(reader: Reader, run_id: int, number: int, config: Mapping[str, Any]) -> BatchSpans:
    """Return one recorded batch, with as many of its spans as can be drawn."""
    layout = PipelineConfig.model_construct(**config).layout
    found = batches(reader.details.batch_spans(run_id, number, layout.splits), layout)
    return found[0] if found else BatchSpans(number, layout, ())


def last_complete(reader: Reader, run_id: int, recorded: Sequence[int], config: Mapping[str, Any]) -> BatchSpans:
    """Return the newest complete batch of those `recorded` (one or more), or the newest one if none of the last few is
    complete.
    """
    found = [batch(reader, run_id, recorded[-1], config)]
    for number in reversed(recorded[-LOOKED_BACK:-1]):
        if found[-1].complete:
            return found[-1]
        found.append(batch(reader, run_id, number, config))
    return found[-1] if found[-1].complete else found[0]


def stage_work_of(run: RunRow, reader: Reader) -> list[tuple[float, ...]]:
    """Return each stage's seconds by kind of work in a run's last complete batch; empty if none was recorded."""
    if not {"stages", "splits"} <= run.config.keys():
        return []
    recorded = reader.details.recorded_batches(run.id, run.config["splits"])
    found = last_complete(reader, run.id, recorded, run.config) if recorded else None
    return stage_work(found) if found and found.complete else []


def slower_than_fewer_splits(run: Run, shown: BatchSpans, reader: Reader) -> SplitCost | None:
    """Return the finished run that did the same work in fewer splits at the lowest cost; None if there is none on this
    machine.
    """
    finished = reader.runs.find(experiment=run.experiment, statuses=["finished"], limit=COMPARED)
    alike = [
        row
        for row in finished
        if row.id != run.id and row.config.get("splits", 0) < shown.splits and _same(row.config, run.config)
    ]
    found = [
        SplitCost(row.id, row.config["splits"], work_s(shown) / spent)
        for row in alike
        if (spent := _work(row.id, row.config, run, reader))
    ]
    return max(found, key=lambda each: each.times, default=None)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in {*one, *other} - FREE)


def _work(run_id: int, config: Mapping[str, Any], beside: Run, reader: Reader) -> float:
    """Return the work seconds in another run's last complete batch, 0 if not comparable; cached per session for ended
    runs.
    """
    key = f"pipeline.work.{beside.id}.{run_id}"
    if key not in st.session_state:
        recorded = reader.details.recorded_batches(run_id, config["splits"])
        found = last_complete(reader, run_id, recorded, config) if recorded else None
        here = reader.runs.one(run_id).environment.get("host") == beside.environment.get("host")
        st.session_state[key] = work_s(found) if found and found.complete and here else 0.0
    return float(st.session_state[key])
