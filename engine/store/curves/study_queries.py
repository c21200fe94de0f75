"""Queries of many runs at once: hardware, time per phase, and test results. Each is one short read."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.store.connection import Connection

MOST_POINTS = 20_000
"""Maximum number of points of `tested`; tests record far fewer."""
_RUNS = "(SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class Surroundings:
    """Hardware and amount of work of one run."""

    host: str
    cpu: str
    cores: int
    """Cores of the machine; 0 if the run did not report them."""
    gpus: tuple[str, ...]
    """GPUs of the machine, by name."""
    commit: str
    threads_per_rank: int
    devices: tuple[tuple[str, str], ...]
    """Role and device of each rank, in rank order."""
    work: int
    """Units of work done, over all ranks; 0 if none were counted."""
    unit: str
    """Unit of work, such as samples."""


@dataclass(frozen=True)
class Tested:
    """One value of a metric during a run."""

    run_id: int
    name: str
    step: int
    time_s: float
    passes: float | None
    value: float


class StudyReader:
    """Queries of many runs."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def surroundings(self, run_ids: Collection[int]) -> dict[int, Surroundings]:
        """Return the hardware of each run; deleted runs are omitted."""
        sql = (
            "SELECT runs.id, runs.environment, runs.threads_per_rank, coalesce(progress.done, 0) AS done, "
            "coalesce(progress.unit, '') AS unit,"
            " (SELECT json_group_array(json_array(role, device)) FROM (SELECT role, device FROM ranks WHERE "
            "run_id = runs.id ORDER BY rank)) AS devices"
            f" FROM runs LEFT JOIN progress ON progress.run_id = runs.id WHERE runs.id IN {_RUNS}"
        )
        found = {}
        for row in self.db.rows(sql, [json.dumps(list(run_ids))]):
            about = json.loads(row["environment"])
            found[int(row["id"])] = Surroundings(
                host=str(about.get("host", "")),
                cpu=str(about.get("cpu", "")),
                cores=int(about.get("cores", 0)),
                gpus=tuple(about.get("gpus", ())),
                commit=str(about.get("git_commit", "")),
                threads_per_rank=row["threads_per_rank"],
                devices=tuple((role, device) for role, device in json.loads(row["devices"])),
                work=row["done"],
                unit=row["unit"],
            )
        return found

    def phases_of(self, run_ids: Collection[int]) -> dict[int, dict[str, dict[str, float]]]:
        """Return the seconds of each run by role and phase, roles in rank order."""
        sql = (
            "SELECT phases.run_id, coalesce(ranks.role, 'rank ' || phases.rank), phases.name, phases.seconds "
            "FROM phases"
            " LEFT JOIN ranks ON ranks.run_id = phases.run_id AND ranks.rank = phases.rank"
            f" WHERE phases.run_id IN {_RUNS} ORDER BY phases.run_id, phases.rank, phases.name"
        )
        found: dict[int, dict[str, dict[str, float]]] = {}
        for run_id, role, name, seconds in self.db.rows(sql, [json.dumps(list(run_ids))]):
            found.setdefault(run_id, {}).setdefault(role, {})[name] = seconds
        return found

    def histograms_of(self, run_ids: Collection[int], name: str) -> dict[int, dict[str, dict[int, int]]]:
        """Return the counts of one histogram by run, role (in rank order) and bucket; runs without it are omitted."""
        sql = (
            "SELECT histograms.run_id, coalesce(ranks.role, 'rank ' || histograms.rank), histograms.bucket, "
            "histograms.count FROM histograms"
            " LEFT JOIN ranks ON ranks.run_id = histograms.run_id AND ranks.rank = histograms.rank"
            f" WHERE histograms.run_id IN {_RUNS} AND histograms.name = ? ORDER BY histograms.run_id, "
            "histograms.rank, histograms.bucket"
        )
        found: dict[int, dict[str, dict[int, int]]] = {}
        for run_id, role, bucket, count in self.db.rows(sql, [json.dumps(list(run_ids)), name]):
            found.setdefault(run_id, {}).setdefault(role, {})[bucket] = count
        return found

    def tested(self, run_ids: Collection[int], names: Collection[str]) -> list[Tested]:
        """Return the finite values of metrics that are recorded occasionally, such as test/accuracy, in recording
        order; at most MOST_POINTS.
        """
        sql = (
            "SELECT metrics.run_id, metrics.name, points.step, points.time_s, points.passes, points.value FROM metrics"
            " JOIN points ON points.metric_id = metrics.id"
            f" WHERE metrics.run_id IN {_RUNS} AND metrics.name IN {_RUNS} AND points.value IS NOT NULL"
            " ORDER BY metrics.run_id, metrics.name, points.id LIMIT ?"
        )
        return [
            Tested(*row) for row in self.db.rows(sql, [json.dumps(list(run_ids)), json.dumps(list(names)), MOST_POINTS])
        ]

    def reached(
        self, run_ids: Sequence[int], name: str, target: float, better: Literal["max", "min"]
    ) -> dict[int, tuple[int, float]]:
        """Return the step and the time (seconds since all ranks were ready) at which each run first had a metric at
        `target` or better.

        Runs that never did are omitted. Metrics whose extreme does not reach it are not scanned.
        """
        extreme, sign = ("high", ">=") if better == "max" else ("low", "<=")
        sql = (
            "SELECT run_id, step, min(time_s) FROM (SELECT metrics.run_id,"
            f" (SELECT id FROM points WHERE metric_id = metrics.id AND value {sign} ?2 ORDER BY id LIMIT 1) AS "
            "first, metrics.id AS metric"
            " FROM metrics WHERE metrics.run_id IN (SELECT value FROM json_each(?1)) AND metrics.name = ?3 "
            f"AND metrics.{extreme} {sign} ?2)"
            " JOIN points ON points.metric_id = metric AND points.id = first GROUP BY run_id"
        )
        return {row[0]: (row[1], row[2]) for row in self.db.rows(sql, [json.dumps(list(run_ids)), target, name])}
