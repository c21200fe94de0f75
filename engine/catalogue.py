"""The environments and data sets that a config can use: built-in ones, and those that an admin added to this home's
catalogue. Torch-free.

Forms can only choose from these lists. Additions by an admin are validated; a name or folder never comes from a form.
"""

import os
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from engine.errors import ConfigError
from engine.home import Home

Kind = Literal["environments", "datasets", "sources", "samples"]
"""Environments; sets of images; data sources of the pipeline; sets of images and of text."""
BUILT_IN: dict[Kind, tuple[str, ...]] = {
    "environments": (
        *("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0"),
        *("FrozenLake-v1", "FrozenLake8x8-v1"),
    ),
    "datasets": ("mnist", "fashion_mnist", "digits", "synthetic"),
    "sources": ("random", "mnist", "fashion_mnist", "digits", "stdlib", "stdlib_large"),
    "samples": ("mnist", "fashion_mnist", "digits", "synthetic", "stdlib", "stdlib_large"),
}
"""Built-in entries; the environments come with Gymnasium and need no other package."""
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""Files of a data set in MNIST's format: training images and labels, then test images and labels."""
ADDED = {"environments": "environment", "datasets": "dataset", "sources": "dataset", "samples": "dataset"}
MOST = 1_000

EnvironmentId = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?:[A-Za-z_][A-Za-z0-9_]{0,40}(?:\.[A-Za-z_][A-Za-z0-9_]{0,40}){0,5}:)?"
        r"(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,60}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,80}-v[0-9]{1,4}$",
        max_length=150,
    ),
]
DataName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Folder = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,79}){0,3}$")
]
"""Relative to the data folder; no part starts with a dot."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Lying(_Model):
    """State of a file when its data set was added."""

    bytes: int = Field(ge=8, le=1 << 40)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Listed(_Model):
    """An added data set in MNIST's format."""

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
    """Additions of a home."""

    environments: list[EnvironmentId] = Field(default=[], max_length=MOST)
    datasets: dict[DataName, Listed] = Field(default={}, max_length=MOST)


def catalogue(home: Home | None = None) -> Catalogue:
    """Return the additions of a home (default: this process's). Raises ConfigError for an invalid file."""
    path = (home or Home.find()).catalogue
    try:
        found = path.stat()
        return _read(path, (found.st_ino, found.st_mtime_ns, found.st_size))
    except FileNotFoundError:
        return NOTHING
    except (OSError, ValueError, RecursionError) as error:
        what = "invalid contents" if isinstance(error, ValidationError) else type(error).__name__
        raise ConfigError.of(
            "",
            f"The catalogue {path} can't be read ({what}). Move the file away, and add its entries again: python -m "
            "engine catalogue",
        ) from error


def set_catalogue(home: Home, wanted: Catalogue) -> None:
    """Write the catalogue atomically."""
    aside = home.create().catalogue.with_suffix(f".{os.getpid()}")
    aside.write_text(wanted.model_dump_json(indent=1) + "\n")
    aside.replace(home.catalogue)


def choices(kind: str) -> tuple[str, ...]:
    """Return all names of a kind, built-in ones first; only these if the catalogue can't be read, which its command
    reports.
    """
    try:
        found = catalogue()
    except ConfigError:
        found = NOTHING
    added: Iterable[str] = found.environments if kind == "environments" else found.datasets
    built_in = BUILT_IN[kind]  # type: ignore[index]
    return (*built_in, *(name for name in added if name not in built_in))


def chosen_from(kind: Kind) -> Callable[[str], str]:
    """Return a validator for a config's field, which raises ValueError with the known names for any other."""

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
    """Return the catalogue of a file; `stamp` identifies its current state."""
    found = Catalogue.model_validate_json(path.read_bytes())
    for name, listed in found.datasets.items():
        if set(listed.files) != set(FILES) or name in {*BUILT_IN["samples"], *BUILT_IN["sources"]}:
            raise ValueError(name)
    return found


def is_name(name: str) -> bool:
    """Return whether a data set's name is valid."""
    return re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) is not None


NOTHING = Catalogue()
