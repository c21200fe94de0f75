"""The runner's side of the outbox: lease due messages, and record the result of each attempt."""

from collections.abc import Collection
from dataclasses import dataclass, field

from engine.access.receivers import Kind
from engine.store.connection import WriteConnection
from engine.store.notices.channels import pause_channel
from engine.store.notices.outbox import NoticeKind
from engine.store.timestamps import in_seconds, now, seconds_since

LEASE_S = 300.0
"""Duration of a lease, longer than any attempt. Leases of dead processes are released earlier."""
GIVE_UP_S = 24 * 3600.0
"""Age at which an undelivered message is given up."""
LEAST_ATTEMPTS = 5
"""Minimum number of attempts before that: after days without a runner, the first attempt may fail by chance."""
MOST_FAILURES = 3
"""Number of consecutive undelivered messages after which the channel pauses."""
KEPT_DAYS = 30
"""Days that messages are kept for their owner."""
_WAITS = "delivered_at IS NULL AND failed_at IS NULL"
_DUE = (
    f"SELECT min(outbox.id) FROM outbox JOIN channels ON channels.id = channel_id WHERE {_WAITS} AND due_at <= "
    "? AND paused_at IS NULL"
    " AND (NOT EXISTS (SELECT 1 FROM people) OR EXISTS (SELECT 1 FROM people WHERE people.name = "
    "channels.owner AND disabled_at IS NULL))"
    " GROUP BY channel_id ORDER BY min(due_at) LIMIT ?"
)


@dataclass(frozen=True)
class Due:
    """A message to send now, with its secret address."""

    id: int
    key: str
    kind: NoticeKind
    run_id: int | None
    sweep_id: int | None
    duel_id: int | None
    made_at: str
    attempts: int
    """Number of attempts, including this one."""
    channel_id: int
    channel_kind: Kind
    owner: str
    address: str = field(repr=False)


class DeliveryCommands:
    """The runner's commands of the outbox."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def has_due(self) -> bool:
        """Return whether a message is due; writes nothing."""
        return self.db.row(_DUE, [now(), 1]) is not None

    def take_due(self, lease: str, *, limit: int = 8) -> list[Due]:
        """Lease the oldest due message of each of some channels to the process `lease`."""
        with self.db.change() as connection:
            found = [row[0] for row in self.db.rows(_DUE, [now(), limit])]
            for each in found:
                connection.execute(
                    "UPDATE outbox SET attempts = attempts + 1, due_at = ?, lease = ? WHERE id = ?",
                    [in_seconds(LEASE_S), lease, each],
                )
            return [self._due(each) for each in found]

    def free_leases(self, alive: Collection[str]) -> int:
        """Release the leases of dead processes; `alive` are the leases of live ones."""
        with self.db.change() as connection:
            gone = [
                row["lease"]
                for row in self.db.rows(f"SELECT DISTINCT lease FROM outbox WHERE {_WAITS} AND lease <> ''")
                if row["lease"] not in alive
            ]
            return sum(
                connection.execute(
                    f"UPDATE outbox SET lease = '', due_at = ? WHERE lease = ? AND {_WAITS}", [now(), each]
                ).rowcount
                for each in gone
            )

    def leases(self) -> list[str]:
        """Return the processes with leases, live or dead."""
        return [
            row["lease"] for row in self.db.rows(f"SELECT DISTINCT lease FROM outbox WHERE {_WAITS} AND lease <> ''")
        ]

    def note_delivered(self, due: Due, lease: str) -> None:
        """Record that a message was delivered."""
        with self.db.change() as connection:
            sql = (
                "UPDATE outbox SET delivered_at = ?, lease = '', last_error = '' WHERE id = ? AND lease = ? AND "
                f"{_WAITS}"
            )
            if connection.execute(sql, [now(), due.id, lease]).rowcount:
                connection.execute("UPDATE channels SET failures = 0 WHERE id = ?", [due.channel_id])
            connection.execute(
                f"DELETE FROM outbox WHERE made_at < ? AND NOT ({_WAITS})", [in_seconds(-KEPT_DAYS * 86_400.0)]
            )

    def note_failed(self, due: Due, lease: str, why: str, wait_s: float) -> None:
        """Record a failed attempt; the channel's next attempt is in `wait_s`, or none if the message has waited too
        long.
        """
        with self.db.change() as connection:
            given_up = due.attempts >= LEAST_ATTEMPTS and seconds_since(due.made_at) + wait_s > GIVE_UP_S
            sql = (
                "UPDATE outbox SET last_error = ?, due_at = ?, failed_at = ?, lease = '' WHERE id = ? AND lease = "
                f"? AND {_WAITS}"
            )
            if not connection.execute(
                sql, [why, in_seconds(wait_s), now() if given_up else None, due.id, lease]
            ).rowcount:
                return
            later = f"UPDATE outbox SET due_at = max(due_at, ?) WHERE channel_id = ? AND lease = '' AND {_WAITS}"
            connection.execute(later, [in_seconds(wait_s), due.channel_id])
            if given_up:
                connection.execute("UPDATE channels SET failures = failures + 1 WHERE id = ?", [due.channel_id])
                row = connection.execute("SELECT failures FROM channels WHERE id = ?", [due.channel_id]).fetchone()
                if row and row[0] >= MOST_FAILURES:
                    pause_channel(
                        self.db,
                        due.channel_id,
                        f"{row[0]} consecutive messages could not be delivered within a day. Last error: {why}",
                    )

    def note_refused(self, due: Due, lease: str, why: str) -> None:
        """Record a permanent refusal: the message is given up and its channel pauses."""
        with self.db.change() as connection:
            sql = f"UPDATE outbox SET last_error = ?, failed_at = ?, lease = '' WHERE id = ? AND lease = ? AND {_WAITS}"
            if connection.execute(sql, [why, now(), due.id, lease]).rowcount:
                pause_channel(self.db, due.channel_id, why)

    def _due(self, message_id: int) -> Due:
        same = "id key kind run_id sweep_id duel_id made_at attempts channel_id"
        columns = ", ".join(f"outbox.{name}" for name in same.split())
        sql = (
            f"SELECT {columns}, channels.kind, channels.owner, channels.address FROM outbox JOIN channels ON "
            "channels.id = channel_id WHERE outbox.id = ?"
        )
        return Due(*self.db.rows(sql, [message_id])[0])
