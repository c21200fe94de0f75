"""Authorization and audit log: check the rule for every command of the store, and write its audit row in the command's
transaction.

Methods that people can call are decorated with `command`; a test verifies that none is missing.
"""

import json
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from engine.access import command_link
from engine.access.agents import acting_agent
from engine.access.rules import COMMANDS, LOST, Permission, PersonStanding, Program, Role
from engine.errors import Forbidden, StoreError
from engine.home import Home
from engine.script.command import Command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.launches import Launch, SweepLaunch
from engine.store.timestamps import now

_OWNERS = {
    "run": "SELECT owner FROM runs WHERE id IN (SELECT value FROM json_each(?))",
    "sweep": "SELECT owner FROM sweeps WHERE id IN (SELECT value FROM json_each(?))",
    "duel": "SELECT owner FROM duels WHERE id IN (SELECT value FROM json_each(?))",
    "recipe": "SELECT created_by FROM recipes WHERE name IN (SELECT value FROM json_each(?))",
    "view": "SELECT owner FROM views WHERE id IN (SELECT value FROM json_each(?))",
    "subscription": "SELECT owner FROM subscriptions WHERE id IN (SELECT value FROM json_each(?))",
    "token": (
        "SELECT people.name FROM tokens JOIN people ON people.id = person_id WHERE tokens.id IN (SELECT value FROM "
        "json_each(?))"
    ),
    "person": "SELECT coalesce((SELECT name FROM people WHERE name = value), value) FROM json_each(?)",
}
"""Queries for the owners of a command's targets, by kind; missing targets have none, and the command reports them."""
DETAIL_LENGTH = 500
_SILENT = frozenset(
    {
        "self",
        *("config", "runs", "people", "plan", "grid", "before", "demand", "terms", "text", "password", "address"),
        *("but_key", "query", "resumes", "once", "seeds", "equal_work", "attempt"),
    }
)
"""Arguments omitted from the audit log: long ones, which are stored elsewhere, and secrets."""


class Authorization:
    """Permission checks of commands, and their audit rows."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._access = AccessReader(db)

    def check(self, name: str, by: str, kind: str, targets: Sequence[object]) -> str:
        """Return the caller's role in the audit log's terms; raises Forbidden."""
        owners = (
            list(dict.fromkeys(str(row[0]) for row in self.db.rows(_OWNERS[kind], [_written(targets)]))) if kind else []
        )
        standing = self._access.standing(by)
        if refusal := standing.refusal(name, what(kind, targets), owners):
            error = Forbidden(refusal)
            if standing.role is None and not standing.lost:
                found = self.db.rows(f"{_STANDING} WHERE disabled_at IS NULL ORDER BY id")
                error.may = tuple(row["name"] for row in found if _standing(row).may(name, owners))
            raise error
        is_anyone = standing.open and not isinstance(by, Program)
        if name == "run commands" and is_anyone and (refusal := command_link.why_not()):
            raise Forbidden(refusal)
        return _as(standing)

    def audit(
        self, name: str, by: str, role: str, kind: str, targets: Sequence[object], detail: str, refused: str = ""
    ) -> None:
        """Add an audit row for a command, done or refused; the role says that an agent gave it."""
        role = f"{role} {agent.words}" if (agent := acting_agent()) else role
        what_by = {"at": now(), "who": str(by), "role": role, "command": name, "kind": kind}
        told = {"detail": storable(detail[:DETAIL_LENGTH]), "refused": storable(refused)}
        self.db.insert("audit", {**what_by, "targets": _written(targets), **told})

    def refuse(self, name: str, by: str, kind: str, targets: Sequence[object], detail: str, refused: str) -> None:
        """Record a refused command, after its changes were rolled back, and again if an outer change is, too."""

        def record() -> None:
            with self.db.change():
                self.audit(name, by, self.role_of(by), kind, targets, detail, refused)

        with self.db.change():
            record()
            self.db.after_rollback(record)

    def role_of(self, by: str) -> str:
        """Return a person's role in the audit log's terms."""
        return _as(self._access.standing(by))


class AccessCommands:
    """Authorization of commands that act outside the store's tables."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db

    def permit(self, name: str, *, by: str, detail: str = "", is_recorded: bool = True) -> None:
        """Authorize a command that acts outside this store's tables, and record it in the audit log, unless it does so
        itself with its targets; raises Forbidden, and records that.
        """
        authorization = Authorization(self.db)
        try:
            with self.db.change():
                role = authorization.check(name, by, "", [])
                if is_recorded:
                    authorization.audit(name, by, role, "", [], detail)
        except Forbidden as error:
            authorization.refuse(name, by, "", [], detail, str(error))
            raise


class WritePart(Protocol):
    """A part of the store that writes."""

    db: WriteConnection


G = TypeVar("G", bound=WritePart)
P = ParamSpec("P")
T = TypeVar("T")
Name = str | Callable[[Mapping[str, Any]], str]
Targets = Callable[[Any, Mapping[str, Any]], Sequence[object]]
_MAKING = (
    *("launch", "retry", "launch sweep", "launch duel", "extend sweep", "retry sweep"),
    *("record", "save view", "add person", "add subscription"),
)
"""Commands that return the ids of new objects. A new token is excluded: its result is a secret."""


def command(
    name: Name,
    of: str = "",
    targets: Targets | None = None,
    is_recorded: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> Callable[[Callable[Concatenate[G, P], T]], Callable[Concatenate[G, P], T]]:
    """Turn a method of the store into a command: check that the person in `by` (or `owner`) is permitted, and record it
    in the audit log, done or refused.

    `of` is the kind of its targets (run, sweep, view, person …): its first argument, one id or several, or the result
    of `targets` for the store and all arguments. Without targets the command creates something. A `name` that depends
    on the arguments is a function of them. Check, change and audit row are one transaction. Of a command that comes
    many times a second, `is_recorded` says by its arguments whether it gets an audit row when it is done.
    """
    if isinstance(name, str) and name not in COMMANDS:
        raise KeyError(f"The command '{name}' has no rule in engine/access/rules.py.")

    def decorate(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
        shape = signature(method)
        actor = "by" if "by" in shape.parameters else "owner"
        first = list(shape.parameters)[1]

        @wraps(method)
        def guarded(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
            given = _spread(shape.bind(self, *args, **kwargs).arguments)
            by, called = given[actor], name if isinstance(name, str) else name(given)
            detail = _detail(
                {key: value for key, value in given.items() if key not in (actor, first if of and not targets else "")}
            )
            meant: Sequence[object] = []
            authorization = Authorization(self.db)
            try:
                with self.db.change():
                    meant = targets(self, given) if targets else _several(given[first]) if of else []
                    role = authorization.check(called, by, of if meant else "", meant)
                    done = method(self, *args, **kwargs)
                    made = _several(done) if called in _MAKING else []
                    told = ", ".join(
                        filter(None, (detail, f"made={' '.join(map(str, made))}" if made and meant else ""))
                    )
                    if is_recorded(given):
                        authorization.audit(called, by, role, of or called.split()[-1], meant or made, told)
                    return done
            except Forbidden as error:
                authorization.refuse(called, by, of, meant, detail, str(error))
                raise

        guarded.command_name = name  # type: ignore[attr-defined]
        return guarded

    return decorate


_STANDING = "SELECT name, role, runs_commands FROM people"


def granted(row: Row) -> tuple[Permission, ...]:
    """Return the permissions granted to a person, from a row of people."""
    return ("run commands",) if row["runs_commands"] else ()


def _standing(row: Row) -> PersonStanding:
    role = within_agents(row["role"]) if acting_agent() else row["role"]
    return PersonStanding(row["name"], role, granted=granted(row))


def within_agents(role: Role) -> Role:
    """Return the role that an agent of a person of this role acts with: at most a member's."""
    return "member" if role == "admin" else role


def _spread(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command, with the fields of a launch as arguments of their own."""
    told: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Launch | SweepLaunch):
            told |= _spread(vars(value))
        else:
            told[name] = shlex.join(value.argv) if isinstance(value, Command) else value
    return told


def _as(standing: PersonStanding) -> str:
    return "program" if isinstance(standing.name, Program) else "anyone" if standing.open else standing.role or "nobody"


def what(kind: str, targets: Sequence[object]) -> str:
    """Return the targets of a command as text, such as 'Run 12' or 'One of these 3 runs'."""
    if not kind or not targets:
        return ""
    return f"{kind.capitalize()} {targets[0]}" if len(targets) == 1 else f"One of these {len(targets)} {kind}s"


def _several(value: object) -> list[object]:
    """Return one or several ids as a list; for a mapping of old to new ids, the new ones."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, Collection) and not isinstance(value, str):
        return list(value)
    return [value]


def _detail(given: Mapping[str, Any]) -> str:
    """Return the short arguments of a command as `name=value`."""
    told = {
        key: value
        for key, value in given.items()
        if key not in _SILENT and isinstance(value, str | int | float | bool) and value != ""
    }
    return ", ".join(f"{key}={value}" for key, value in told.items())


def _written(targets: Sequence[object]) -> str:
    return json.dumps([storable(each) if isinstance(each, str) else each for each in targets])


def storable(text: str) -> str:
    """Return the text with characters that UTF-8 can't encode (lone surrogates from file names and broken output)
    replaced.
    """
    return text.encode("utf-8", "backslashreplace").decode()


# ---- A person's standing in this lab: admin, member, viewer, a part of Parallab, or nobody -------------------------


class AccessReader:
    """Queries of permissions, and of whether this lab has accounts."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def standing(self, name: str) -> PersonStanding:
        """Return a person's current standing; in a lab without accounts, and for parts of Parallab, everything is
        permitted.
        """
        if isinstance(name, Program):
            return PersonStanding(name, "admin", open=True)
        if not self.has_people():
            return (
                PersonStanding(name, None, lost=True)
                if is_marked(self.db.home)
                else PersonStanding(name, "admin", open=True)
            )
        row = self.db.row(f"{_STANDING} WHERE name = ? AND disabled_at IS NULL", [name])
        return _standing(row) if row and row["name"] == name else PersonStanding(name, None)

    def has_people(self) -> bool:
        """Return whether the lab has accounts, so that rules apply and the console requires a sign-in."""
        return self.db.exists("SELECT 1 FROM people LIMIT 1")

    def require_accounts(self) -> None:
        """Raise StoreError if the lab has accounts but this store has none: it was emptied, deleted or replaced."""
        if not self.has_people() and is_marked(self.db.home):
            raise StoreError(LOST)


# ---- The marker file of a lab with accounts: an emptied, lost or replaced store never opens the lab again ----------
# It is written before the first account is committed, so a crash between the two leaves the lab closed, not open.

_ABOUT = (
    "This lab has accounts. While this file exists, a store without accounts is refused. Delete it only to open "
    "the lab to everyone on this machine.\n"
)


def is_marked(home: Home) -> bool:
    """Return whether the home belongs to a lab with accounts."""
    return os.path.lexists(home.accounts)


def mark(home: Home) -> None:
    """Write the marker file and wait until it is on disk; raises StoreError."""
    try:
        with os.fdopen(os.open(home.accounts, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_ABOUT)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(home.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(
            f"{home.accounts} can't be written: {error.strerror}. Check the owner of {home.path} and the free disk "
            "space."
        ) from error


# ---- Queries of the audit log: every command, done or refused, with person, time and target ------------------------

_RENAMED = {
    "shut out": "disable",
    "let in": "enable",
    "add channel": "add subscription",
    "set channel": "set subscription",
    "test channel": "test subscription",
    "pause channel": "pause subscription",
    "delete channel": "delete subscription",
}
"""Commands that rows of earlier versions name otherwise, with their present names."""


@dataclass(frozen=True)
class Entry:
    """One command in the audit log."""

    id: int
    at: str
    who: str
    role: str
    """Role at that time: a role, anyone (in a lab without accounts), program, or nobody; behind it `via agent` and its
    name, if an agent gave the command.
    """
    command: str
    kind: str
    targets: tuple[int | str, ...]
    detail: str
    refused: str
    """Reason of the refusal; empty if the command was done."""


class AuditReader:
    """Queries of the audit log."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def entries(
        self,
        *,
        who: str | None = None,
        command: str | None = None,
        since: str = "",
        refused: bool = False,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Entry]:
        """Return entries, newest first, optionally of one person, of one command, since a time, only refused ones, or
        before an id.
        """
        sql = (
            "SELECT * FROM audit WHERE (?1 IS NULL OR who = coalesce((SELECT name FROM people WHERE name = ?1), ?1)) "
            "AND (?2 IS NULL OR command IN (?2, ?7)) AND at >= ?3 "
            "AND (NOT ?4 OR refused <> '')"
            " AND (?5 IS NULL OR id < ?5) ORDER BY id DESC LIMIT ?6"
        )
        command = _RENAMED.get(command or "", command)
        earlier = next((old for old, new in _RENAMED.items() if new == command), None)
        return [
            Entry(
                **{
                    **dict(row),
                    "command": _RENAMED.get(row["command"], row["command"]),
                    "targets": tuple(json.loads(row["targets"])),
                }
            )
            for row in self.db.rows(sql, [who, command, since, refused, before, limit, earlier])
        ]
