"""The environments and data sets that may be named in a config: those built in, and those that an admin has added to
this home's catalogue. Torch-free.

A form can only choose from these lists. What an admin adds is looked at then; a name or a folder never comes from a
form.
"""

import os
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from engine.errors import ConfigError, Problem
from engine.home import Home

Kind = Literal["environments", "datasets", "images"]
"""Environments; data sets of the experiments that train on one; what a pipeline's images come from."""
BUILT_IN: dict[Kind, tuple[str, ...]] = {
    "environments": (
        *("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0"),
        *("FrozenLake-v1", "FrozenLake8x8-v1"),
    ),
    "datasets": ("mnist", "fashion_mnist", "digits", "synthetic"),
    "images": ("random", "mnist", "fashion_mnist", "digits"),
}
"""What every home offers; the environments come with gymnasium itself and need no other package."""
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""The files of a data set in MNIST's format: images and labels to train on, then to test on."""
ADDED = {"environments": "environment", "datasets": "dataset", "images": "dataset"}
MOST = 1_000

EnvironmentId = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,60}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,80}-v[0-9]{1,4}$", max_length=150
    ),
]
DataName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Folder = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,79}){0,3}$")
]
"""Below the data folder: parts apart by slashes, none of which begins with a dot."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Lying(_Model):
    """A file as it lay there when its data set was added."""

    bytes: int = Field(ge=8, le=1 << 40)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Listed(_Model):
    """A data set in MNIST's format that an admin has added."""

    folder: Folder
    title: str = Field(min_length=1, max_length=80)
    train: int = Field(ge=1)
    test: int = Field(ge=1)
    files: dict[
        Literal[
            "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
        ],
        Lying,
    ]
    """All four of FILES."""


class Catalogue(_Model):
    """What was added to a home."""

    environments: list[EnvironmentId] = Field(default=[], max_length=MOST)
    datasets: dict[DataName, Listed] = Field(default={}, max_length=MOST)


def catalogue(home: Home | None = None) -> Catalogue:
    """Return what was added to a home (default: this process's); nothing where nothing was. Raises ConfigError where
    the file is not ours.
    """
    path = (home or Home.find()).catalogue
    try:
        found = path.stat()
        return _read(path, (found.st_ino, found.st_mtime_ns, found.st_size))
    except FileNotFoundError:
        return NOTHING
    except (OSError, ValueError, RecursionError) as error:
        what = "something in it is not as it is written" if isinstance(error, ValidationError) else type(error).__name__
        raise ConfigError(
            [
                Problem(
                    "",
                    (
                        f"The catalogue in {path} can't be read ({what}). Move that file away, and add again what "
                        "it held: python -m engine catalogue"
                    ),
                )
            ]
        ) from error


def set_catalogue(home: Home, wanted: Catalogue) -> None:
    """Keep the catalogue, written aside and renamed, so that no reader meets half a file."""
    aside = home.create().catalogue.with_suffix(f".{os.getpid()}")
    aside.write_text(wanted.model_dump_json(indent=1) + "\n")
    aside.replace(home.catalogue)


def choices(kind: str) -> tuple[str, ...]:
    """Return every name of a kind that may be chosen, those built in first; these alone where the catalogue can't be
    read, which its command says.
    """
    try:
        found = catalogue()
    except ConfigError:
        found = NOTHING
    added: Iterable[str] = found.environments if kind == "environments" else found.datasets
    built_in = BUILT_IN[kind]  # type: ignore[index]
    return (*built_in, *(name for name in added if name not in built_in))


def chosen_from(kind: Kind) -> Callable[[str], str]:
    """Return a validator of a config's field: the name has to be one of that kind's, else a ValueError says which there
    are.
    """

    def check(name: str) -> str:
        known = choices(kind)
        if name in known:
            return name
        listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        near = "".join(f"Did you mean '{other}'? " for other in get_close_matches(name[:80], known, n=1))
        cure = f"{near}An admin can add one: python -m engine catalogue add-{ADDED[kind]}"
        raise ValueError(f"{ADDED[kind]} must be one of {listed}, got {name[:80]!r}. {cure}")

    return check


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int, int]) -> Catalogue:
    """Return the catalogue of a file; `stamp` tells this state of it from any other."""
    found = Catalogue.model_validate_json(path.read_bytes())
    for name, listed in found.datasets.items():
        if set(listed.files) != set(FILES) or name in {*BUILT_IN["datasets"], *BUILT_IN["images"]}:
            raise ValueError(name)
    return found


def is_name(name: str) -> bool:
    """Say whether a data set may have that name."""
    return re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) is not None


NOTHING = Catalogue()
