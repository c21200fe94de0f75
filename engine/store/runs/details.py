"""Queries of one run for pages and the command line; each is one short read. And its stored trace."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import FilterError, UnknownName, cut
from engine.filter import Filter, Names, read_filter, read_order
from engine.filter.tree import Field, SortOrder, near
from engine.metrics import METRICS, is_rate
from engine.recorder import Span
from engine.store.connection import Connection
from engine.store.curve_records import MachineSample
from engine.store.records import ENDED, Event, RankRow, Summary
from engine.store.runs.filter_sql import OF, number_of, side
from engine.store.runs.reader import RunReader
from engine.store.runs.rows import TIMED, as_summary
from engine.trace.health import Health, Verdict
from engine.trace.layout import TraceWindow

if TYPE_CHECKING:
    from engine.trace.chunk import TraceChunk


_SPANS = "SELECT name, stage, micro_batch, t0_ns, t1_ns, bytes, peer FROM spans WHERE run_id = ?"
_NEXT = "SELECT min(micro_batch) / ?2 FROM spans WHERE run_id = ?1"
_BATCHES = f"""
WITH RECURSIVE found(batch) AS ({_NEXT} UNION ALL SELECT ({_NEXT} AND micro_batch >= (batch + 1) * ?2) FROM found
    WHERE batch IS NOT NULL)
SELECT batch FROM found WHERE batch IS NOT NULL
"""


class RunDetails:
    """Queries of one run's data except its curves."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def summaries(self, run_id: int) -> list[Summary]:
        """Return one row per metric of a run, the whole run's before its ranks'."""
        sql = (
            f"SELECT metrics.*, done, unit, {TIMED} FROM metrics JOIN runs ON runs.id = metrics.run_id"
            " LEFT JOIN progress ON progress.run_id = runs.id WHERE runs.id = ?"
            " ORDER BY metrics.name, coalesce(rank, -1)"
        )
        return [as_summary(row) for row in self.db.rows(sql, [run_id])]

    def counts_passes(self, run_id: int) -> bool:
        """Return whether the run's points have passes over the data, judged by the first point of each metric."""
        first = "(SELECT passes FROM points WHERE metric_id = metrics.id ORDER BY id LIMIT 1)"
        return self.db.exists(f"SELECT 1 FROM metrics WHERE run_id = ? AND {first} IS NOT NULL LIMIT 1", [run_id])

    def phases(self, run_id: int) -> dict[int, dict[str, float]]:
        """Return the seconds of each rank in each phase."""
        found: dict[int, dict[str, float]] = {}
        sql = "SELECT rank, name, seconds FROM phases WHERE run_id = ? ORDER BY rank, name"
        for rank, name, seconds in self.db.rows(sql, [run_id]):
            found.setdefault(rank, {})[name] = seconds
        return found

    def ranks(self, run_id: int) -> list[RankRow]:
        """Return the run's ranks in order."""
        columns = "rank, role, pid, device, state, last_step, heartbeat_at, exit_code, memory_mb, cpu_percent, dropped"
        return self.db.records(RankRow, f"SELECT {columns} FROM ranks WHERE run_id = ? ORDER BY rank", [run_id])

    def health(self, run_id: int) -> Health | None:
        """Return what each rank of a run was doing when the worker last looked; None for runs of earlier versions."""
        row = self.db.row("SELECT health FROM run_health WHERE run_id = ?", [run_id])
        return Health.of(json.loads(row["health"])) if row else None

    def health_now(self, run_id: int, reason: str | None = None) -> Health:
        """Return a run's ranks and the verdict on them; that of a queued run has the `reason` why it waits, that of one
        which has ended says how. Raises NoSuchRun.
        """
        run = RunReader(self.db).one(run_id)
        if run.status == "queued":
            why = f": {reason.removeprefix('waits: ')}" if reason else ""
            return Health("", (), Verdict("QUEUED", sentence=f"Run {run_id} is queued{why}."))
        health = self.health(run_id) or Health("", (), Verdict("STARTING"))
        if run.status not in ENDED:
            return health
        verdict = Verdict("ENDED", sentence=f"Run {run_id} {run.status}. {run.cause}".strip())
        return replace(health, ranks=tuple(replace(rank, state="ended") for rank in health.ranks), verdict=verdict)

    def events(self, run_id: int) -> list[Event]:
        """Return the events of a run, oldest first."""
        return self.db.records(Event, "SELECT at, kind, who, detail FROM events WHERE run_id = ? ORDER BY id", [run_id])

    def logs(self, run_id: int) -> list[tuple[str, str]]:
        """Return the run's log files as (source, path below the run's folder)."""
        return self.db.tuples("SELECT source, path FROM logs WHERE run_id = ? ORDER BY source", [run_id])

    def spans(self, run_id: int, limit: int = 10_000) -> list[tuple[int, Span]]:
        """Return the run's first spans with their ranks."""
        columns = "rank, name, stage, micro_batch, t0_ns, t1_ns, bytes, peer"
        sql = f"SELECT {columns} FROM spans WHERE run_id = ? ORDER BY id LIMIT ?"
        return [(rank, Span(*span)) for rank, *span in self.db.rows(sql, [run_id, limit])]

    def has_spans(self, run_id: int) -> bool:
        """Return whether any rank of a run has recorded a span."""
        return self.db.exists("SELECT 1 FROM spans WHERE run_id = ? LIMIT 1", [run_id])

    def recorded_batches(self, run_id: int, splits: int) -> list[int]:
        """Return the batches of `splits` micro-batches with stored spans, in order; each costs one index lookup."""
        return self.db.column(_BATCHES, [run_id, splits])

    def batch_spans(self, run_id: int, batch: int, splits: int, limit: int = 20_000) -> list[Span]:
        """Return the first `limit` spans of one batch of `splits` micro-batches, ordered by start."""
        within = [run_id, batch * splits, (batch + 1) * splits, limit]
        sql = f"{_SPANS} AND micro_batch >= ? AND micro_batch < ? ORDER BY t0_ns LIMIT ?"
        return [Span(*row) for row in self.db.tuples(sql, within)]

    def has_histograms(self, run_id: int) -> bool:
        """Return whether any rank of a run has recorded a histogram."""
        return self.db.exists("SELECT 1 FROM histograms WHERE run_id = ? LIMIT 1", [run_id])

    def histograms(self, run_id: int) -> dict[tuple[int, str], dict[int, int]]:
        """Return the counts of each rank's histograms by bucket."""
        found: dict[tuple[int, str], dict[int, int]] = {}
        sql = "SELECT rank, name, bucket, count FROM histograms WHERE run_id = ? ORDER BY rank, name, bucket"
        for rank, name, bucket, count in self.db.rows(sql, [run_id]):
            found.setdefault((rank, name), {})[bucket] = count
        return found

    def has_machine_samples(self, run_id: int) -> bool:
        """Return whether the machine was sampled during a run."""
        return self.db.exists("SELECT 1 FROM machine_metrics WHERE run_id = ? LIMIT 1", [run_id])

    def machine(self, run_id: int, after: str = "") -> list[MachineSample]:
        """Return the machine's measurements during a run, those later than `after`."""
        sql = "SELECT at, source, name, coalesce(value, 'nan') FROM machine_metrics WHERE run_id = ? AND at > ?"
        return [
            MachineSample(at, source, name, float(value))
            for at, source, name, value in self.db.rows(f"{sql} ORDER BY at, id", [run_id, after])
        ]


# ---- Text, time and flag fields of runs, for columns next to their numbers -----------------------------------------

Text = str | bool
_TAGS = "(SELECT group_concat(tag, ', ') FROM (SELECT tag FROM tags WHERE tags.run_id = runs.id ORDER BY tag))"


class FieldReader:
    """Queries of fields of runs: their names, and their values for many runs."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def names(self) -> Names:
        """Return the settings, metrics and experiments of the store's runs and of this version."""
        with self.db.snapshot():
            settings = self.db.column("SELECT DISTINCT key FROM runs, json_each(runs.config)")
            experiments = frozenset(row[0] for row in self.db.rows("SELECT DISTINCT experiment FROM runs"))
            return Names.usual() | Names(dict.fromkeys(settings, "any"), frozenset(self.metric_names()), experiments)

    def metric_names(self) -> list[str]:
        """Return the names of all recorded metrics."""
        of_runs = "EXISTS (SELECT 1 FROM runs WHERE id = run_id)"  # others are of an unfinished import
        return self.db.column(f"SELECT DISTINCT name FROM metrics WHERE {of_runs} ORDER BY name")

    def check_metrics(self, names: Iterable[str], recorded: Collection[str]) -> None:
        """Raise UnknownName for a metric that is not among those `recorded`, that no other run has, and that no
        experiment declares: one that a run may record later is known.
        """
        missing = [name for name in names if name not in recorded and name not in METRICS]
        elsewhere = set(self.metric_names()) if missing else set()
        for name in missing:
            if name not in elsewhere:
                raise UnknownName("metric", name, recorded or METRICS, field="metrics")

    def notes_on_experiment(self, name: str | None) -> list[str]:
        """Return a sentence if no run has an experiment of this name and none of Parallab is called so."""
        if name is None or name in (known := self.names().experiments):
            return []
        return [f"Unknown experiment '{cut(name)}'{near(name, sorted(known), 'Known')}"]

    def filter(self, text: str) -> Filter:
        """Parse a filter, which may use names that only this store has. Raises FilterError."""
        try:
            return read_filter(text)
        except FilterError:
            return read_filter(text, self.names())

    def order(self, text: str) -> SortOrder:
        """Parse an order, such as `-test/accuracy.best`. Raises FilterError."""
        try:
            return read_order(text)
        except FilterError:
            return read_order(text, self.names())

    def values(self, run_ids: Sequence[int], field: Field) -> dict[int, float]:
        """Return a numeric field for each run that has it; a metric's from the summary rows only."""
        number, bound = number_of(field)
        sql = f"SELECT runs.id, {number} AS number FROM runs WHERE runs.id IN (SELECT value FROM json_each(?))"
        return {
            row["id"]: row["number"]
            for row in self.db.rows(sql, [*bound, json.dumps(list(run_ids))])
            if row["number"] is not None
        }

    def values_of(self, run_ids: Sequence[int], fields: Sequence[Field]) -> dict[Field, dict[int, float]]:
        """Return several numeric fields like `values`, with one query for those of the same metric."""
        found: dict[Field, dict[int, float]] = {field: {} for field in fields}
        ids = json.dumps(list(run_ids))
        summed = [field for field in found if field.source == "metric" and not is_rate(field.name)]
        for name in dict.fromkeys(field.name for field in summed):
            of_it = [field for field in summed if field.name == name]
            numbers = ", ".join(OF[side(name, field.of)] for field in of_it)
            among = "run_id IN (SELECT value FROM json_each(?)) AND name = ?"
            sql = f"SELECT run_id, {numbers} FROM metrics WHERE {among} GROUP BY run_id"
            for run_id, *values in self.db.tuples(sql, [ids, name]):
                for field, value in zip(of_it, values, strict=True):
                    if value is not None:
                        found[field][run_id] = value
        return found | {field: self.values(run_ids, field) for field in found if field not in summed}

    def texts(self, run_ids: Sequence[int], fields: Sequence[Field]) -> dict[Field, dict[int, Text]]:
        """Return non-numeric fields of runs: times in the store's format, flags as bool; missing values are omitted."""
        if not fields:
            return {}
        parts = ", ".join(_TAGS if field.kind == "tags" else number_of(field)[0] for field in fields)
        found: dict[Field, dict[int, Text]] = {field: {} for field in fields}
        for run_id, *values in self.db.rows(
            f"SELECT runs.id, {parts} FROM runs WHERE runs.id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(run_ids))],
        ):
            for field, value in zip(fields, values, strict=True):
                if value not in (None, ""):
                    found[field][run_id] = bool(value) if field.kind == "flag" else str(value)
        return found


# ---- Queries of the stored traces: the windows of a run, and the operations of its ranks in them -------------------


class TraceQueries:
    """Reads traces. Their NumPy form is imported at first use, so that other commands start fast."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def windows(self, run_id: int) -> list[TraceWindow]:
        """Return the stretches of a run whose operations are stored, in order."""
        sql = "SELECT begin_ns, end_ns, reason FROM trace_windows WHERE run_id = ? ORDER BY begin_ns"
        return [TraceWindow(*row) for row in self.db.tuples(sql, [run_id])]

    def requests(self, run_id: int, after: int) -> list[tuple[int, float]]:
        """Return the requests with higher ids than `after`, as (id, seconds)."""
        sql = "SELECT id, seconds FROM trace_requests WHERE run_id = ? AND id > ? ORDER BY id"
        return [(int(number), float(seconds)) for number, seconds in self.db.tuples(sql, [run_id, after])]

    def newest(self, run_id: int) -> int:
        """Return the id of a run's newest chunk; 0 if it has none."""
        return self.db.number("SELECT max(id) AS id FROM trace_chunks WHERE run_id = ?", [run_id])

    def chunks(self, run_id: int, after: int = 0) -> "list[TraceChunk]":
        """Return a run's chunks with higher ids than `after`, in the order recorded; raises StoreDamaged."""
        from engine.trace.chunk import TraceChunk

        sql = "SELECT rank, names, content, entries, lost FROM trace_chunks WHERE run_id = ? AND id > ? ORDER BY id"
        return [TraceChunk.unpacked(*row) for row in self.db.tuples(sql, [run_id, after])]
