"""The one table of who may do what. The store asks it inside the transaction of each command, so pages, command line
and API obey the same rules.

Rules hold as soon as the lab has one person with an account; before that everyone who reaches the console, which is on
loopback alone, may do everything.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "member", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most; each may do all that those before it may."""

ROLE_WORDS: dict[Role, str] = {
    "viewer": "reads, compares and exports",
    "member": "also launches, and stops, retries and edits their own runs",
    "admin": "everything, of everyone: runs, retention, limits and people",
}


class Program(str):
    """A part of Parallab that acts on its own, by the name that events show; rules ask nothing of it. What comes from
    outside is a plain str.
    """

    __slots__ = ()


@dataclass(frozen=True)
class CommandRule:
    """What one command asks for."""

    own: Role
    """The least role that may do it to what is its own, or to nobody's."""
    others: Role
    """The least role that may do it to what is somebody else's."""
    words: str
    """What it does, behind 'may'."""


def _for(own: Role, words: str, others: Role = "admin") -> CommandRule:
    return CommandRule(own, max(own, others, key=ROLES.index), words)


COMMANDS: dict[str, CommandRule] = {
    "launch": _for("member", "launch runs"),
    "retry": _for("member", "retry or resume a run"),
    "cancel": _for("member", "cancel a run"),
    "hold": _for("member", "hold a run back"),
    "release": _for("member", "release a run"),
    "yield": _for("member", "put a run behind others"),
    "prefer": _for("admin", "let a run pass others"),
    "tag": _for("member", "tag a run"),
    "untag": _for("member", "take a tag off a run"),
    "note": _for("member", "write a run's note"),
    "rename": _for("member", "rename a run"),
    "star": _for("member", "star a run"),
    "unstar": _for("member", "take the star off a run"),
    "archive": _for("member", "archive a run"),
    "unarchive": _for("member", "bring a run back from the archive"),
    "pin": _for("member", "make a run its experiment's baseline"),
    "unpin": _for("member", "let a run be no baseline"),
    "launch sweep": _for("member", "launch sweeps"),
    "extend sweep": _for("member", "extend a sweep"),
    "pause sweep": _for("member", "pause a sweep"),
    "go on with sweep": _for("member", "let a sweep go on"),
    "retry sweep": _for("member", "retry runs of a sweep"),
    "cancel sweep": _for("member", "cancel a sweep"),
    "launch duel": _for("member", "launch duels"),
    "save view": _for("member", "save views"),
    "rename view": _for("member", "rename a view"),
    "delete view": _for("member", "delete a view"),
    "import": _for("member", "import runs"),
    "clean up": _for("admin", "clean up leftovers"),
    "collect": _for("admin", "thin and delete old runs"),
    "back up": _for("admin", "back up the store"),
    "restore": _for("admin", "restore the store"),
    "mend": _for("admin", "mend the store"),
    "stop runner": _for("admin", "stop the runner"),
    "set limits": _for("admin", "set limits"),
    "extend catalogue": _for("admin", "extend the catalogue of environments and data sets"),
    "add person": _for("admin", "add people"),
    "set role": _for("admin", "give roles"),
    "shut out": _for("admin", "shut people out"),
    "let in": _for("admin", "let people in again"),
    "unlink": _for("admin", "unlink people from their OpenID provider"),
    "set password": _for("viewer", "set a password"),
    "end sign-ins": _for("viewer", "end sign-ins"),
    "make token": _for("viewer", "make tokens"),
    "revoke token": _for("viewer", "revoke a token"),
    "add channel": _for("member", "be told of what has ended"),
    "set channel": _for("member", "change a channel"),
    "test channel": _for("member", "send a test message"),
    "pause channel": _for("viewer", "pause a channel"),
    "delete channel": _for("viewer", "delete a channel"),
    "set receivers": _for("admin", "say whom messages may go to"),
    "check mail": _for("admin", "try the mail server"),
}
"""Every command by name. A command that is not here can't be given: the store refuses to load."""

LOST = (
    "Account database missing: access denied. This lab has accounts, but its store holds none. Restore a "
    "backup (python -m engine restore FILE),"
    " or create an admin (python -m engine users add NAME --role admin)."
)
RECOVERY = frozenset({"add person", "restore", "stop runner", "cancel"})
"""Commands that a lab without its accounts still takes, all of them from its own command line: the gate lets nobody in.
"""


@dataclass(frozen=True)
class PersonStanding:
    """What a person is to this lab at this moment."""

    name: str
    role: Role | None
    """None for someone who has no account, or is shut out."""
    open: bool = False
    """Whether the lab has no accounts at all, so that everyone may do everything."""
    lost: bool = False
    """Whether the lab has accounts and its store holds none: only the commands of RECOVERY pass."""

    def may(self, command: str, owners: Collection[str] = ()) -> bool:
        """Say whether this person may give a command to what belongs to `owners`; to nobody's where there are none.
        Raises KeyError for no command.
        """
        rule = COMMANDS[command]
        if self.open or self.lost:
            return self.open or command in RECOVERY
        needed = rule.own if all(owner == self.name for owner in owners) else rule.others
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(needed)

    def refusal(self, command: str, what: str = "", owners: Collection[str] = ()) -> str:
        """Return why this person may not, and who may; empty where they may. `what` names the thing, such
        as 'Run 12'.
        """
        if self.may(command, owners):
            return ""
        rule = COMMANDS[command]
        if self.lost:
            return LOST
        if self.role is None:
            who = self.name or "Someone without a name"
            return (
                f"{who} has no account in this lab, or is shut out, so may not {rule.words}. An admin can change "
                "that; a command takes your name by --owner."
            )
        stranger = next((owner for owner in owners if owner != self.name), None)
        if stranger is not None and ROLES.index(self.role) >= ROLES.index(rule.own):
            whose = f"{what} is {stranger}'s" if what else f"This is {stranger}'s"
            return (
                f"{whose}, and a {self.role} may {rule.words} only where it is their own. Ask {stranger} or an admin."
            )
        needed = rule.own if stranger is None else rule.others
        article = "an" if self.role[0] in "aeiou" else "a"
        return (
            f"{self.name} is {article} {self.role}, and to {rule.words} takes {'an' if needed == 'admin' else 'a'} "
            f"{needed}. Ask an admin of this lab."
        )
