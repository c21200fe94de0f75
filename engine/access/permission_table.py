"""The table of rules in words: for each role what it may do to its own and to what is others', for pages and docs
alike.
"""

from dataclasses import dataclass
from typing import Literal

from engine.access.rules import COMMANDS, ROLES, CommandRule, Role

Reach = Literal["everyone's", "their own", "yes", ""]
"""How far a command goes: to whatever it is done to, to one's own alone, done to nothing that is somebody's, or not
allowed.
"""
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
        "set limits",
        "add person",
    }
)
"""Commands that make something new, or are done to the lab as a whole: there is no owner to ask about."""


@dataclass(frozen=True)
class Ability:
    """One command and how far each role may go with it."""

    command: str
    words: str
    """What it does, behind 'may'."""
    reach: dict[Role, Reach]


def abilities() -> list[Ability]:
    """Return every command in the table's order."""
    return [
        Ability(name, rule.words, {role: reach(name, rule, role) for role in ROLES}) for name, rule in COMMANDS.items()
    ]


def reach(command: str, rule: CommandRule, role: Role) -> Reach:
    """Return how far a role may go with a command."""
    rank = ROLES.index(role)
    if rank < ROLES.index(rule.own):
        return ""
    if command in OF_NOBODY:
        return "yes"
    return "everyone's" if rank >= ROLES.index(rule.others) else "their own"
