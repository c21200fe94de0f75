"""Channels: where people are told that something of theirs has ended, and whom this lab writes to at all. An address is
a secret and leaves by one door.
"""

from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from engine.access.receivers import (
    KINDS,
    Kind,
    Receiver,
    ReceiverKind,
    checked_mailbox,
    checked_recipient,
    checked_webhook,
    read_receiver,
    shortened,
)
from engine.errors import ConfigError, Problem, WrongStatus
from engine.store.access.authorization import command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now

Ends = Literal["all", "bad"]
Reach = Literal["runs", "wholes"]
ENDS: tuple[Ends, ...] = get_args(Ends)
REACHES: tuple[Reach, ...] = get_args(Reach)
END_WORDS: dict[Ends, str] = {"all": "every end", "bad": "only bad ends (failed, lost, or ended by somebody else)"}
REACH_WORDS: dict[Reach, str] = {"runs": "single runs, sweeps and duels", "wholes": "sweeps and duels alone"}
MOST_CHANNELS = 10
"""So many channels a person may have."""


@dataclass(frozen=True)
class Channel:
    """One place where a person is told, without its secret."""

    id: int
    owner: str
    kind: Kind
    shown: str
    """As much of its address as may be seen."""
    ends: Ends
    reach: Reach
    created_at: str
    paused_at: str | None
    paused_because: str


@dataclass(frozen=True)
class ListedReceiver:
    """A receiver with who allowed it."""

    receiver: Receiver
    added_at: str
    added_by: str


class ChannelReader:
    """The questions about channels and receivers."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def receivers(self) -> frozenset[Receiver]:
        """Return whom messages may go to."""
        return frozenset(each.receiver for each in self.listed_receivers())

    def listed_receivers(self) -> list[ListedReceiver]:
        """Return whom messages may go to, and who allowed it."""
        sql = "SELECT kind, host, port, added_at, added_by FROM receivers ORDER BY kind DESC, host, port"
        return [ListedReceiver(Receiver(row[0], row[1], row[2]), row[3], row[4]) for row in self.db.rows(sql)]

    def account_address(self, name: str) -> str | None:
        """Return the e-mail address of a person's account, empty where it has none; None in a lab without accounts.
        Raises ConfigError for nobody's name.
        """
        if self.db.row("SELECT 1 FROM people LIMIT 1") is None:
            return None
        row = self.db.row("SELECT email FROM people WHERE name = ? AND disabled_at IS NULL", [name])
        if row is None:
            _refuse(f"{name} has no account in this lab, or is shut out, so nothing is sent there.")
        return str(row["email"])

    def of(self, owner: str | None = None) -> list[Channel]:
        """Return the channels of a person, or of everybody, oldest first."""
        return [
            _as_channel(row)
            for row in self.db.rows("SELECT * FROM channels WHERE owner = coalesce(?, owner) ORDER BY id", [owner])
        ]


class ChannelCommands:
    """The commands about channels and receivers; each raises ConfigError for a channel that is not there."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._channels = ChannelReader(db)

    @command("add channel")
    def add(self, kind: Kind, address: str, *, owner: str, ends: Ends = "all", reach: Reach = "runs") -> int:
        """Have somebody told of what of theirs ends from now on, and return the channel's number.

        Of e-mail the address is left empty where it is that of the person's own account. Raises ConfigError for an
        address that messages may not go to.
        """
        _check(kind, ends, reach)
        address = self._checked_address(kind, address, owner)
        if len(self.db.rows("SELECT 1 FROM channels WHERE owner = ?", [owner])) >= MOST_CHANNELS:
            _refuse(f"{owner} has {MOST_CHANNELS} channels, which is the most. Delete one that is not needed.")
        if self.db.row("SELECT 1 FROM channels WHERE owner = ? AND kind = ? AND address = ?", [owner, kind, address]):
            _refuse(f"{owner} has a channel to {shortened(kind, address)} already. Change that one.")
        sql = "INSERT INTO channels (owner, kind, address, ends, reach, created_at) VALUES (?, ?, ?, ?, ?, ?)"
        made = self.db.connection.execute(sql, [owner, kind, address, ends, reach, now()]).lastrowid
        assert made is not None
        return made

    @command("set channel", "channel")
    def change(self, channel_id: int, *, ends: Ends, reach: Reach, by: str) -> None:
        """Have a channel tell of other ends from now on; raises ConfigError for one that is not there."""
        row = self._channel(channel_id)
        _check(row["kind"], ends, reach)
        self.db.connection.execute("UPDATE channels SET ends = ?, reach = ? WHERE id = ?", [ends, reach, channel_id])

    @command("pause channel", "channel")
    def pause(self, channel_id: int, *, by: str) -> None:
        """Have a channel tell nothing until it is let go on; what ends meanwhile is not told later. Asking twice
        changes nothing.
        """
        self._channel(channel_id)
        sql = "UPDATE channels SET paused_at = ?, paused_because = ? WHERE id = ? AND paused_at IS NULL"
        self.db.connection.execute(sql, [now(), f"Paused by {by}.", channel_id])

    @command("pause channel", "channel")
    def resume(self, channel_id: int, *, by: str) -> None:
        """Have a paused channel tell again, beginning with what was on its way when it stopped. Raises ConfigError
        where its address may no longer be used.
        """
        row = self._channel(channel_id)
        self._checked_address(row["kind"], row["address"], row["owner"])
        sql = (
            "UPDATE channels SET paused_at = NULL, paused_because = '', failures = 0 WHERE id = ? AND paused_at IS "
            "NOT NULL"
        )
        if self.db.connection.execute(sql, [channel_id]).rowcount:
            self.db.connection.execute(
                "UPDATE outbox SET due_at = ? WHERE channel_id = ? AND delivered_at IS NULL AND failed_at IS NULL",
                [now(), channel_id],
            )

    @command("delete channel", "channel")
    def delete(self, channel_id: int, *, by: str) -> None:
        """Delete a channel with its address and what was to be sent there."""
        self._channel(channel_id)
        self.db.connection.execute("DELETE FROM channels WHERE id = ?", [channel_id])

    @command("test channel", "channel")
    def test(self, channel_id: int, *, by: str) -> int:
        """Have the runner send a test message and return the message's number. Raises WrongStatus where the channel is
        paused or one is on its way.
        """
        row = self._channel(channel_id)
        if row["paused_at"]:
            raise WrongStatus(f"Channel {channel_id} is paused, so nothing is sent there. Let it go on first.")
        under_way = (
            "SELECT 1 FROM outbox WHERE channel_id = ? AND kind = 'test' AND delivered_at IS NULL AND failed_at IS NULL"
        )
        if self.db.row(under_way, [channel_id]):
            raise WrongStatus(
                f"A test message to channel {channel_id} is on its way. Wait for it; the runner sends it."
            )
        sql = (
            "INSERT INTO outbox (key, channel_id, kind, made_at, due_at) VALUES (lower(hex(randomblob(16))), ?, "
            "'test', ?, ?)"
        )
        made = self.db.connection.execute(sql, [channel_id, now(), now()]).lastrowid
        assert made is not None
        return made

    @command("set receivers")
    def allow_receiver(self, kind: ReceiverKind, host: str, *, by: str) -> Receiver:
        """Let messages go to a host, or e-mail to a domain; one that is listed already stays as it is. Raises
        ConfigError for what is no host.
        """
        found = read_receiver(kind, host)
        sql = "INSERT OR IGNORE INTO receivers (kind, host, port, added_at, added_by) VALUES (?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [found.kind, found.host, found.port, now(), by])
        return found

    @command("set receivers")
    def refuse_receiver(self, kind: ReceiverKind, host: str, *, by: str) -> bool:
        """Let no message go to a host or domain any more; False where it was not listed. Channels that go there pause
        at their next message.
        """
        found = read_receiver(kind, host)
        sql = "DELETE FROM receivers WHERE kind = ? AND host = ? AND port = ?"
        return self.db.connection.execute(sql, [found.kind, found.host, found.port]).rowcount > 0

    def _checked_address(self, kind: Kind, address: str, owner: str) -> str:
        """Return an address as it is kept."""
        if kind != "email":
            checked_webhook(kind, address.strip(), self._channels.receivers())
            return address.strip()
        account = self._channels.account_address(owner)
        checked_recipient(address, account, self._channels.receivers())
        return "" if account is not None else checked_mailbox(address.strip())

    def _channel(self, channel_id: int) -> Row:
        row = self.db.row("SELECT * FROM channels WHERE id = ?", [channel_id])
        if row is None:
            _refuse(f"No channel has the number {channel_id}. `python -m engine notify list` shows yours.")
        return row


def _check(kind: str, ends: str, reach: str) -> None:
    for name, value, known in (("kind", kind, KINDS), ("ends", ends, ENDS), ("reach", reach, REACHES)):
        if value not in known:
            raise ConfigError([Problem(name, f"{name} must be one of {', '.join(known)}, got '{value}'.")])


def _as_channel(row: Row) -> Channel:
    same = "id owner kind ends reach created_at paused_at paused_because"
    return Channel(**{name: row[name] for name in same.split()}, shown=shortened(row["kind"], row["address"]))


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError([Problem("channel", sentence)])
