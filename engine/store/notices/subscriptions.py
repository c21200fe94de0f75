"""Subscriptions of people to the lab's channels (`engine.access.channels`): which of their ends are sent where."""

import shlex
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args
from urllib.parse import urlsplit

from engine.access.channels import lab_channel
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
MOST_SUBSCRIPTIONS = 10
"""Maximum number of subscriptions per person."""


@dataclass(frozen=True)
class Subscription:
    """A person's subscription to a channel."""

    id: int
    owner: str
    channel: str
    """Its name; empty for a webhook of an earlier version."""
    address: str
    """The person's address on it; empty if it takes none, or that of the account."""
    ends: Ends
    reach: Reach
    paused_at: str | None
    paused_because: str
    host: str
    """The host of a webhook of an earlier version, whose URL is a secret."""

    @property
    def title(self) -> str:
        """Its channel, and the person's address there."""
        return " ".join(filter(None, (self.channel or f"webhook at {self.host}", self.address)))


class SubscriptionReader:
    """Queries of subscriptions."""

    def __init__(self, db: Connection) -> None:
        self.db = db

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

    def of(self, owner: str | None = None) -> list[Subscription]:
        """Return the subscriptions of a person, or of everyone, oldest first."""
        rows = self.db.rows("SELECT * FROM subscriptions WHERE owner = coalesce(?, owner) ORDER BY id", [owner])
        same = "id owner channel address ends reach paused_at paused_because"
        return [
            Subscription(**{name: row[name] for name in same.split()}, host=urlsplit(row["webhook"]).hostname or "")
            for row in rows
        ]


class SubscriptionCommands:
    """Commands of subscriptions; each raises ConfigError for an unknown one."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._reader = SubscriptionReader(db)

    @command("add subscription")
    def add(self, channel: str, address: str = "", *, owner: str, ends: Ends = "all", reach: Reach = "runs") -> int:
        """Send later ends of a person's runs to a channel of the lab; return the subscription's number.

        For e-mail an empty address means that of the person's account. Raises ConfigError for an unknown channel, or an
        address that is not permitted.
        """
        address = self._stored_address(channel, address, owner)
        if len(self.db.rows("SELECT 1 FROM subscriptions WHERE owner = ?", [owner])) >= MOST_SUBSCRIPTIONS:
            _refuse(f"{owner} has {MOST_SUBSCRIPTIONS} subscriptions, the maximum. Delete one first.")
        same = "SELECT 1 FROM subscriptions WHERE owner = ? AND channel = ? AND address = ?"
        if self.db.row(same, [owner, channel, address]):
            _refuse(f"{owner} already has a subscription to '{channel}'. Change that one.")
        sql = "INSERT INTO subscriptions (owner, channel, address, ends, reach, created_at) VALUES (?, ?, ?, ?, ?, ?)"
        return self._insert(sql, [owner, channel, address, ends, reach, now()])

    @command("set subscription", "subscription")
    def change(self, subscription_id: int, *, ends: Ends, reach: Reach, channel: str = "", by: str) -> None:
        """Change which ends a subscription reports from now on, and where, with the messages that are queued. Another
        channel replaces a webhook of an earlier version. Raises ConfigError for an unknown channel.
        """
        row = self._row(subscription_id)
        sql = "UPDATE subscriptions SET ends = ?, reach = ? WHERE id = ?"
        self.db.connection.execute(sql, [ends, reach, subscription_id])
        if channel:
            address = self._stored_address(channel, row["address"], row["owner"])
            sql = "UPDATE subscriptions SET channel = ?, address = ?, webhook = '' WHERE id = ?"
            self.db.connection.execute(sql, [channel, address, subscription_id])

    @command("pause subscription", "subscription")
    def pause(self, subscription_id: int, *, by: str) -> None:
        """Pause a subscription; ends during the pause are never reported. Repeating it changes nothing."""
        self._row(subscription_id)
        sql = "UPDATE subscriptions SET paused_at = ?, paused_because = ? WHERE id = ? AND paused_at IS NULL"
        self.db.connection.execute(sql, [now(), f"Paused by {by}.", subscription_id])

    @command("pause subscription", "subscription")
    def resume(self, subscription_id: int, *, by: str) -> None:
        """Resume a paused subscription, starting with the messages that were queued when it was paused. Raises
        ConfigError if its channel is gone, or its address is no longer permitted.
        """
        row = self._row(subscription_id)
        if not row["channel"]:
            _refuse(row["paused_because"])
        self._stored_address(row["channel"], row["address"], row["owner"])
        sql = "UPDATE subscriptions SET paused_at = NULL, paused_because = '' WHERE id = ? AND paused_at IS NOT NULL"
        if self.db.connection.execute(sql, [subscription_id]).rowcount:
            due = (
                "UPDATE outbox SET due_at = ? WHERE subscription_id = ? AND delivered_at IS NULL AND failed_at IS NULL"
            )
            self.db.connection.execute(due, [now(), subscription_id])

    @command("delete subscription", "subscription")
    def delete(self, subscription_id: int, *, by: str) -> None:
        """Delete a subscription with its address and queued messages."""
        self._row(subscription_id)
        self.db.connection.execute("DELETE FROM subscriptions WHERE id = ?", [subscription_id])

    @command("test subscription", "subscription")
    def test(self, subscription_id: int, *, by: str) -> int:
        """Queue a test message, or make one that waits for its next attempt due now, and return its number. Raises
        WrongStatus if the subscription is paused or a test message is already due.
        """
        if self._row(subscription_id)["paused_at"]:
            raise WrongStatus(f"Subscription {subscription_id} is paused. Resume it first.")
        queued = "kind = 'test' AND delivered_at IS NULL AND failed_at IS NULL"
        sql = f"SELECT id, due_at, attempts, last_error FROM outbox WHERE subscription_id = ? AND {queued}"
        if row := self.db.row(sql, [subscription_id]):
            is_being_sent = row["attempts"] and not row["last_error"]
            if is_being_sent or row["due_at"] <= now():
                waits = f"A test message to subscription {subscription_id} is already queued."
                raise WrongStatus(f"{waits} Wait until the runner sends it.")
            self.db.connection.execute("UPDATE outbox SET due_at = ? WHERE id = ?", [now(), row["id"]])
            return int(row["id"])
        columns = "key, subscription_id, kind, made_at, due_at"
        sql = f"INSERT INTO outbox ({columns}) VALUES (lower(hex(randomblob(16))), ?, 'test', ?, ?)"
        return self._insert(sql, [subscription_id, now(), now()])

    def _stored_address(self, name: str, address: str, owner: str) -> str:
        """Return the stored form of an address that is permitted on a channel."""
        channel = lab_channel(self.db.home, name)
        account = self._reader.account_address(owner) if channel.takes == "email" else None
        if account == "" and self.db.row("SELECT 1 FROM people WHERE name = ? AND role = 'admin'", [owner]):
            own = f"python -m engine users email {shlex.quote(owner)} ADDRESS"
            _refuse(f"Your account has no e-mail address, the only one that messages can go to. Add it: {own}")
        checked = channel.checked_address(address, account)
        return checked if account is None else ""

    def _row(self, subscription_id: int) -> Row:
        row = self.db.row("SELECT * FROM subscriptions WHERE id = ?", [subscription_id])
        if row is None:
            _refuse(f"Subscription {subscription_id} doesn't exist. `python -m engine notify list` shows yours.")
        return row

    def _insert(self, sql: str, values: list[object]) -> int:
        made = self.db.connection.execute(sql, values).lastrowid
        assert made is not None
        return made


def _refuse(sentence: str) -> NoReturn:
    raise ConfigError.of("channel", sentence)
