"""What the runner does with the outbox: takes what is due under a lease, and writes down what became of
each message.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from engine.access.receivers import Kind
from engine.store.connection import WriteConnection
from engine.store.notices.outbox import NoticeKind
from engine.store.timestamps import in_seconds, now, seconds_since

LEASE_S = 300.0
"""So long a message is one process's to send; longer than any attempt takes. Where that process is gone, the next one
need not wait.
"""
GIVE_UP_S = 24 * 3600.0
"""A message that could not be sent within so long since the end is given up."""
LEAST_ATTEMPTS = 5
"""And not before so many attempts: where no runner was alive for days, the first one may well fail by accident."""
MOST_FAILURES = 3
"""So many given up one after another, and the channel pauses."""
KEPT_DAYS = 30
"""Messages are kept so long, for their owner to look at."""
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
    """A message to be sent now, with the secret of where."""

    id: int
    key: str
    kind: NoticeKind
    run_id: int | None
    sweep_id: int | None
    duel_id: int | None
    made_at: str
    attempts: int
    """This one among them."""
    channel_id: int
    channel_kind: Kind
    owner: str
    address: str = field(repr=False)


class DeliveryCommands:
    """The runner's side of the outbox."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def has_due(self) -> bool:
        """Say whether something is to be sent now; a look that writes nothing."""
        return self.db.row(_DUE, [now(), 1]) is not None

    def take_due(self, lease: str, *, limit: int = 8) -> list[Due]:
        """Take the oldest message that is due of each of some channels, so that nobody else sends it while `lease` (a
        process) does.
        """
        with self.db.change() as connection:
            found = [row[0] for row in self.db.rows(_DUE, [now(), limit])]
            for each in found:
                connection.execute(
                    "UPDATE outbox SET attempts = attempts + 1, due_at = ?, lease = ? WHERE id = ?",
                    [in_seconds(LEASE_S), lease, each],
                )
            return [self._due(each) for each in found]

    def free_leases(self, alive: Collection[str]) -> int:
        """Let messages that a process was sending when it died be sent by another at once; `alive` are the leases that
        stand.
        """
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
        """Return the processes that are sending, or were when they died."""
        return [
            row["lease"] for row in self.db.rows(f"SELECT DISTINCT lease FROM outbox WHERE {_WAITS} AND lease <> ''")
        ]

    def note_delivered(self, due: Due, lease: str) -> None:
        """Write down that a receiver has its message."""
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
        """Write down why an attempt failed; the next one is in `wait_s`, also of what else waits for that channel, or
        none where it waited too long.
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
                    self._pause(
                        due.channel_id,
                        f"{row[0]} messages one after another could not be sent within a day. The last time: {why}",
                    )

    def note_refused(self, due: Due, lease: str, why: str) -> None:
        """Write down that a receiver wants no such message, ever: it is given up, and its channel pauses."""
        with self.db.change() as connection:
            sql = f"UPDATE outbox SET last_error = ?, failed_at = ?, lease = '' WHERE id = ? AND lease = ? AND {_WAITS}"
            if connection.execute(sql, [why, now(), due.id, lease]).rowcount:
                self._pause(due.channel_id, why)

    def _pause(self, channel_id: int, why: str) -> None:
        sql = "UPDATE channels SET paused_at = ?, paused_because = ? WHERE id = ? AND paused_at IS NULL"
        self.db.connection.execute(sql, [now(), why, channel_id])

    def _due(self, message_id: int) -> Due:
        same = "id key kind run_id sweep_id duel_id made_at attempts channel_id"
        columns = ", ".join(f"outbox.{name}" for name in same.split())
        sql = (
            f"SELECT {columns}, channels.kind, channels.owner, channels.address FROM outbox JOIN channels ON "
            "channels.id = channel_id WHERE outbox.id = ?"
        )
        return Due(*self.db.rows(sql, [message_id])[0])
