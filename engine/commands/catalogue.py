"""Commands that change the catalogue: validate the entry, check the permission in the store, then change the file under
a lock.
"""

from collections.abc import Callable, Iterable
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from engine.access.confusables import visible
from engine.catalogue import BUILT_IN, MOST, Catalogue, EnvironmentId, Folder, catalogue, is_name, set_catalogue
from engine.commands.lab_settings import permit
from engine.config import RuleBroken
from engine.data.added_files import look_at
from engine.errors import ConfigError, UnknownName
from engine.home import Home
from engine.rl.kinds import Kind, kind_of

COMMAND = "extend catalogue"
TITLE_LENGTH = 80


def add_environment(home: Home, name: str, *, by: str) -> Kind:
    """Add an environment that Gymnasium or a package has registered, and return its kind.

    The permission is checked first, because `module:Name-v0` imports the module: here, in the console, and in each
    rank that plays it. Raises Forbidden; ConfigError if it can't be created, its spaces are not supported, or it is
    already listed.
    """
    if not _fits(EnvironmentId, name):
        raise ConfigError.of(
            "environment",
            "environment must be an id such as CliffWalking-v1 or ale_py:ALE/Pong-v5 (the module that registers "
            f"it, a colon, its name and version), of letters, digits, _ . and -, got {name[:80]!r}.",
        )
    if name in BUILT_IN["environments"] or name in catalogue(home).environments:
        raise ConfigError.of("environment", f"environment {name} is already in the catalogue.")
    permit(home, COMMAND, by=by, detail=f"environment={name}")
    try:
        found = kind_of(name)
    except RuleBroken as error:
        raise ConfigError.of("environment", str(error)) from error
    _change(home, lambda now: now.model_copy(update={"environments": [*_without(now.environments, name), name]}))
    return found


def add_dataset(home: Home, name: str, folder: str, *, by: str, title: str = "") -> Catalogue:
    """Add a data set whose four files lie in a folder below the data folder; replaces one of the same name.

    Raises ConfigError for an invalid name or folder, DataError for unusable files, Forbidden.
    """
    if not is_name(name) or name in {*BUILT_IN["datasets"], *BUILT_IN["sources"]}:
        rule = (
            "start with a lowercase letter, have at most 40 lowercase letters, digits and _, and differ from "
            "the built-in names"
        )
        raise ConfigError.of("dataset", f"The name of a data set must {rule}; got {name[:80]!r}.")
    if not _fits(Folder, folder):
        raise ConfigError.of(
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
            environments=_without(now.environments, name),
            datasets={each: found for each, found in now.datasets.items() if each != name},
        ),
    )


def _without(names: Iterable[str], name: str) -> list[str]:
    return [each for each in names if each != name]


def _change(home: Home, change: Callable[[Catalogue], Catalogue]) -> Catalogue:
    with FileLock(home.create().catalogue_lock):
        wanted = change(catalogue(home))
        if len(wanted.environments) > MOST or len(wanted.datasets) > MOST:
            raise ConfigError.of(
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
