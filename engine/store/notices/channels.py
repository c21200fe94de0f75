"""Notification channels, and the hosts that messages may go to. An address is secret and leaves this module in one
place only.
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
from engine.errors import ConfigError, WrongStatus
from engine.store.access.authorization import command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now

Ends = Literal["all", "bad"]
Reach = Literal["runs", "wholes"]
ENDS: tuple[Ends, ...] = get_args(Ends)
REACHES: tuple[Reach, ...] = get_args(Reach)
END_WORDS: dict[Ends, str] = {"all": "every end", "bad": "failures only (failed, lost, or cancelled by another person)"}
REACH_WORDS: dict[Reach, str] = {"runs": "single runs, sweeps and duels", "wholes": "sweeps and duels only"}
MOST_CHANNELS = 10
"""Maximum number of channels per person."""


@dataclass(frozen=True)
class Channel:
    """A notification channel of a person, without its secret."""

    id: int
    owner: str
    kind: Kind
    shown: str
    """The part of its address that may be shown."""
    ends: Ends
    reach: Reach
    created_at: str
    paused_at: str | None
    paused_because: str


@dataclass(frozen=True)
class ListedReceiver:
    """A permitted receiver, and who permitted it."""

    receiver: Receiver
    added_at: str
    added_by: str


class ChannelReader:
    """Queries of channels and receivers."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def receivers(self) -> frozenset[Receiver]:
        """Return the permitted receivers."""
        return frozenset(each.receiver for each in self.listed_receivers())

    def listed_receivers(self) -> list[ListedReceiver]:
        """Return the permitted receivers, and who permitted each."""
        sql = "SELECT kind, host, port, added_at, added_by FROM receivers ORDER BY kind DESC, host, port"
        return [ListedReceiver(Receiver(row[0], row[1], row[2]), row[3], row[4]) for row in self.db.rows(sql)]

    def account_address(self, name: str) -> str | None:
        """Return the e-mail address of a person's account, empty if it has none; None in a lab without accounts. Raises
        ConfigError for an unknown name.
        """
        if self.db.row("SELECT 1 FROM people LIMIT 1") is None:
            return None
        row = self.db.row("SELECT email FROM people WHERE name = ? AND disabled_at IS NULL", [name])
        if row is None:
            _refuse(f"{name} has no enabled account in this lab, so no notifications are sent to them.")
        return str(row["email"])

    def of(self, owner: str | None = None) -> list[Channel]:
        """Return the channels of a person, or of everyone, oldest first."""
        return [
            _as_channel(row)
            for row in self.db.rows("SELECT * FROM channels WHERE owner = coalesce(?, owner) ORDER BY id", [owner])
        ]


class ChannelCommands:
    """Commands of channels and receivers; each raises ConfigError for an unknown channel."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._channels = ChannelReader(db)

    @command("add channel")
    def add(self, kind: Kind, address: str, *, owner: str, ends: Ends = "all", reach: Reach = "runs") -> int:
        """Create a channel for later ends of a person's runs, and return its number.

        For e-mail an empty address means that of the person's account. Raises ConfigError for an address that is not
        permitted.
        """
        _check(kind, ends, reach)
        address = self._checked_address(kind, address, owner)
        if len(self.db.rows("SELECT 1 FROM channels WHERE owner = ?", [owner])) >= MOST_CHANNELS:
            _refuse(f"{owner} has {MOST_CHANNELS} channels, the maximum. Delete one first.")
        if self.db.row("SELECT 1 FROM channels WHERE owner = ? AND kind = ? AND address = ?", [owner, kind, address]):
            _refuse(f"{owner} already has a channel to {shortened(kind, address)}. Edit that one.")
        sql = "INSERT INTO channels (owner, kind, address, ends, reach, created_at) VALUES (?, ?, ?, ?, ?, ?)"
        made = self.db.connection.execute(sql, [owner, kind, address, ends, reach, now()]).lastrowid
        assert made is not None
        return made

    @command("set channel", "channel")
    def change(self, channel_id: int, *, ends: Ends, reach: Reach, by: str) -> None:
        """Change which ends a channel reports from now on; raises ConfigError for an unknown channel."""
        row = self._channel(channel_id)
        _check(row["kind"], ends, reach)
        self.db.connection.execute("UPDATE channels SET ends = ?, reach = ? WHERE id = ?", [ends, reach, channel_id])

    @command("pause channel", "channel")
    def pause(self, channel_id: int, *, by: str) -> None:
        """Pause a channel; ends during the pause are never reported. Repeating it changes nothing."""
        self._channel(channel_id)
        pause_channel(self.db, channel_id, f"Paused by {by}.")

    @command("pause channel", "channel")
    def resume(self, channel_id: int, *, by: str) -> None:
        """Resume a paused channel, starting with the messages that were queued when it was paused. Raises ConfigError
        if its address is no longer permitted.
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
        """Delete a channel with its address and queued messages."""
        self._channel(channel_id)
        self.db.connection.execute("DELETE FROM channels WHERE id = ?", [channel_id])

    @command("test channel", "channel")
    def test(self, channel_id: int, *, by: str) -> int:
        """Queue a test message and return its number. Raises WrongStatus if the channel is paused or a test message is
        already queued.
        """
        row = self._channel(channel_id)
        if row["paused_at"]:
            raise WrongStatus(f"Channel {channel_id} is paused. Resume it first.")
        under_way = (
            "SELECT 1 FROM outbox WHERE channel_id = ? AND kind = 'test' AND delivered_at IS NULL AND failed_at IS NULL"
        )
        if self.db.row(under_way, [channel_id]):
            raise WrongStatus(
                f"A test message to channel {channel_id} is already queued. Wait until the runner sends it."
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
        """Permit messages to a host, or e-mail to a domain; an existing entry is unchanged. Raises ConfigError for an
        invalid host.
        """
        found = read_receiver(kind, host)
        sql = "INSERT OR IGNORE INTO receivers (kind, host, port, added_at, added_by) VALUES (?, ?, ?, ?, ?)"
        self.db.connection.execute(sql, [found.kind, found.host, found.port, now(), by])
        return found

    @command("set receivers")
    def refuse_receiver(self, kind: ReceiverKind, host: str, *, by: str) -> bool:
        """Remove a host or domain from the permitted ones; False if it was not listed. Channels to it pause at their
        next message.
        """
        found = read_receiver(kind, host)
        sql = "DELETE FROM receivers WHERE kind = ? AND host = ? AND port = ?"
        return self.db.connection.execute(sql, [found.kind, found.host, found.port]).rowcount > 0

    def _checked_address(self, kind: Kind, address: str, owner: str) -> str:
        """Return the stored form of an address."""
        if kind != "email":
            checked_webhook(kind, address.strip(), self._channels.receivers())
            return address.strip()
        account = self._channels.account_address(owner)
        checked_recipient(address, account, self._channels.receivers())
        return "" if account is not None else checked_mailbox(address.strip())

    def _channel(self, channel_id: int) -> Row:
        row = self.db.row("SELECT * FROM channels WHERE id = ?", [channel_id])
        if row is None:
            _refuse(f"Channel {channel_id} doesn't exist. `python -m engine notify list` shows your channels.")
        return row


def pause_channel(db: WriteConnection, channel_id: int, why: str) -> None:
    """Pause a channel, within a change; a paused one keeps its reason."""
    sql = "UPDATE channels SET paused_at = ?, paused_because = ? WHERE id = ? AND paused_at IS NULL"
    db.connection.execute(sql, [now(), why, channel_id])


def _check(kind: str, ends: str, reach: str) -> None:
    for name, value, known in (("kind", kind, KINDS), ("ends", ends, ENDS), ("reach", reach, REACHES)):
        if value not in known:
            raise ConfigError.of(name, f"{name} must be one of {', '.join(known)}; got '{value}'.")


def _as_channel(row: Row) -> Channel:
    same = "id owner kind ends reach created_at paused_at paused_because"
    return Channel(**{name: row[name] for name in same.split()}, shown=shortened(row["kind"], row["address"]))


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError.of("channel", sentence)
