"""Authorized changes outside the store's tables: the permission check, the catalogue, and quotas."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from engine.access.confusables import visible
from engine.access.quotas import BOUNDS, NONE, Limits, Value, limits, set_limits
from engine.access.rules import Program
from engine.catalogue import BUILT_IN, MOST, Catalogue, EnvironmentId, Folder, catalogue, is_name, set_catalogue
from engine.config import RuleBroken
from engine.data.added_files import look_at
from engine.errors import ConfigError, Problem, StoreError, UnknownName
from engine.home import Home
from engine.rl.kinds import Kind, kind_of
from engine.store import Reader, Store

# ------------------------------------------------------------------------------------------------------------------
# Commands that change the catalogue: validate the entry, check the permission in the store, then change the file
# under a lock.

COMMAND = "extend catalogue"
TITLE_LENGTH = 80


def add_environment(home: Home, name: str, *, by: str) -> Kind:
    """Add an environment that Gymnasium or a package has registered, and return its kind.

    The permission is checked first, because `module:Name-v0` imports the module: here, in the console, and in each
    rank that plays it. Raises Forbidden; ConfigError if it can't be created, its spaces are not supported, or it is
    already listed.
    """
    if not _fits(EnvironmentId, name):
        raise _wrong(
            "environment",
            (
                "environment must be an id such as CliffWalking-v1 or ale_py:ALE/Pong-v5 (the module that registers "
                f"it, a colon, its name and version), of letters, digits, _ . and -, got {name[:80]!r}."
            ),
        )
    if name in BUILT_IN["environments"] or name in catalogue(home).environments:
        raise _wrong("environment", f"environment {name} is already in the catalogue.")
    permit(home, COMMAND, by=by, detail=f"environment={name}")
    try:
        found = kind_of(name)
    except RuleBroken as error:
        raise _wrong("environment", str(error)) from error
    _change(
        home,
        lambda now: now.model_copy(
            update={"environments": [*(each for each in now.environments if each != name), name]}
        ),
    )
    return found


def add_dataset(home: Home, name: str, folder: str, *, by: str, title: str = "") -> Catalogue:
    """Add a data set whose four files lie in a folder below the data folder; replaces one of the same name.

    Raises ConfigError for an invalid name or folder, DataError for unusable files, Forbidden.
    """
    if not is_name(name) or name in {*BUILT_IN["datasets"], *BUILT_IN["images"]}:
        rule = (
            "start with a lowercase letter, have at most 40 lowercase letters, digits and _, and differ from "
            "the built-in names"
        )
        raise _wrong("dataset", f"The name of a data set must {rule}; got {name[:80]!r}.")
    if not _fits(Folder, folder):
        raise _wrong(
            "folder",
            (f"folder must be relative to {home.data}, without a leading dot or slash; got {folder[:80]!r}."),
        )
    called = visible("title", " ".join(title.split()))[:TITLE_LENGTH] or name
    listed = look_at(home, folder, called)
    permit(home, COMMAND, by=by, detail=f"dataset={name}, folder={folder}")
    return _change(home, lambda now: now.model_copy(update={"datasets": {**now.datasets, name: listed}}))


def remove(home: Home, name: str, *, by: str) -> None:
    """Remove an environment or a data set from the catalogue; queued runs that use it fail with the reason. Raises
    UnknownName, Forbidden.
    """
    now = catalogue(home)
    if name not in (*now.environments, *now.datasets):
        raise UnknownName("entry of the catalogue", name, [*now.environments, *now.datasets], field="name")
    permit(home, COMMAND, by=by, detail=f"remove={name}")
    _change(
        home,
        lambda now: Catalogue(
            environments=[each for each in now.environments if each != name],
            datasets={each: found for each, found in now.datasets.items() if each != name},
        ),
    )


def _change(home: Home, change: Callable[[Catalogue], Catalogue]) -> Catalogue:
    with FileLock(home.create().catalogue_lock):
        wanted = change(catalogue(home))
        if len(wanted.environments) > MOST or len(wanted.datasets) > MOST:
            raise _wrong(
                "", f"The catalogue is full: at most {MOST:,} environments and {MOST:,} data sets. Remove some first."
            )
        set_catalogue(home, wanted)
    return wanted


def _fits(kind: Any, text: str) -> bool:
    try:
        TypeAdapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


def _wrong(field: str, sentence: str) -> ConfigError:
    return ConfigError([Problem(field, sentence)])


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
        _known(home, person)
    told = ", ".join(
        [
            *(f"{BOUNDS[name].words}={'none' if value is None else value}" for name, value in changes.items()),
            *(f"{BOUNDS[name].words}=usual" for name in sorted(usual)),
        ]
    )
    told = ", ".join(
        filter(
            None,
            [
                told,
                "" if host_network is None else f"host_network={'yes' if host_network else 'no'}",
                "" if disturbed_above_percent is None else f"disturbed_above={disturbed_above_percent:g} %",
            ],
        )
    )
    permit(home, "set limits", by=by, detail=f"{f'person={person}, ' if person is not None else ''}{told}")
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


def _known(home: Home, person: str) -> None:
    """Raise UnknownName if the lab has accounts, but none of that name; without accounts, any name is valid."""
    with Reader.open(home) as reader:
        people = [each.name for each in reader.people.everyone()]
    if people and person not in people:
        raise UnknownName("person", person, people, field="person")


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
