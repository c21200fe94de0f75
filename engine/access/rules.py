"""The permission table. The store checks it in the transaction of each command, so pages, command line and API follow
the same rules.

The rules apply once the lab has an account; before, everyone who reaches the console, on loopback only, may do
everything.
"""

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from engine.errors import with_article
from engine.home import ROOT

Role = Literal["viewer", "member", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""In ascending order; each includes the permissions of those before."""

ROLE_WORDS: dict[Role, str] = {
    "viewer": "reads, compares and exports",
    "member": "everything that a viewer does, and launches, stops, retries and edits their own runs",
    "admin": "everything, for everyone: runs, retention, quotas and accounts",
}


Permission = Literal["run commands"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
"""What an admin grants to single people, members by role; admins have it. Nobody else gets it by a role."""


class Program(str):
    """Name of a part of Parallab that acts on its own, as shown in events; exempt from the rules. Names from outside
    are plain str.
    """

    __slots__ = ()


@dataclass(frozen=True)
class CommandRule:
    """Permission rule of one command."""

    own: Role
    """Minimum role for one's own things, or for things without an owner."""
    words: str
    """The action, as it follows 'can'."""


OTHERS: Role = "admin"
"""Minimum role for things of others."""
COMMANDS: dict[str, CommandRule] = {
    "launch": CommandRule("member", "launch runs"),
    "run commands": CommandRule("admin", "run commands of their own, with the rights of the runner's user"),
    "record": CommandRule("member", "record runs of programs that Parallab did not start"),
    "report": CommandRule("member", "report to a run of such a program"),
    "keep file": CommandRule("member", "keep a file of a run"),
    "remove file": CommandRule("member", "remove a file of a run"),
    "use file": CommandRule("member", "record which files a run used"),
    "retry": CommandRule("member", "retry or resume a run"),
    "cancel": CommandRule("member", "cancel a run"),
    "trace": CommandRule("member", "store more operations of a run"),
    "hold": CommandRule("member", "put a run on hold"),
    "release": CommandRule("member", "release a run"),
    "yield": CommandRule("member", "move a run to the back of the queue"),
    "prefer": CommandRule("admin", "move a run to the front of the queue"),
    "tag": CommandRule("member", "tag a run"),
    "untag": CommandRule("member", "remove a tag from a run"),
    "note": CommandRule("member", "edit a run's note"),
    "rename": CommandRule("member", "rename a run"),
    "star": CommandRule("member", "star a run"),
    "unstar": CommandRule("member", "unstar a run"),
    "archive": CommandRule("member", "archive a run"),
    "unarchive": CommandRule("member", "unarchive a run"),
    "pin": CommandRule("member", "make a run its experiment's baseline"),
    "unpin": CommandRule("member", "remove a run as baseline"),
    "launch sweep": CommandRule("member", "launch sweeps"),
    "extend sweep": CommandRule("member", "extend a sweep"),
    "pause sweep": CommandRule("member", "pause a sweep"),
    "go on with sweep": CommandRule("member", "resume a sweep"),
    "retry sweep": CommandRule("member", "retry runs of a sweep"),
    "cancel sweep": CommandRule("member", "cancel a sweep"),
    "save recipe": CommandRule("member", "save a recipe"),
    "rank by": CommandRule("member", "choose the metric that ranks the runs of a run's script"),
    "set metric": CommandRule("member", "set how a metric of a run's script is shown"),
    "hide recipe": CommandRule("member", "hide a recipe, or show it again"),
    "launch duel": CommandRule("member", "launch duels"),
    "predict": CommandRule("member", "work on exercises"),
    "hand in": CommandRule("member", "hand in an exercise"),
    "open exercise": CommandRule("admin", "open an exercise for a class"),
    "close exercise": CommandRule("admin", "close an exercise"),
    "end class": CommandRule("admin", "end a class"),
    "save view": CommandRule("member", "save views"),
    "rename view": CommandRule("member", "rename a view"),
    "delete view": CommandRule("member", "delete a view"),
    "import": CommandRule("member", "import runs"),
    "clean up": CommandRule("admin", "clean up leftovers"),
    "collect": CommandRule("admin", "thin and delete old runs"),
    "delete": CommandRule("admin", "delete runs"),
    "back up": CommandRule("admin", "back up the store"),
    "restore": CommandRule("admin", "restore the store"),
    "mend": CommandRule("admin", "repair the store"),
    "stop runner": CommandRule("admin", "stop the runner"),
    "start runner": CommandRule("admin", "start the runner"),
    "set limits": CommandRule("admin", "set limits"),
    "approve experiment": CommandRule("admin", "approve the code of an experiment of the lab's own"),
    "extend catalogue": CommandRule("admin", "extend the catalogue of environments and data sets"),
    "add person": CommandRule("admin", "create accounts"),
    "set role": CommandRule("admin", "change roles"),
    "set email": CommandRule("admin", "change e-mail addresses of accounts"),
    "allow": CommandRule("admin", "grant a person the permission to run commands"),
    "forbid": CommandRule("admin", "revoke a person's permission to run commands"),
    "disable": CommandRule("admin", "disable accounts"),
    "enable": CommandRule("admin", "enable accounts"),
    "unlink": CommandRule("admin", "unlink accounts from their OpenID provider"),
    "set password": CommandRule("viewer", "set a password"),
    "end sign-ins": CommandRule("viewer", "end sessions"),
    "make token": CommandRule("viewer", "create tokens"),
    "revoke token": CommandRule("viewer", "revoke a token"),
    "add subscription": CommandRule("member", "subscribe to a notification channel"),
    "set subscription": CommandRule("member", "change a subscription"),
    "test subscription": CommandRule("member", "send a test message"),
    "pause subscription": CommandRule("viewer", "pause a subscription"),
    "delete subscription": CommandRule("viewer", "delete a subscription"),
}
"""Every command by name. The store refuses to load with a command that is missing here."""

LOST = (
    "Account database missing: access denied. This lab has accounts, but its store holds none. Restore a "
    "backup (python -m engine restore FILE),"
    " or create an admin (python -m engine users add NAME --role admin)."
)
RECOVERY = frozenset({"add person", "restore", "stop runner", "cancel"})
"""Commands that a lab with a missing account database still accepts, from its command line only."""


@dataclass(frozen=True)
class PersonStanding:
    """A person's current role in this lab."""

    name: str
    role: Role | None
    """None without an account, or for a disabled one."""
    open: bool = False
    """Whether the lab has no accounts, so that everyone may do everything."""
    lost: bool = False
    """Whether the lab has accounts, but its store holds none: only the commands in RECOVERY are allowed."""
    granted: Collection[str] = ()
    """Permissions that an admin has granted to this person; they have no effect for a viewer."""

    def may(self, command: str, owners: Collection[str] = ()) -> bool:
        """Return whether this person may apply a command to things of `owners`, or without any to things without an
        owner. Raises KeyError for an unknown command.
        """
        rule = COMMANDS[command]
        if self.open or self.lost:
            return self.open or command in RECOVERY
        if command in self.granted and self.role == "member":
            return True
        needed = rule.own if all(owner == self.name for owner in owners) else OTHERS
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(needed)

    def refusal(self, command: str, what: str = "", owners: Collection[str] = ()) -> str:
        """Return why this person may not, and who may; empty if allowed. `what` names the thing, such as 'Run 12'."""
        if self.may(command, owners):
            return ""
        rule = COMMANDS[command]
        if self.lost:
            return LOST
        if self.role is None:
            who = self.name or "A user without a name"
            return (
                f"{who} has no active account in this lab and can't {rule.words}. Ask an admin, or give the name of "
                "your account to the command with --owner."
            )
        other = next((owner for owner in owners if owner != self.name), None)
        if other is not None and ROLES.index(self.role) >= ROLES.index(rule.own):
            whose = f"{what} is {other}'s" if what else f"This is {other}'s"
            return f"{whose}; {self.role}s can {rule.words} only of their own. Ask {other} or an admin."
        if command in PERMISSIONS and self.role == "member":
            return (
                f"Only admins, and members with this permission, can {rule.words}. An admin of this lab can grant it "
                f"to {self.name}, on the page People or by: {allowing(self.name, command)}"
            )
        needed = rule.own if other is None else OTHERS
        enough = " and ".join(f"{role}s" for role in ROLES[ROLES.index(needed) :])
        return f"Only {enough} can {rule.words}; {self.name} is {with_article(self.role)}. Ask an admin of this lab."


def allowing(name: str, permission: str) -> str:
    """Return the command by which an admin grants a permission."""
    return f"python -m engine users allow {shlex.quote(name)} {shlex.quote(permission)} --owner ADMIN"


# ------------------------------------------------------------------------------------------------------------------
# The rules of `rules.py` as a table for pages and docs: what each role may do to its own and to other things.

Reach = Literal["everyone's", "their own", "yes", "if granted", ""]
"""Reach of a command: on everyone's things, on one's own, allowed without an owner, allowed to people whom an admin
grants it, or not allowed.
"""
OF_NOBODY = frozenset(
    {
        "launch",
        "run commands",
        "record",
        "launch sweep",
        "launch duel",
        *("predict", "hand in", "open exercise", "close exercise", "end class"),
        "save view",
        "import",
        "clean up",
        "collect",
        "back up",
        "restore",
        "mend",
        "stop runner",
        "start runner",
        "set limits",
        "add person",
    }
)
"""Commands without an owner: they create something, or act on the whole lab."""


@dataclass(frozen=True)
class Ability:
    """One command and its reach for each role."""

    command: str
    words: str
    """The action, as it follows 'can'."""
    reach: dict[Role, Reach]


def abilities() -> list[Ability]:
    """Return every command in the table's order."""
    return [
        Ability(name, rule.words, {role: reach(name, rule, role) for role in ROLES}) for name, rule in COMMANDS.items()
    ]


def reach(command: str, rule: CommandRule, role: Role) -> Reach:
    """Return the reach of a command for a role."""
    rank = ROLES.index(role)
    if rank < ROLES.index(rule.own):
        return "if granted" if command in PERMISSIONS and role == "member" else ""
    if command in OF_NOBODY:
        return "yes"
    return "everyone's" if rank >= ROLES.index(OTHERS) else "their own"


# ---- Generate the table of roles in docs/people.md -----------------------------------------------------------------
# run `python -m engine.access.rules` after each change of the rules.

PAGE = ROOT / "docs" / "people.md"
BEGIN, END = "<!-- the rules begin -->", "<!-- the rules end -->"


def written(text: str) -> str:
    """Return the page's text with an updated table; raises ValueError if the marks round the table are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no '{BEGIN}' … '{END}' for its table.")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def table() -> str:
    """Return the rules as a Markdown table, one row per command."""
    head = [f"| command | permission to | {' | '.join(ROLES)} |", f"|---|---|{'---|' * len(ROLES)}"]
    return "\n".join(
        [
            *head,
            *(
                f"| {each.command} | {each.words} | {' | '.join(each.reach[role] or '–' for role in ROLES)} |"
                for each in abilities()
            ),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
