"""Store queries about a pipeline's batches: which batch to show, and the cost of another run with fewer splits."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.analysis.pipeline import BatchSpans, SplitCost, batches, stage_work, work_s
from engine.store import Reader
from engine.store.records import Run, RunRow

LOOKED_BACK = 4
"""Number of newest batches searched for a complete one: stages report at different times."""
COMPARED = 30
FREE = {"splits", "seed", "batches", "evaluate_every", "timeout_s", "learning_rate", "momentum", "fault", "fault_stage"}
"""Settings that may differ between two runs whose work per image is compared."""


def batch(reader: Reader, run_id: int, number: int, config: Mapping[str, Any]) -> BatchSpans:
    """Return one recorded batch, with as many of its spans as can be drawn."""
    stages, splits = config["stages"], config["splits"]
    found = batches(reader.details.batch_spans(run_id, number, splits), stages, splits)
    return found[0] if found else BatchSpans(number, stages, splits, ())


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


def stage_work_of(run: RunRow, reader: Reader) -> list[tuple[float, float]]:
    """Return each stage's forward and backward seconds in a run's last complete batch; empty if none was recorded."""
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
