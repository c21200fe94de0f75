"""Convert rows to records: the only place that maps columns to fields."""

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from types import MappingProxyType

from engine.launch_options import PRIORITIES, LaunchOptions
from engine.metrics import MetricSetting, is_rate, metric, rate_of, throughput
from engine.store.records import Demand, ProcessIdentity, Run, RunnerRow, RunRow, Status, Summary
from engine.store.schema.config_text import WHOLE
from engine.store.scripts import REPEATS, SCRIPT, as_command, command_of
from engine.store.timestamps import seconds_since

_LISTED = (
    *("id", "experiment", "preset", "name", "owner", "status", "cause", "created_at", "started_at", "ended_at"),
    *("execution_time_s", "startup_time_s", "version", "time_before_s", "sweep_id"),
    *("starred_by", "pinned_by", "archived_by", "seeding", "target", "nodes", "command_id", "heartbeat_at"),
)
TIMED = "execution_time_s, command_id, started_at, ended_at, time_before_s"
"""Columns of runs from which the throughput follows."""
_TAGS = "(SELECT json_group_array(tag) FROM (SELECT tag FROM tags WHERE tags.run_id = runs.id ORDER BY tag)) AS tags"
_OF_SWEEP = ", ".join(
    f"coalesce((SELECT {name} FROM sweeps WHERE sweeps.id = runs.sweep_id), 0) AS sweep_{name}"
    for name in ("exclusive", "held")
)
AGENT = "coalesce((SELECT agent FROM agent_launches WHERE agent_launches.run_id = runs.id), '')"
"""The agent that launched or reported a run; empty for a person."""
_RANKED = ", ".join(
    f"coalesce((SELECT {column} FROM commands WHERE commands.id = runs.command_id), '') AS {name}"
    for column, name in (("result", "ranked_by"), ("better", "better"))
)

RUN = (
    f"SELECT runs.*, progress.done, progress.total, progress.unit, notes.text AS note, {_TAGS}, {_OF_SWEEP}, "
    f"{WHOLE} AS whole_config, {command_of('runs')}, {AGENT} AS agent"
    " FROM runs LEFT JOIN progress ON progress.run_id = runs.id LEFT JOIN notes ON notes.run_id = runs.id"
)
RUN_ROW = (
    f"SELECT {', '.join(f'runs.{name}' for name in _LISTED)}, runs.config, runs.max_run_time_s, runs.begun_at, "
    f"progress.done, progress.total, progress.unit, {_TAGS}, {SCRIPT} AS script_key, {_RANKED}, "
    f"{REPEATS} AS repeats, runs.report_key IS NOT NULL AS reported, {AGENT} AS agent"
    " FROM runs LEFT JOIN progress ON progress.run_id = runs.id"
)
"""Lists exclude the columns that can be long: environment, error, and the complete long config."""
NOT_PAUSED = "NOT EXISTS (SELECT 1 FROM sweeps WHERE sweeps.id = runs.sweep_id AND sweeps.held)"
"""Condition on runs: not held by a paused sweep."""
NOT_HELD = f"held_by IS NULL AND {NOT_PAUSED}"
"""Condition on runs: not held by a person or a paused sweep."""

OPTIONS = tuple(each.name for each in fields(LaunchOptions) if each.name != "priority")
"""Columns of the launch options, apart from the priority, which is a number."""
SLOTS = ("cores", "gpus", "ranks", "threads_per_rank")
"""Columns of the requested resources."""
APPENDED = {
    "place": "(SELECT coalesce(max(place), 0) + 1 FROM runs)",
    "version": "(SELECT coalesce(max(version), 0) + 1 FROM runs)",
}
"""Columns of a new run that put it behind all others, as SQL."""

LEAST_S, LEAST_SHARE, STEADY_S = 3.0, 0.02, 30.0
"""A run's pace is known after at least 3 s, once 2 % of its work is done or it has run for 30 s."""


def as_terms(row: sqlite3.Row) -> LaunchOptions:
    """Return a run's launch options, from its row."""
    flags = {name: bool(row[name]) for name in ("oversubscribe", "end_when_hung")}
    return LaunchOptions(PRIORITIES[row["priority"]], **{**{name: row[name] for name in OPTIONS}, **flags})


def as_demand(row: sqlite3.Row) -> Demand:
    """Return the resources that a run requested, from its row."""
    return Demand(*(row[name] for name in SLOTS))


def as_run(row: sqlite3.Row) -> Run:
    """Return a row of `RUN` as a record."""
    same = (
        "id experiment preset name owner status cause error parent_id sweep_id created_at claimed_at starts "
        "begun_at started_at ended_at"
        " stop_requested_at stop_requested_by heartbeat_at execution_time_s startup_time_s version "
        "time_before_s held_by"
        " stop_kind attempt begun_uptime_s starred_by pinned_by archived_by seeding data_folder uid resumed_uid"
        " command_id agent"
    )
    return Run(
        **{name: row[name] for name in same.split()} | _execution_time(row),
        config=json.loads(row["whole_config"] or row["config"]),
        demand=as_demand(row),
        gpus=tuple(json.loads(row["gpu_ids"])),
        command=as_command(row),
        worker=_worker(row),
        progress_done=row["done"] or 0,
        progress_total=row["total"] or 0,
        progress_unit=row["unit"] or "",
        environment=json.loads(row["environment"]),
        tags=tuple(json.loads(row["tags"])),
        note=row["note"] or "",
        terms=as_terms(row),
        resumes=bool(row["resumes"]),
        reported=row["report_key"] is not None,
        cores=tuple(json.loads(row["core_ids"])),
        exclusive=bool(row["sweep_exclusive"]),
        is_held=bool(row["sweep_held"]),
    )


def _execution_time(row: sqlite3.Row) -> dict[str, float | None]:
    """Return the field `execution_time_s`; earlier versions wrote 0 for imported runs without a time."""
    return {"execution_time_s": row["execution_time_s"] or None}


def _worker(row: sqlite3.Row) -> ProcessIdentity | None:
    if row["worker_pid"] is None:
        return None
    return ProcessIdentity(
        row["worker_boot_id"], row["worker_pid"], row["worker_started_ticks"], row["worker_pid_namespace"]
    )


def as_run_row(
    row: sqlite3.Row,
    last: Mapping[str, float],
    best: Mapping[str, float],
    mean: Mapping[str, float],
    extremes: tuple[Mapping[str, float], Mapping[str, float]],
    counts: Mapping[str, int],
    nonfinite: Mapping[str, int],
    single: Collection[str],
    disturbed_above: float,
    metric_settings: Mapping[str, MetricSetting] = MappingProxyType({}),
) -> RunRow:
    """Return a row of `RUN_ROW` and its metrics as a record; `disturbed_above` is the lab's threshold."""
    share = min(1.0, row["done"] / row["total"]) if row["total"] else 0.0
    rates = rates_of(row, last)
    left_s, limit_s = (
        _time_left_s(row, share, last),
        limit_left_s(row["max_run_time_s"], row["begun_at"], row["status"]),
    )
    ranked_by, better = row["ranked_by"], row["better"]
    set_by_person = {name: each.better for name, each in metric_settings.items()} | {ranked_by: better}
    best = {**best, **{n: extremes[way == "max"][n] for n, way in set_by_person.items() if way and n in extremes[0]}}
    is_cut = left_s is not None and limit_s is not None and limit_s < left_s
    return RunRow(
        **{name: row[name] for name in (*_LISTED, "script_key", "ranked_by", "better", "agent")} | _execution_time(row),
        reported=bool(row["reported"]),
        repeats=bool(row["repeats"]),
        progress=1.0 if row["status"] == "finished" else share,
        time_left_s=limit_s if is_cut else left_s,
        limit_left_s=limit_s,
        share_at_limit=share + (1 - share) * limit_s / left_s if is_cut and limit_s is not None and left_s else None,
        config=json.loads(row["config"]),
        last={**last, **rates},
        best={**best, **rates},
        mean={**mean, **rates},
        min=extremes[0],
        max=extremes[1],
        counts=counts,
        nonfinite=nonfinite,
        single=frozenset(single),
        disturbed_above=disturbed_above,
        metric_settings=metric_settings,
        tags=tuple(json.loads(row["tags"])),
    )


def rates_of(row: sqlite3.Row, last: Mapping[str, float]) -> dict[str, float]:
    """Return the throughputs of a row with `done`, `unit` and the columns in `TIMED` by name, given the recorded ones;
    they are as recorded before the end, and where their unit is another.
    """
    time_s = row["execution_time_s"]
    if time_s is None and row["command_id"] is not None and row["ended_at"] and row["started_at"]:
        time_s = row["time_before_s"] + seconds_since(row["started_at"], row["ended_at"])
    whole = {rate_of(row["unit"] or ""): throughput(row["done"] or 0, time_s)}
    return {name: whole.get(name) or value for name, value in last.items() if is_rate(name)}


def as_summary(row: sqlite3.Row) -> Summary:
    """Return a row of the metrics table as a record."""
    same = "rank count last last_step low high mean nonfinite"
    summary = Summary(
        metric=row["name"],
        best=best_of(row["name"], row["low"], row["high"]),
        **{name: row[name] for name in same.split()},
    )
    if row["rank"] is not None or (rate := rates_of(row, {row["name"]: row["last"]}).get(row["name"])) is None:
        return summary
    return replace(summary, last=rate, best=rate, mean=rate)


def as_runner(row: sqlite3.Row) -> RunnerRow:
    """Return a row of the runner table as a record."""
    process = ProcessIdentity(row["boot_id"], row["pid"], row["started_ticks"], row["pid_namespace"])
    same = {name: row[name] for name in ("heartbeat_at", "started_at", "cores", "gpus", "network")}
    return RunnerRow(process, **same, stopping=bool(row["stopping"]), warm=bool(row["warm"]))


def best_of(name: str, low: float | None, high: float | None) -> float | None:
    """Return which of a metric's extremes is better, None if neither is, as of a total so far."""
    if metric(name).so_far:
        return None
    return {"max": high, "min": low, None: None}[metric(name).better]


def _time_left_s(row: sqlite3.Row, share: float, last: Mapping[str, float]) -> float | None:
    """Return the estimated remaining time at the current pace, None before there is one. The rate that a script's run
    records leaves out the start of the script, which is part of its time.
    """
    if row["status"] != "running" or not row["started_at"]:
        return None
    if row["script_key"] and share < 1:
        rate = last.get(rate_of(row["unit"] or ""))
        return (row["total"] - row["done"]) / rate if rate and row["total"] else None
    return left_at_pace(share, row["time_before_s"] + seconds_since(row["started_at"]))


def limit_left_s(limit_s: float | None, begun_at: str | None, status: Status) -> float | None:
    """Return the seconds until a time limit, which counts from when its worker began, ends a run; None without a limit
    and for a run that has not begun or no longer runs.
    """
    if limit_s is None or begun_at is None or status not in ("starting", "running"):
        return None
    return max(0.0, limit_s - seconds_since(begun_at))


def left_at_pace(share: float, on_s: float) -> float | None:
    """Return the estimated remaining time (s) of a run that did `share` of its work in `on_s` seconds; None while that
    is too little: first steps are slow.
    """
    if share >= 1:
        return 0.0
    if share <= 0 or on_s < LEAST_S or (share < LEAST_SHARE and on_s < STEADY_S):
        return None
    return on_s * (1 - share) / share
