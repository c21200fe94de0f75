"""What pages and the command line ask: each question is one short read, and a list of runs never touches a metric point."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from engine.metrics import metric
from engine.recorder import Span
from engine.store.connection import Reading
from engine.store.downsample import thin
from engine.store.records import (
    Demand,
    Event,
    MachineSample,
    ProcessIdentity,
    RankRow,
    Run,
    RunnerRow,
    RunRow,
    Series,
    Status,
    Summary,
)

RUN = (
    "SELECT runs.*, progress.done, progress.total, progress.unit, notes.text AS note,"
    " (SELECT group_concat(tag, char(31)) FROM tags WHERE tags.run_id = runs.id) AS tags"
    " FROM runs LEFT JOIN progress ON progress.run_id = runs.id LEFT JOIN notes ON notes.run_id = runs.id"
)


class Reader(Reading):
    """All that is read from a store; for one thread."""

    def token(self, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all; 0 where there is none."""
        if run_id is None:
            row = self.row("SELECT max(version) AS version FROM runs")
        else:
            row = self.row("SELECT version FROM runs WHERE id = ?", [run_id])
        return int(row["version"] or 0) if row else 0

    def run(self, run_id: int) -> Run:
        """Return one run; raises NoSuchRun."""
        row = self.row(f"{RUN} WHERE runs.id = ?", [run_id])
        if row is None:
            raise self.no_such_run(run_id)
        return as_run(row)

    def entry(self, run_id: int) -> RunRow:
        """Return one run as a list shows it; raises NoSuchRun."""
        row = self.row(f"{RUN} WHERE runs.id = ?", [run_id])
        if row is None:
            raise self.no_such_run(run_id)
        return _as_row(row, *self._numbers([run_id]).get(run_id, ({}, {})))

    def runs(
        self,
        *,
        statuses: Sequence[Status] | None = None,
        experiment: str | None = None,
        owner: str | None = None,
        search: str = "",
        limit: int = 500,
        offset: int = 0,
    ) -> list[RunRow]:
        """Return runs newest first; `search` looks in name, owner, experiment, preset, tags and id."""
        where, values = _where(statuses, experiment, owner, search)
        rows = self.rows(f"{RUN} {where} ORDER BY runs.id DESC LIMIT ? OFFSET ?", [*values, limit, offset])
        ids = [row["id"] for row in rows]
        numbers = self._numbers(ids)
        return [_as_row(row, *numbers.get(row["id"], ({}, {}))) for row in rows]

    def count(self, *, statuses: Sequence[Status] | None = None, experiment: str | None = None, owner: str | None = None, search: str = "") -> int:
        """Return how many runs match."""
        where, values = _where(statuses, experiment, owner, search)
        row = self.row(f"SELECT count(*) AS n FROM runs {where}", values)
        return int(row["n"]) if row else 0

    def queue_position(self, run_id: int) -> int:
        """Return how many runs wait before this one."""
        row = self.row("SELECT count(*) AS n FROM runs WHERE status = 'queued' AND id < ?", [run_id])
        return int(row["n"]) if row else 0

    def owners(self) -> list[str]:
        """Return the names that own runs."""
        return [row["owner"] for row in self.rows("SELECT DISTINCT owner FROM runs ORDER BY owner")]

    def summaries(self, run_id: int) -> list[Summary]:
        """Return each metric of a run in a row, the whole run's before its ranks'."""
        return [_as_summary(row) for row in self.rows("SELECT * FROM metrics WHERE run_id = ? ORDER BY name, rank", [run_id])]

    def series(self, run_id: int, metrics: Sequence[str], *, after_id: int = 0, max_points: int | None = None) -> list[Series]:
        """Return the points of some metrics that were written after `after_id`, thinned to `max_points` a series where asked."""
        marks = ", ".join("?" * len(metrics))
        found = self.rows(f"SELECT id, name, rank, count FROM metrics WHERE run_id = ? AND name IN ({marks}) ORDER BY name, rank", [run_id, *metrics])
        return [thin(self._series(row, after_id), max_points) if max_points else self._series(row, after_id) for row in found]

    def _series(self, of: sqlite3.Row, after_id: int) -> Series:
        rows = self.rows("SELECT id, step, time_s, passes, value, nonfinite FROM points WHERE metric_id = ? AND id > ? ORDER BY id", [of["id"], after_id])
        return Series(
            of["name"],
            _rank(of["rank"]),
            [row["id"] for row in rows],
            [row["step"] for row in rows],
            [row["time_s"] for row in rows],
            [row["passes"] for row in rows],
            [float(row["nonfinite"] or row["value"]) for row in rows],
            of["count"],
        )

    def phases(self, run_id: int) -> dict[int, dict[str, float]]:
        """Return the seconds of each rank in each phase."""
        found: dict[int, dict[str, float]] = {}
        for row in self.rows("SELECT rank, name, seconds FROM phases WHERE run_id = ? ORDER BY rank, name", [run_id]):
            found.setdefault(row["rank"], {})[row["name"]] = row["seconds"]
        return found

    def ranks(self, run_id: int) -> list[RankRow]:
        """Return the run's ranks in order."""
        columns = "rank, role, pid, device, state, last_step, heartbeat_at, exit_code, memory_mb, cpu_percent"
        return [RankRow(*row) for row in self.rows(f"SELECT {columns} FROM ranks WHERE run_id = ? ORDER BY rank", [run_id])]

    def events(self, run_id: int) -> list[Event]:
        """Return what happened to a run, oldest first."""
        return [Event(*row) for row in self.rows("SELECT at, kind, who, detail FROM events WHERE run_id = ? ORDER BY id", [run_id])]

    def logs(self, run_id: int) -> list[tuple[str, str]]:
        """Return the run's log files as (source, path below the run's folder)."""
        return [(row["source"], row["path"]) for row in self.rows("SELECT source, path FROM logs WHERE run_id = ? ORDER BY source", [run_id])]

    def spans(self, run_id: int, limit: int = 10_000) -> list[tuple[int, Span]]:
        """Return the run's first spans with their ranks."""
        columns = "rank, name, stage, micro_batch, t0_ns, t1_ns, bytes, peer"
        return [(row[0], Span(*tuple(row)[1:])) for row in self.rows(f"SELECT {columns} FROM spans WHERE run_id = ? ORDER BY id LIMIT ?", [run_id, limit])]

    def histograms(self, run_id: int) -> dict[tuple[int, str], dict[int, int]]:
        """Return the counts of each rank's histograms by bucket."""
        found: dict[tuple[int, str], dict[int, int]] = {}
        for row in self.rows("SELECT rank, name, bucket, count FROM histograms WHERE run_id = ? ORDER BY rank, name, bucket", [run_id]):
            found.setdefault((row["rank"], row["name"]), {})[row["bucket"]] = row["count"]
        return found

    def machine(self, run_id: int, after: str = "") -> list[MachineSample]:
        """Return the machine's numbers during a run, those later than `after`."""
        sql = "SELECT at, source, name, value FROM machine_metrics WHERE run_id = ? AND at > ? ORDER BY at, id"
        return [MachineSample(*row) for row in self.rows(sql, [run_id, after])]

    def runner(self) -> RunnerRow | None:
        """Return the runner as last heard of, or None where none is registered."""
        row = self.row("SELECT * FROM runner")
        if row is None:
            return None
        process = ProcessIdentity(row["boot_id"], row["pid"], row["started_ticks"])
        return RunnerRow(process, row["heartbeat_at"], row["started_at"], bool(row["stopping"]), row["cores"], row["gpus"], bool(row["warm"]))

    def _numbers(self, run_ids: Sequence[int]) -> dict[int, tuple[dict[str, float], dict[str, float]]]:
        """Return last and best of each metric of each run, from the summary rows alone."""
        found: dict[int, dict[str, list[Summary]]] = {}
        for chunk in (run_ids[at : at + 500] for at in range(0, len(run_ids), 500)):
            for row in self.rows(f"SELECT * FROM metrics WHERE run_id IN ({', '.join('?' * len(chunk))}) ORDER BY rank", chunk):
                found.setdefault(row["run_id"], {}).setdefault(row["name"], []).append(_as_summary(row))
        return {run_id: (_lasts(by_name), _bests(by_name)) for run_id, by_name in found.items()}


def _speaking(summaries: list[Summary]) -> list[Summary]:
    """Return the whole run's summary where there is one, else those of its ranks."""
    return [summary for summary in summaries if summary.rank is None] or summaries


def _lasts(by_name: Mapping[str, list[Summary]]) -> dict[str, float]:
    lasts = {name: [s.last for s in _speaking(found) if s.last is not None] for name, found in by_name.items()}
    return {name: sum(values) / len(values) for name, values in lasts.items() if values}


def _bests(by_name: Mapping[str, list[Summary]]) -> dict[str, float]:
    choose = {"max": max, "min": min}
    bests = {name: [s.best for s in _speaking(found) if s.best is not None] for name, found in by_name.items()}
    return {name: choose[metric(name).better or "max"](values) for name, values in bests.items() if values}


def _where(statuses: Sequence[Status] | None, experiment: str | None, owner: str | None, search: str) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    if statuses is not None:
        parts.append(f"runs.status IN ({', '.join('?' * len(statuses))})")
        values += statuses
    for column, wanted in (("experiment", experiment), ("owner", owner)):
        if wanted is not None:
            parts.append(f"runs.{column} = ?")
            values.append(wanted)
    if search:
        like = "%" + search.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        columns = ("runs.name", "runs.owner", "runs.experiment", "runs.preset", "runs.id")
        tagged = "EXISTS (SELECT 1 FROM tags WHERE tags.run_id = runs.id AND tag LIKE ? ESCAPE '\\')"
        parts.append("(" + " OR ".join([*(f"{column} LIKE ? ESCAPE '\\'" for column in columns), tagged]) + ")")
        values += [like] * (len(columns) + 1)
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def as_run(row: sqlite3.Row) -> Run:
    """Return a row of `RUN` as a record."""
    worker = None if row["worker_pid"] is None else ProcessIdentity(row["worker_boot_id"], row["worker_pid"], row["worker_started_ticks"])
    same = (
        "id experiment preset name owner status cause error parent_id sweep_id created_at claimed_at starts begun_at started_at ended_at"
        " stop_requested_at stop_requested_by heartbeat_at execution_time_s startup_time_s version"
    )
    return Run(
        **{name: row[name] for name in same.split()},
        config=json.loads(row["config"]),
        demand=Demand(row["cores"], row["gpus"], row["ranks"], row["threads_per_rank"]),
        gpus=tuple(json.loads(row["gpu_ids"])),
        worker=worker,
        progress_done=row["done"] or 0,
        progress_total=row["total"] or 0,
        progress_unit=row["unit"] or "",
        environment=json.loads(row["environment"]),
        tags=_tags(row),
        note=row["note"] or "",
    )


def _as_row(row: sqlite3.Row, last: dict[str, float], best: dict[str, float]) -> RunRow:
    same = "id experiment preset name owner status cause created_at started_at ended_at execution_time_s startup_time_s version"
    share = min(1.0, row["done"] / row["total"]) if row["total"] else 0.0
    return RunRow(
        **{name: row[name] for name in same.split()},
        progress=1.0 if row["status"] == "finished" else share,
        time_left_s=_time_left_s(row, share),
        config=json.loads(row["config"]),
        last=last,
        best=best,
        tags=_tags(row),
    )


def _time_left_s(row: sqlite3.Row, share: float) -> float | None:
    """Return the time that the rest takes at the pace so far, None where there is no pace yet."""
    if row["status"] != "running" or not row["started_at"] or share <= 0:
        return None
    elapsed = (datetime.now(UTC) - datetime.fromisoformat(row["started_at"])).total_seconds()
    return max(0.0, elapsed * (1 - share) / share)


def _tags(row: sqlite3.Row) -> tuple[str, ...]:
    return tuple(sorted(row["tags"].split("\x1f"))) if row["tags"] else ()


def _rank(stored: int) -> int | None:
    return None if stored < 0 else stored


def _as_summary(row: sqlite3.Row) -> Summary:
    best: dict[Literal["max", "min"] | None, float | None] = {"max": row["high"], "min": row["low"], None: None}
    mean = row["total"] / row["finite"] if row["finite"] else None
    return Summary(
        row["name"],
        _rank(row["rank"]),
        row["count"],
        row["last"],
        row["last_step"],
        best[metric(row["name"]).better],
        row["low"],
        row["high"],
        mean,
        row["count"] - row["finite"],
    )
