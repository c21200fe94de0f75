"""The command that sets limits: who may is asked of the store, then the file is read, changed and written by one at a
time.
"""

from collections.abc import Mapping
from dataclasses import replace

from filelock import FileLock

from engine.access.quotas import BOUNDS, NONE, Limits, Value, limits, set_limits
from engine.commands.authorize import permit
from engine.errors import ConfigError, UnknownName
from engine.home import Home
from engine.store import Reader


def change_limits(
    home: Home,
    changes: Mapping[str, Value],
    *,
    by: str,
    person: str | None = None,
    usual: frozenset[str] = frozenset(),
    anew: bool = False,
    host_network: bool | None = None,
) -> Limits:
    """Set limits for everyone, or what is otherwise for one person, and return all of them; `usual` names those that
    are to be everyone's again.

    `host_network` says whether ranks of this lab may listen on the machine's network; None leaves that as it is.

    With `anew` a file that can't be read is begun anew. Raises Forbidden, UnknownName for a person without an account
    in a lab that has some, ConfigError.
    """
    for name in (*changes, *usual):
        if name not in BOUNDS:
            raise UnknownName("limit", name, BOUNDS, field=name)
    NONE.changed(changes, person)  # what is wrong with a value is said before anything is written about it
    if person is not None:
        _known(home, person)
    told = ", ".join(
        [
            *(f"{name}={'none' if value is None else value}" for name, value in changes.items()),
            *(f"{name}=usual" for name in sorted(usual)),
        ]
    )
    told = ", ".join(
        filter(None, [told, "" if host_network is None else f"host_network={'yes' if host_network else 'no'}"])
    )
    permit(home, "set limits", by=by, detail=f"{f'person={person}, ' if person is not None else ''}{told}")
    with FileLock(home.create().limits_lock):
        wanted = _now(home, anew).changed(changes, person, usual)
        if host_network is not None:
            wanted = replace(wanted, host_network=host_network)
        set_limits(home, wanted)
    return wanted


def _now(home: Home, anew: bool) -> Limits:
    try:
        return limits(home)
    except ConfigError:
        if not anew:
            raise
        return NONE


def _known(home: Home, person: str) -> None:
    """Raise UnknownName where the lab has accounts and nobody of that name; without accounts any name is one."""
    with Reader.open(home) as reader:
        people = [each.name for each in reader.people.everyone()]
    if people and person not in people:
        raise UnknownName("person", person, people, field="person")
