"""What pages and the command line ask of one run: each question is one short read."""

import json
from collections.abc import Collection
from typing import Any

from engine.recorder import Span
from engine.store import samples
from engine.store.audit import Audit
from engine.store.bands import count_band
from engine.store.bests import Bests
from engine.store.channels import Channels
from engine.store.comparing import Comparing
from engine.store.duels import Duels
from engine.store.grouping import Groups
from engine.store.guarding import Standings
from engine.store.heat import count_heat
from engine.store.holdings import Holdings
from engine.store.looks import Looks
from engine.store.news import News
from engine.store.origins import Origins
from engine.store.outbox import Outbox
from engine.store.people import People
from engine.store.point_pages import PointPages
from engine.store.queue import Queue
from engine.store.records import Band, Event, Heat, MachineSample, ProcessIdentity, RankRow, RunnerRow, Status, Summary
from engine.store.rows import as_runner, as_summary
from engine.store.shares import Shares
from engine.store.sign_ins import SignIns
from engine.store.studies import Studies
from engine.store.tally import Tallies
from engine.store.texts import Texts

_SPANS = "SELECT name, stage, micro_batch, t0_ns, t1_ns, bytes, peer FROM spans WHERE run_id = ?"
_NEXT = "SELECT min(micro_batch) / ?2 FROM spans WHERE run_id = ?1"
_BATCHES = f"""
WITH RECURSIVE found(batch) AS ({_NEXT} UNION ALL SELECT ({_NEXT} AND micro_batch >= (batch + 1) * ?2) FROM found
    WHERE batch IS NOT NULL)
SELECT batch FROM found WHERE batch IS NOT NULL
"""
_CHAIN = """
WITH RECURSIVE
before(id) AS (SELECT :run UNION SELECT runs.parent_id FROM runs JOIN before ON runs.id = before.id
    WHERE runs.parent_id IS NOT NULL),
after(id) AS (SELECT :run UNION SELECT runs.id FROM runs JOIN after ON runs.parent_id = after.id)
SELECT id, status FROM runs WHERE id IN (SELECT id FROM before UNION SELECT id FROM after) ORDER BY id
"""


class Reader(
    Queue,
    Groups,
    Comparing,
    Studies,
    Duels,
    Origins,
    Looks,
    News,
    Bests,
    Texts,
    Shares,
    Standings,
    People,
    SignIns,
    Holdings,
    Audit,
    Channels,
    Outbox,
    PointPages,
    Tallies,
):
    """All that is read from a store; for one thread."""

    def token(self, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all; 0 where there is none."""
        if run_id is None:
            row = self.row("SELECT max(version) AS version FROM runs")
        else:
            row = self.row("SELECT version FROM runs WHERE id = ?", [run_id])
        return int(row["version"] or 0) if row else 0

    def resumed_as(self, run_id: int) -> list[int]:
        """Return the runs that resume this one, oldest first."""
        return [
            row["id"] for row in self.rows("SELECT id FROM runs WHERE parent_id = ? AND resumes ORDER BY id", [run_id])
        ]

    def retried_as(self, run_id: int) -> list[int]:
        """Return the runs that repeat this one from the start, oldest first."""
        return [
            row["id"]
            for row in self.rows("SELECT id FROM runs WHERE parent_id = ? AND NOT resumes ORDER BY id", [run_id])
        ]

    def chain(self, run_id: int) -> list[tuple[int, Status]]:
        """Return the run with all those that it goes back to and all that go back to it, oldest first, each with its
        status.
        """
        with self.told():
            return [(row["id"], row["status"]) for row in self.connection.execute(_CHAIN, {"run": run_id})]

    def whole_config(self, run_id: int) -> dict[str, Any] | None:
        """Return a config that is longer than a run's row holds, whatever its length; None for any other."""
        row = self.row("SELECT config FROM long_configs WHERE run_id = ?", [run_id])
        return dict(json.loads(row["config"])) if row else None

    def summaries(self, run_id: int) -> list[Summary]:
        """Return each metric of a run in a row, the whole run's before its ranks'."""
        return [
            as_summary(row)
            for row in self.rows("SELECT * FROM metrics WHERE run_id = ? ORDER BY name, coalesce(rank, -1)", [run_id])
        ]

    def counts_passes(self, run_id: int) -> bool:
        """Say whether the run's points know how many passes over the data they stand at; the first of each metric
        tells.
        """
        first = "(SELECT passes FROM points WHERE metric_id = metrics.id ORDER BY id LIMIT 1)"
        return self.row(f"SELECT 1 FROM metrics WHERE run_id = ? AND {first} IS NOT NULL LIMIT 1", [run_id]) is not None

    def phases(self, run_id: int) -> dict[int, dict[str, float]]:
        """Return the seconds of each rank in each phase."""
        found: dict[int, dict[str, float]] = {}
        for row in self.rows("SELECT rank, name, seconds FROM phases WHERE run_id = ? ORDER BY rank, name", [run_id]):
            found.setdefault(row["rank"], {})[row["name"]] = row["seconds"]
        return found

    def ranks(self, run_id: int) -> list[RankRow]:
        """Return the run's ranks in order."""
        columns = "rank, role, pid, device, state, last_step, heartbeat_at, exit_code, memory_mb, cpu_percent, dropped"
        return [
            RankRow(*row) for row in self.rows(f"SELECT {columns} FROM ranks WHERE run_id = ? ORDER BY rank", [run_id])
        ]

    def events(self, run_id: int) -> list[Event]:
        """Return what happened to a run, oldest first."""
        return [
            Event(*row)
            for row in self.rows("SELECT at, kind, who, detail FROM events WHERE run_id = ? ORDER BY id", [run_id])
        ]

    def logs(self, run_id: int) -> list[tuple[str, str]]:
        """Return the run's log files as (source, path below the run's folder)."""
        return [
            (row["source"], row["path"])
            for row in self.rows("SELECT source, path FROM logs WHERE run_id = ? ORDER BY source", [run_id])
        ]

    def spans(self, run_id: int, limit: int = 10_000) -> list[tuple[int, Span]]:
        """Return the run's first spans with their ranks."""
        columns = "rank, name, stage, micro_batch, t0_ns, t1_ns, bytes, peer"
        return [
            (row[0], Span(*tuple(row)[1:]))
            for row in self.rows(f"SELECT {columns} FROM spans WHERE run_id = ? ORDER BY id LIMIT ?", [run_id, limit])
        ]

    def has_spans(self, run_id: int) -> bool:
        """Say whether any rank of a run has recorded a span."""
        return self.row("SELECT 1 FROM spans WHERE run_id = ? LIMIT 1", [run_id]) is not None

    def recorded_batches(self, run_id: int, splits: int) -> list[int]:
        """Return the batches of `splits` micro-batches of which spans are kept, in order; each costs one look into an
        index.
        """
        return [row["batch"] for row in self.rows(_BATCHES, [run_id, splits])]

    def batch_spans(self, run_id: int, batch: int, splits: int, limit: int = 20_000) -> list[Span]:
        """Return the spans of one batch of `splits` micro-batches, the first `limit` in the order of their starts."""
        within = [run_id, batch * splits, (batch + 1) * splits, limit]
        return [
            Span(*row)
            for row in self._tuples(f"{_SPANS} AND micro_batch >= ? AND micro_batch < ? ORDER BY t0_ns LIMIT ?", within)
        ]

    def has_histograms(self, run_id: int) -> bool:
        """Say whether any rank of a run has recorded a histogram."""
        return self.row("SELECT 1 FROM histograms WHERE run_id = ? LIMIT 1", [run_id]) is not None

    def histograms(self, run_id: int) -> dict[tuple[int, str], dict[int, int]]:
        """Return the counts of each rank's histograms by bucket."""
        found: dict[tuple[int, str], dict[int, int]] = {}
        for row in self.rows(
            "SELECT rank, name, bucket, count FROM histograms WHERE run_id = ? ORDER BY rank, name, bucket", [run_id]
        ):
            found.setdefault((row["rank"], row["name"]), {})[row["bucket"]] = row["count"]
        return found

    def heat(self, run_id: int, metric: str, before: Heat | None = None) -> Heat | None:
        """Return how the points of a metric lie in time and value, over all ranks; None where the run has none.

        `before`, an earlier answer, saves counting its points again.
        """
        return count_heat(self, run_id, metric, before)

    def band(self, run_id: int, metric: str, before: Band | None = None) -> Band | None:
        """Return mean and spread of a metric that is recorded once an episode, over all ranks; None where the run has
        none.

        `before`, an earlier answer, saves reading its points again.
        """
        return count_band(self, run_id, metric, before)

    def machine(self, run_id: int, after: str = "") -> list[MachineSample]:
        """Return the machine's numbers during a run, those later than `after`."""
        sql = (
            "SELECT at, source, name, coalesce(value, 'nan') FROM machine_metrics WHERE run_id = ? AND at > ? "
            "ORDER BY at, id"
        )
        return [
            MachineSample(at, source, name, float(value)) for at, source, name, value in self.rows(sql, [run_id, after])
        ]

    def machine_samples(self) -> list[MachineSample]:
        """Return what the runner sampled of the machine over the last hour, oldest first."""
        return samples.samples(self)

    def latest_machine_samples(self) -> list[MachineSample]:
        """Return what the runner sampled at the newest moment alone."""
        return samples.latest(self)

    def newest_machine_sample(self) -> str:
        """Return the moment of the newest of them, empty where there is none."""
        return samples.newest(self)

    def run_statuses(self) -> dict[int, Status]:
        """Return the status of each run by its id."""
        return {row["id"]: row["status"] for row in self.rows("SELECT id, status FROM runs")}

    def workers(self, boot_id: str, pids: Collection[int]) -> list[tuple[int, str | None, ProcessIdentity]]:
        """Return id, end (None while it goes on) and worker of the runs whose worker had one of these pids in this boot
        of the machine, oldest first.
        """
        sql = (
            "SELECT id, ended_at, worker_boot_id, worker_pid, worker_started_ticks, worker_pid_namespace FROM runs"
            " WHERE worker_boot_id = ? AND worker_pid IN (SELECT value FROM json_each(?)) ORDER BY id"
        )
        return [
            (row[0], row[1], ProcessIdentity(*tuple(row)[2:]))
            for row in self.rows(sql, [boot_id, json.dumps(list(pids))])
        ]

    def runner(self) -> RunnerRow | None:
        """Return the runner as last heard of, or None where none is registered."""
        row = self.row("SELECT * FROM runner")
        return as_runner(row) if row else None
