"""The outbox: messages are rows, written in the transaction that ends a run or finds that it stands still, and kept
until they are delivered.

Runs of a sweep or a duel are reported once, when all have ended, and at the first failure; an automatically retried
lost run is reported at the end of its chain.
"""

from dataclasses import dataclass
from typing import Any, Literal

from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import BAD_ENDS, ENDED
from engine.store.timestamps import in_seconds, now, seconds_since

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
_IS_PERSON = (
    "(NOT EXISTS (SELECT 1 FROM people) OR EXISTS (SELECT 1 FROM people WHERE people.name = subscriptions.owner AND "
    "disabled_at IS NULL))"
)
_TO_SUBSCRIPTIONS = (
    "INSERT INTO outbox (key, subscription_id, kind, run_id, sweep_id, duel_id, made_at, due_at)"
    " SELECT lower(hex(randomblob(16))), id, :kind, :run_id, :sweep_id, :duel_id, :now, :now FROM subscriptions"
    " WHERE owner = :owner AND paused_at IS NULL AND (ends = 'all' OR :bad) AND (reach = 'runs' OR :kind <> 'run')"
    f" AND {_IS_PERSON}"
)
_NOT_TWICE = (
    " AND NOT EXISTS (SELECT 1 FROM outbox AS told WHERE told.subscription_id = subscriptions.id AND told.kind = "
    "'failure' AND told.{of}_id = :{of}_id AND told.id >"
    " (SELECT coalesce(max(whole.id), 0) FROM outbox AS whole WHERE whole.subscription_id = subscriptions.id AND "
    "whole.kind = '{of}' AND whole.{of}_id = :{of}_id))"
)
"""A first failure is reported once until all runs have ended; after a retry it can be reported again."""


@dataclass(frozen=True)
class Message:
    """A message to one subscription."""

    id: int
    key: str
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
    subscription_id: int
    owner: str
    channel: str
    address: str

    @property
    def ids(self) -> dict[str, str]:
        """What it is about, by kind."""
        ids = {"run": self.run_id, "sweep": self.sweep_id, "duel": self.duel_id}
        return {kind: str(each) for kind, each in ids.items() if each is not None}

    @property
    def waits(self) -> bool:
        """Whether it is still to be sent."""
        return self.delivered_at is None and self.failed_at is None

    @property
    def state(self) -> str:
        """Its state in a word or two."""
        tried = f"tried {self.attempts} {'time' if self.attempts == 1 else 'times'}" if self.attempts else "waits"
        return "arrived" if self.delivered_at else "given up" if self.failed_at else tried


_MESSAGES = (
    "SELECT outbox.id, key, kind, run_id, sweep_id, duel_id, made_at, attempts, due_at, delivered_at, failed_at, "
    "last_error, subscription_id, owner, channel, address FROM outbox JOIN subscriptions ON subscriptions.id = "
    "subscription_id"
)


class OutboxReader:
    """Queries of messages."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def sent(self, owner: str | None = None, *, limit: int = 20) -> list[Message]:
        """Return the newest messages to a person, or to everyone, newest first."""
        sql = f"{_MESSAGES} WHERE owner = coalesce(?, owner) ORDER BY outbox.id DESC LIMIT ?"
        return [Message(*row) for row in self.db.rows(sql, [owner, limit])]


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
        if self.db.row("SELECT 1 FROM subscriptions LIMIT 1") is None:
            return
        row = self.db.row(_RUN, [run_id])
        if row is None or row["goes_on"]:
            return
        if row["sweep_id"] is None:
            self._put("run", row["owner"], bad=_is_bad(row), run_id=run_id)
            return
        whole: Whole = "sweep" if row["duel_id"] is None else "duel"
        whole_id = int(row[f"{whole}_id"])
        ids: dict[str, Any] = {f"{whole}_id": whole_id}
        owner = self.db.connection.execute(f"SELECT owner FROM {whole}s WHERE id = ?", [whole_id]).fetchone()[0]
        if self._is_on(whole, whole_id):
            if row["status"] in BAD_ENDS:
                self._put("failure", owner, bad=True, once=True, run_id=run_id, **ids)
        elif whole == "sweep" or self._is_judged(whole_id):
            self._put(whole, owner, bad=self._has_failed(whole, whole_id), **ids)

    def _put(self, kind: NoticeKind, owner: str, *, bad: bool, once: bool = False, **ids: Any) -> int:
        """Write a message for each matching subscription of a person, of a failure in a sweep or duel at most `once`;
        return their number.
        """
        nothing = {"run_id": None, "sweep_id": None, "duel_id": None}
        values = {"kind": kind, "owner": owner, "bad": bad, "now": now(), **nothing, **ids}
        sql = _NOT_TWICE.format(of="duel" if ids.get("duel_id") else "sweep") if once else ""
        return self.db.connection.execute(_TO_SUBSCRIPTIONS + sql, values).rowcount

    def _is_on(self, whole: Whole, whole_id: int) -> bool:
        """Return whether any of its runs has not ended; checks the newest first, which usually ends last."""
        sql = f"SELECT 1 FROM runs WHERE {_OF[whole]} AND status NOT IN ({_ENDED}) ORDER BY id DESC LIMIT 1"
        return self.db.row(sql, [whole_id]) is not None

    def _is_judged(self, duel_id: int) -> bool:
        """Return whether all stages of a duel were launched; before that the referee decides how it continues."""
        return self.db.row("SELECT 1 FROM duels WHERE id = ? AND stage = 'judging'", [duel_id]) is not None

    def _has_failed(self, whole: Whole, whole_id: int) -> bool:
        """Return whether the newest run of a cell failed."""
        newest = f"SELECT max(id) FROM runs WHERE {_OF[whole]} GROUP BY sweep_id, config"
        sql = f"SELECT 1 FROM runs WHERE id IN ({newest}) AND status IN ({_BAD}) LIMIT 1"
        return self.db.row(sql, [whole_id]) is not None


def _is_bad(run: Row) -> bool:
    """Return whether a single run ended unsuccessfully, other than by its owner's cancel."""
    return run["status"] in BAD_ENDS or (run["status"] == "cancelled" and run["stop_requested_by"] != run["owner"])


# ---- The runner's side: take due messages, and record the result of each attempt ------------------------------------

TAKEN = 8
"""Messages taken at a time."""
LEASE_S = 60.0
"""Time until a message whose sender died is sent again; longer than any attempt."""
GIVE_UP_S = 24 * 3600.0
"""Age at which an undelivered message is given up."""
LEAST_ATTEMPTS = 5
"""Minimum number of attempts before that: after days without a runner, the first attempt may fail by chance."""
KEPT_DAYS = 30
"""Days that messages are kept for their owner."""
_WAITS = "delivered_at IS NULL AND failed_at IS NULL"
_DUE = (
    f"SELECT min(outbox.id) FROM outbox JOIN subscriptions ON subscriptions.id = subscription_id WHERE {_WAITS} AND "
    f"due_at <= ? AND paused_at IS NULL AND {_IS_PERSON} GROUP BY subscription_id ORDER BY min(due_at) LIMIT ?"
)
_ATTEMPT = f"WHERE id = ? AND attempts = ? AND {_WAITS}"
"""The number of attempts tells a sender that was thought dead from the present one."""


class DeliveryCommands:
    """The runner's commands of the outbox."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def has_due(self) -> bool:
        """Return whether a message is due; writes nothing."""
        return self.db.row(_DUE, [now(), 1]) is not None

    def take_due(self) -> list[Message]:
        """Take the oldest due message of each of some subscriptions for an attempt; it is due again after LEASE_S."""
        with self.db.change() as connection:
            due = [row[0] for row in self.db.rows(_DUE, [now(), TAKEN])]
            for each in due:
                sql = "UPDATE outbox SET attempts = attempts + 1, due_at = ? WHERE id = ?"
                connection.execute(sql, [in_seconds(LEASE_S), each])
            return [Message(*self.db.rows(f"{_MESSAGES} WHERE outbox.id = ?", [each])[0]) for each in due]

    def note_delivered(self, message: Message) -> None:
        """Record that a message was delivered."""
        with self.db.change() as connection:
            sql = f"UPDATE outbox SET delivered_at = ?, last_error = '' {_ATTEMPT}"
            connection.execute(sql, [now(), message.id, message.attempts])
            kept = in_seconds(-KEPT_DAYS * 86_400.0)
            connection.execute(f"DELETE FROM outbox WHERE made_at < ? AND NOT ({_WAITS})", [kept])

    def note_failed(self, message: Message, why: str, wait_s: float) -> None:
        """Record a failed attempt; the subscription's next attempt is in `wait_s`, or none if the message has waited
        too long.
        """
        given_up = message.attempts >= LEAST_ATTEMPTS and seconds_since(message.made_at) + wait_s > GIVE_UP_S
        later = in_seconds(wait_s)
        with self.db.change() as connection:
            sql = f"UPDATE outbox SET last_error = ?, due_at = ?, failed_at = ? {_ATTEMPT}"
            values = [why, later, now() if given_up else None, message.id, message.attempts]
            if connection.execute(sql, values).rowcount:
                sql = f"UPDATE outbox SET due_at = max(due_at, ?) WHERE subscription_id = ? AND {_WAITS}"
                connection.execute(sql, [later, message.subscription_id])
