"""Authorized changes outside the store's tables: the permission check, quotas, and approved own experiments."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from filelock import FileLock

from engine.access.quotas import BOUNDS, NONE, Limits, Value, limits, set_limits
from engine.access.rules import Program
from engine.errors import ConfigError, StoreError, UnknownName
from engine.home import Home
from engine.own_methods import cards, folders
from engine.own_methods.folders import MethodVersion
from engine.store import Reader, Store

# ---- The command that sets limits: check the permission in the store, then change the file under a lock ------------


def change_limits(
    home: Home,
    changes: Mapping[str, Value],
    *,
    by: str,
    person: str | None = None,
    usual: frozenset[str] = frozenset(),
    replace_unreadable: bool = False,
    host_network: bool | None = None,
    disturbed_above_percent: float | None = None,
) -> Limits:
    """Set limits for everyone or for one person, and return all of them; `usual` names limits to reset to everyone's.

    `host_network`: whether ranks of this lab may listen on the machine's network; `disturbed_above_percent`: the
    disturbance above which a run is disturbed. None keeps the setting.

    With `replace_unreadable`, an unreadable file is replaced. Raises Forbidden, UnknownName for a person without an
    account in a lab with accounts, ConfigError.
    """
    for name in (*changes, *usual):
        if name not in BOUNDS:
            raise UnknownName("limit", name, BOUNDS, field=name)
    of_lab = {"host_network": host_network, "disturbed_above_percent": disturbed_above_percent}
    given: dict[str, Any] = {name: value for name, value in of_lab.items() if value is not None}
    replace(NONE, **given).changed(changes, person)  # validate before anything is written to the audit log
    if person is not None:
        person = _known(home, person)
    told = [
        *([] if person is None else [f"person={person}"]),
        *(f"{BOUNDS[name].words}={'none' if value is None else value}" for name, value in changes.items()),
        *(f"{BOUNDS[name].words}=usual" for name in sorted(usual)),
        *([] if host_network is None else [f"host_network={'yes' if host_network else 'no'}"]),
        *([] if disturbed_above_percent is None else [f"disturbed_above={disturbed_above_percent:g} %"]),
    ]
    permit(home, "set limits", by=by, detail=", ".join(told))
    with FileLock(home.create().limits_lock):
        wanted = replace(_now(home, replace_unreadable).changed(changes, person, usual), **given)
        set_limits(home, wanted)
    return wanted


def _now(home: Home, replace_unreadable: bool) -> Limits:
    try:
        return limits(home)
    except ConfigError:
        if not replace_unreadable:
            raise
        return NONE


def _known(home: Home, person: str) -> str:
    """Return the name of an account, which may be given in any case; raises UnknownName if the lab has accounts, but
    none of that name. Without accounts, any name is valid.
    """
    with Reader.open(home) as reader:
        return reader.people.one(person, field="person").name if reader.people.everyone() else person


# ---- Permission check for commands outside the store's tables: backups, retention, stopping the runner -------------
# The store decides and keeps the audit log.


def operator(home: Home, login: str) -> str:
    """Return who gives a maintenance command that names nobody: for the Unix user to whom the home belongs, unless
    `login` is an account, a name of its own that may. File permissions already let that user do everything.
    """
    if home.database.exists() and os.geteuid() in (0, home.path.stat().st_uid):
        with suppress(StoreError), Reader.open(home) as reader:
            names = [each.name for each in reader.people.everyone()]
            if names and login not in names:
                return Program(f"{login} on the command line")
    return login


def permit(home: Home, command: str, *, by: str, detail: str = "", damaged: bool = False) -> None:
    """Check a person's permission for a command and record it in the audit log; raises Forbidden.

    A home without a store has no rules yet. With `damaged`, a store that can't be opened permits the command: a repair
    needs write access to its files, which already grants everything.
    """
    if not home.database.exists():
        return
    try:
        with Store.open(home) as store:
            store.access.permit(command, by=by, detail=detail)
    except StoreError:
        if not damaged:
            raise


# ---- The command that approves a version of an experiment of the lab's own ------------------------------------------


def approve_experiment(home: Home, name: str, *, by: str, expected: str = "") -> MethodVersion:
    """Approve the present code of an experiment, so that it can be read and run, and return its version.

    Raises UnknownName, MethodFault for a folder that can't be copied, ConfigError if its version is not the `expected`
    one any more, Forbidden.
    """
    found = folders.folders(home)
    if name not in found:
        raise UnknownName("experiment", name, found, field="experiment")
    version = folders.keep(home, found[name])
    if expected not in ("", version.version):
        raise ConfigError.of(
            "version",
            f"The files of {name} have changed: they are version {version.version}, not {expected}. Look again.",
        )
    permit(home, "approve experiment", by=by, detail=f"experiment={name} version={version.version}")
    cards.approve(version, by)
    return version
