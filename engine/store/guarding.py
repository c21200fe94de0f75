"""What stands before every command of the store: the rule for whoever gives it, and the audit log's row about it, in
the command's own transaction.

A method that people can give is decorated with `command`; a test holds that none is without.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from engine.access.rules import COMMANDS, LOST, PersonStanding, Program
from engine.errors import Forbidden, StoreError
from engine.home import Home
from engine.store.accounts import is_marked, mark
from engine.store.clock import now
from engine.store.connection import Connected, Writing

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
"""How the owners of a command's targets are found, by what kind they are; what is not there has none, and the command
itself says so.
"""
DETAIL_LENGTH = 500
_SILENT = frozenset(
    {
        "self",
        "config",
        "runs",
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
"""Arguments that the audit log does not repeat: long ones, which stand elsewhere, and secrets."""


class Standings(Connected):
    """The question who somebody is to this lab."""

    def standing(self, name: str) -> PersonStanding:
        """Return what a person may do at this moment; in a lab without accounts that is everything, as it is for a part
        of Parallab.
        """
        if isinstance(name, Program):
            return PersonStanding(name, "admin", open=True)
        if not self.has_people():
            return (
                PersonStanding(name, None, lost=True)
                if is_marked(self.home)
                else PersonStanding(name, "admin", open=True)
            )
        row = self.row("SELECT name, role FROM people WHERE name = ? AND disabled_at IS NULL", [name])
        return PersonStanding(name, row["role"] if row and row["name"] == name else None)

    def has_people(self) -> bool:
        """Say whether the lab has accounts, so that rules hold and the console asks for a sign-in."""
        return self.row("SELECT 1 FROM people LIMIT 1") is not None

    def require_accounts(self) -> None:
        """Raise StoreError where the lab has accounts and this store holds none: it was emptied, deleted or
        replaced.
        """
        if not self.has_people() and is_marked(self.home):
            raise StoreError(LOST)


class Guarded(Standings, Writing):
    """A writer that knows who may do what."""

    @classmethod
    def open(cls, home: Home, timeout_s: float = 30.0) -> Self:
        """Open the store, made and brought up to date where needed, and mark the lab where it came with accounts;
        raises StoreError and its kinds.
        """
        opened = super().open(home, timeout_s)
        try:
            if not is_marked(home) and opened.has_people():
                mark(home)
        except BaseException:
            opened.close()
            raise
        return opened

    def permit(self, name: str, *, by: str, detail: str = "") -> None:
        """Let a command pass that is carried out elsewhere than in this store's tables, and keep that in the audit log;
        raises Forbidden.
        """
        try:
            with self.change():
                role = self._check(name, by, "", [])
                self._audit(name, by, role, "", [], detail)
        except Forbidden as error:
            self._refuse(name, by, "", [], detail, str(error))
            raise

    def _check(self, name: str, by: str, kind: str, targets: Sequence[object]) -> str:
        """Return as what somebody gives a command, in the audit log's words; raises Forbidden."""
        owners = (
            list(dict.fromkeys(str(row[0]) for row in self.rows(_OWNERS[kind], [_written(targets)]))) if kind else []
        )
        standing = self.standing(by)
        if refusal := standing.refusal(name, what(kind, targets), owners):
            raise Forbidden(refusal)
        return _as(standing)

    def _audit(
        self, name: str, by: str, role: str, kind: str, targets: Sequence[object], detail: str, refused: str = ""
    ) -> None:
        self.connection.execute(
            (
                "INSERT INTO audit (at, who, role, command, kind, targets, detail, refused) VALUES (?, ?, ?, ?, ?, "
                "?, ?, ?)"
            ),
            [now(), str(by), role, name, kind, _written(targets), storable(detail[:DETAIL_LENGTH]), storable(refused)],
        )

    def _refuse(self, name: str, by: str, kind: str, targets: Sequence[object], detail: str, refused: str) -> None:
        """Keep that a command was refused; what it had begun is gone by now."""
        with self.change():
            self._audit(name, by, _as(self.standing(by)), kind, targets, detail, refused)


G = TypeVar("G", bound=Guarded)
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
"""Commands whose answer is the ids of what they made. A new token is none: its answer is a secret."""


def command(
    name: Name, of: str = "", targets: Targets | None = None
) -> Callable[[Callable[Concatenate[G, P], T]], Callable[Concatenate[G, P], T]]:
    """Make a method of the store a command: who it is `by` (or its `owner`) has to be allowed, and the audit log keeps
    it, done or refused.

    `of` is the kind of what it is done to (run, sweep, view, person …): its first argument, one id or several, or what
    `targets` makes of the store and all arguments. None where it makes something new. A name that depends on the
    arguments is a function of them. Rule, change and log are one transaction.
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
            try:
                with self.change():
                    meant = targets(self, given) if targets else _several(given[first]) if of else []
                    role = self._check(called, by, of if meant else "", meant)
                    done = method(self, *args, **kwargs)
                    made = _several(done) if called in _MAKING else []
                    told = ", ".join(
                        part for part in (detail, f"made={' '.join(map(str, made))}" if made and meant else "") if part
                    )
                    self._audit(called, by, role, of or called.split()[-1], meant or made, told)
                    return done
            except Forbidden as error:
                self._refuse(called, by, of, meant, detail, str(error))
                raise

        guarded.command_name = name  # type: ignore[attr-defined]
        return guarded

    return decorate


def _as(standing: PersonStanding) -> str:
    return "program" if isinstance(standing.name, Program) else "anyone" if standing.open else standing.role or "nobody"


def what(kind: str, targets: Sequence[object]) -> str:
    """Return the targets of a command in words, such as 'Run 12' or 'One of 3 runs'."""
    if not kind or not targets:
        return ""
    return f"{kind.capitalize()} {targets[0]}" if len(targets) == 1 else f"One of these {len(targets)} {kind}s"


def _several(value: object) -> list[object]:
    """Return an id, or several, as a list; of a table of new ids by old ones the new ones."""
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
    """Return the text with what UTF-8 can't write (half characters out of file names and broken output) replaced."""
    return text.encode("utf-8", "backslashreplace").decode()
