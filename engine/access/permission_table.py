"""The rules of `rules.py` as a table for pages and docs: what each role may do to its own and to other things."""

from dataclasses import dataclass
from typing import Literal

from engine.access.rules import COMMANDS, ROLES, CommandRule, Role

Reach = Literal["everyone's", "their own", "yes", ""]
"""Reach of a command: on everyone's things, on one's own, allowed without an owner, or not allowed."""
OF_NOBODY = frozenset(
    {
        "launch",
        "launch sweep",
        "launch duel",
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
    """The action, as it follows 'may'."""
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
        return ""
    if command in OF_NOBODY:
        return "yes"
    return "everyone's" if rank >= ROLES.index(rule.others) else "their own"
