"""Authorization and audit log: check the rule for every command of the store, and write its audit row in the command's
transaction.

Methods that people can call are decorated with `command`; a test verifies that none is missing.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from engine.access.rules import COMMANDS, PersonStanding, Program
from engine.errors import Forbidden
from engine.store.access.standing import AccessReader
from engine.store.connection import WriteConnection
from engine.store.timestamps import now

_OWNERS = {
    "run": "SELECT owner FROM runs WHERE id IN (SELECT value FROM json_each(?))",
    "sweep": "SELECT owner FROM sweeps WHERE id IN (SELECT value FROM json_each(?))",
    "duel": "SELECT owner FROM duels WHERE id IN (SELECT value FROM json_each(?))",
    "view": "SELECT owner FROM views WHERE id IN (SELECT value FROM json_each(?))",
    "channel": "SELECT owner FROM channels WHERE id IN (SELECT value FROM json_each(?))",
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
        "config",
        "runs",
        "people",
        "plan",
        "grid",
        "before",
        "demand",
        "terms",
        "text",
        "password",
        "address",
        "but_key",
        "query",
        "resumes",
        "once",
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
                found = self.db.rows("SELECT name, role FROM people WHERE disabled_at IS NULL ORDER BY id")
                error.may = tuple(
                    row["name"] for row in found if PersonStanding(row["name"], row["role"]).may(name, owners)
                )
            raise error
        return _as(standing)

    def audit(
        self, name: str, by: str, role: str, kind: str, targets: Sequence[object], detail: str, refused: str = ""
    ) -> None:
        """Add an audit row for a command, done or refused."""
        self.db.connection.execute(
            (
                "INSERT INTO audit (at, who, role, command, kind, targets, detail, refused) VALUES (?, ?, ?, ?, ?, "
                "?, ?, ?)"
            ),
            [now(), str(by), role, name, kind, _written(targets), storable(detail[:DETAIL_LENGTH]), storable(refused)],
        )

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

    def permit(self, name: str, *, by: str, detail: str = "") -> None:
        """Authorize a command that acts outside this store's tables, and record it in the audit log; raises
        Forbidden.
        """
        authorization = Authorization(self.db)
        try:
            with self.db.change():
                role = authorization.check(name, by, "", [])
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
    "launch",
    "retry",
    "launch sweep",
    "launch duel",
    "extend sweep",
    "retry sweep",
    "save view",
    "add person",
    "add channel",
)
"""Commands that return the ids of new objects. A new token is excluded: its result is a secret."""


def command(
    name: Name, of: str = "", targets: Targets | None = None
) -> Callable[[Callable[Concatenate[G, P], T]], Callable[Concatenate[G, P], T]]:
    """Turn a method of the store into a command: check that the person in `by` (or `owner`) is permitted, and record it
    in the audit log, done or refused.

    `of` is the kind of its targets (run, sweep, view, person …): its first argument, one id or several, or the result
    of `targets` for the store and all arguments. Without targets the command creates something. A `name` that depends
    on the arguments is a function of them. Check, change and audit row are one transaction.
    """
    if isinstance(name, str) and name not in COMMANDS:
        raise KeyError(f"The command '{name}' has no rule in engine/access/rules.py.")

    def decorate(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
        shape = signature(method)
        actor = "by" if "by" in shape.parameters else "owner"
        first = list(shape.parameters)[1]

        @wraps(method)
        def guarded(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
            given = shape.bind(self, *args, **kwargs).arguments
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
                        part for part in (detail, f"made={' '.join(map(str, made))}" if made and meant else "") if part
                    )
                    authorization.audit(called, by, role, of or called.split()[-1], meant or made, told)
                    return done
            except Forbidden as error:
                authorization.refuse(called, by, of, meant, detail, str(error))
                raise

        guarded.command_name = name  # type: ignore[attr-defined]
        return guarded

    return decorate


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
