"""The command that extends the catalogue: what is added is looked at, who may is asked of the store, then the file is
changed by one at a time.
"""

from collections.abc import Callable
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from engine.catalogue import BUILT_IN, MOST, Catalogue, EnvironmentId, Folder, catalogue, is_name, set_catalogue
from engine.commands.authorize import permit
from engine.config import RuleBroken
from engine.data.add_dataset import look_at
from engine.errors import ConfigError, Problem, UnknownName
from engine.home import Home
from engine.rl.kinds import Kind, kind_of

COMMAND = "extend catalogue"
TITLE_LENGTH = 80


def add_environment(home: Home, name: str, *, by: str) -> Kind:
    """Let configs name an environment that gymnasium has registered, and return what it is.

    Raises ConfigError where it can't be made, its spaces are not supported, its id could import code, or it is there
    already; Forbidden.
    """
    if not _fits(EnvironmentId, name):
        raise _wrong(
            "environment",
            (
                "environment must be an id such as CartPole-v1 or ALE/Pong-v5, of letters, digits, _ . and -, got "
                f"{name[:80]!r}."
            ),
        )
    if name in BUILT_IN["environments"] or name in catalogue(home).environments:
        raise _wrong("environment", f"environment {name} can be chosen already.")
    try:
        found = kind_of(name)
    except RuleBroken as error:
        raise _wrong("environment", str(error)) from error
    permit(home, COMMAND, by=by, detail=f"environment={name}")
    _change(
        home,
        lambda now: now.model_copy(
            update={"environments": [*(each for each in now.environments if each != name), name]}
        ),
    )
    return found


def add_dataset(home: Home, name: str, folder: str, *, by: str, title: str = "") -> Catalogue:
    """Let configs name a data set whose four files lie in a folder below the data folder; one of that name is looked at
    anew and replaced.

    Raises ConfigError for a name or folder that none can have, DataError where it can't be trained on, Forbidden.
    """
    if not is_name(name) or name in {*BUILT_IN["datasets"], *BUILT_IN["images"]}:
        rule = (
            "begin with a small letter, go on with small letters, digits and _ to 40 at most, and not be that of a "
            "built-in one"
        )
        raise _wrong("dataset", f"A data set's name must {rule}, got {name[:80]!r}.")
    if not _fits(Folder, folder):
        raise _wrong(
            "folder",
            (
                f"The folder is named as it lies below {home.data}, without dots or slashes at its beginning, got "
                f"{folder[:80]!r}."
            ),
        )
    called = " ".join(title.split())[:TITLE_LENGTH] or name
    listed = look_at(home, folder, called)
    permit(home, COMMAND, by=by, detail=f"dataset={name}, folder={folder}")
    return _change(home, lambda now: now.model_copy(update={"datasets": {**now.datasets, name: listed}}))


def remove(home: Home, name: str, *, by: str) -> None:
    """Take an environment or a data set off the catalogue; queued runs that name it fail with the reason. Raises
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
                "", f"A catalogue holds at most {MOST:,} environments and {MOST:,} data sets. Take some off first."
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
