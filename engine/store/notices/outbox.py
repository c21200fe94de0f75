"""The outbox: messages are rows, written in the transaction that ends a run or finds that it stands still, and kept
until they are delivered.

Runs of a sweep or a duel are reported once, when all have ended, and at the first failure; an automatically retried
lost run is reported at the end of its chain.
"""

from dataclasses import dataclass
from typing import Literal

from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import BAD_ENDS, ENDED
from engine.store.timestamps import now

NoticeKind = Literal["run", "sweep", "duel", "failure", "test"]
Whole = Literal["sweep", "duel"]
_ENDED = ", ".join(f"'{status}'" for status in ENDED)
_BAD = ", ".join(f"'{status}'" for status in BAD_ENDS)
_RUN = (
    "SELECT runs.owner, status, stop_requested_by, sweep_id,"
    " (SELECT duel_id FROM duel_sweeps WHERE duel_sweeps.sweep_id = runs.sweep_id) AS duel_id,"
    " EXISTS (SELECT 1 FROM runs AS next WHERE next.parent_id = runs.id AND next.attempt > runs.attempt) AS "
    "goes_on FROM runs WHERE runs.id = ?"
)
_OF: dict[Whole, str] = {
    "sweep": "sweep_id = ?",
    "duel": "sweep_id IN (SELECT sweep_id FROM duel_sweeps WHERE duel_id = ?)",
}
"""Condition on runs: they are part of a sweep or duel."""
_TO_CHANNELS = (
    "INSERT INTO outbox (key, channel_id, kind, run_id, sweep_id, duel_id, made_at, due_at)"
    " SELECT lower(hex(randomblob(16))), id, :kind, :run_id, :sweep_id, :duel_id, :now, :now FROM channels"
    " WHERE owner = :owner AND paused_at IS NULL AND (ends = 'all' OR :bad) AND (reach = 'runs' OR :kind <> 'run')"
    " AND (NOT EXISTS (SELECT 1 FROM people) OR EXISTS (SELECT 1 FROM people WHERE people.name = "
    "channels.owner AND disabled_at IS NULL))"
)
_NOT_TWICE = (
    " AND NOT EXISTS (SELECT 1 FROM outbox AS told WHERE told.channel_id = channels.id AND told.kind = "
    "'failure' AND told.{of}_id = :{of}_id AND told.id >"
    " (SELECT coalesce(max(whole.id), 0) FROM outbox AS whole WHERE whole.channel_id = channels.id AND "
    "whole.kind = '{of}' AND whole.{of}_id = :{of}_id))"
)
"""A first failure is reported once until all runs have ended; after a retry it can be reported again."""


@dataclass(frozen=True)
class Sent:
    """A message as shown to its owner."""

    id: int
    channel_id: int
    kind: NoticeKind
    run_id: int | None
    sweep_id: int | None
    duel_id: int | None
    made_at: str
    attempts: int
    due_at: str
    delivered_at: str | None
    failed_at: str | None
    last_error: str

    @property
    def waits(self) -> bool:
        """Whether it is still to be sent."""
        return self.delivered_at is None and self.failed_at is None

    @property
    def state(self) -> str:
        """Its state in a word or two."""
        if self.delivered_at:
            return "arrived"
        return (
            "given up"
            if self.failed_at
            else "waits"
            if not self.attempts
            else f"tried {self.attempts} {'time' if self.attempts == 1 else 'times'}"
        )


class OutboxReader:
    """Queries of messages."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def sent(self, owner: str | None = None, *, limit: int = 20) -> list[Sent]:
        """Return the newest messages to the channels of a person, or of everyone, newest first."""
        same = "id channel_id kind run_id sweep_id duel_id made_at attempts due_at delivered_at failed_at last_error"
        columns = ", ".join(f"outbox.{name}" for name in same.split())
        sql = (
            f"SELECT {columns} FROM outbox JOIN channels ON channels.id = channel_id WHERE owner = coalesce(?, "
            "owner) ORDER BY outbox.id DESC LIMIT ?"
        )
        return [Sent(*row) for row in self.db.rows(sql, [owner, limit])]


class NoticeWriter:
    """Writes messages within the change that ends a run."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def tell_stuck_duel(self, duel_id: int) -> bool:
        """Report once a duel whose tuning runs have all ended without a next stage; False if it continues, or was
        reported already.
        """
        with self.db.change():
            row = self.db.row("SELECT owner, stage FROM duels WHERE id = ?", [duel_id])
            if row is None or row["stage"] != "tuning" or self._is_on("duel", duel_id):
                return False
            told = (
                "SELECT 1 FROM outbox WHERE kind = 'duel' AND duel_id = ? AND made_at >= (SELECT max(ended_at) "
                f"FROM runs WHERE {_OF['duel']})"
            )
            if self.db.row(told, [duel_id, duel_id]):
                return False
            return self._put("duel", row["owner"], bad=True, duel_id=duel_id) > 0

    def tell_standstill(self, run_id: int) -> None:
        """Write the messages about a run that stands still, within the change that records it."""
        row = self.db.row(_RUN, [run_id])
        if row is None or row["status"] in ENDED:
            return
        if row["sweep_id"] is None:
            self._put("run", row["owner"], bad=True, run_id=run_id)
        else:
            sweep_id = row["sweep_id"] if row["duel_id"] is None else None
            self._put("failure", row["owner"], bad=True, run_id=run_id, sweep_id=sweep_id, duel_id=row["duel_id"])

    def tell_end(self, run_id: int) -> None:
        """Write the messages about a run's end, within the change that ends it."""
        if self.db.row("SELECT 1 FROM channels LIMIT 1") is None:
            return
        row = self.db.row(_RUN, [run_id])
        if row is None or row["goes_on"]:
            return
        if row["sweep_id"] is None:
            self._put("run", row["owner"], bad=_is_bad(row), run_id=run_id)
            return
        whole: Whole = "sweep" if row["duel_id"] is None else "duel"
        whole_id = int(row[f"{whole}_id"])
        sweep_id, duel_id = (whole_id, None) if whole == "sweep" else (None, whole_id)
        owner = self.db.connection.execute(f"SELECT owner FROM {whole}s WHERE id = ?", [whole_id]).fetchone()[0]
        if self._is_on(whole, whole_id):
            if row["status"] in BAD_ENDS:
                self._put(
                    "failure", owner, bad=True, run_id=run_id, sweep_id=sweep_id, duel_id=duel_id, only_once=whole
                )
        elif whole == "sweep" or self._is_judged(whole_id):
            self._put(whole, owner, bad=self._has_failed(whole, whole_id), sweep_id=sweep_id, duel_id=duel_id)

    def _put(
        self,
        kind: NoticeKind,
        owner: str,
        *,
        bad: bool,
        run_id: int | None = None,
        sweep_id: int | None = None,
        duel_id: int | None = None,
        only_once: Whole | None = None,
    ) -> int:
        """Write a message for each matching channel of a person; return their number."""
        values = {
            "kind": kind,
            "owner": owner,
            "bad": bad,
            "run_id": run_id,
            "sweep_id": sweep_id,
            "duel_id": duel_id,
            "now": now(),
        }
        return self.db.connection.execute(
            _TO_CHANNELS + (_NOT_TWICE.format(of=only_once) if only_once else ""), values
        ).rowcount

    def _is_on(self, whole: Whole, whole_id: int) -> bool:
        """Return whether any of its runs has not ended; checks the newest first, which usually ends last."""
        return (
            self.db.row(
                f"SELECT 1 FROM runs WHERE {_OF[whole]} AND status NOT IN ({_ENDED}) ORDER BY id DESC LIMIT 1",
                [whole_id],
            )
            is not None
        )

    def _is_judged(self, duel_id: int) -> bool:
        """Return whether all stages of a duel were launched; before that the referee decides how it continues."""
        return self.db.row("SELECT 1 FROM duels WHERE id = ? AND stage = 'judging'", [duel_id]) is not None

    def _has_failed(self, whole: Whole, whole_id: int) -> bool:
        """Return whether the newest run of a cell failed."""
        newest = f"SELECT max(id) FROM runs WHERE {_OF[whole]} GROUP BY sweep_id, config"
        return (
            self.db.row(f"SELECT 1 FROM runs WHERE id IN ({newest}) AND status IN ({_BAD}) LIMIT 1", [whole_id])
            is not None
        )


def _is_bad(run: Row) -> bool:
    """Return whether a single run ended unsuccessfully, other than by its owner's cancel."""
    return run["status"] in BAD_ENDS or (run["status"] == "cancelled" and run["stop_requested_by"] != run["owner"])
