"""Where experiments of the lab's own come from, and the copies of their code that the home keeps. Torch-free.

One is a folder with `config.py` and `method.py`: below the home's `experiments/`, or of an installed package that names
it with the entry point group `parallab.experiments`. Nothing of it is imported here. Each state of its files has a
version: a digest of them, under which the home keeps a copy for the runs of that version.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import mkdtemp

from engine.errors import MethodFault
from engine.home import Home

GROUP = "parallab.experiments"
"""Entry points of packages that bring experiments: `gossip = "my_package.gossip"` names the folder's package."""
PACKAGE = "parallab_experiments"
"""The package that holds a folder where it is imported: no name of a folder hides a module."""
CONFIG, METHOD = "config.py", "method.py"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
VERSION = re.compile(r"[0-9a-f]{16}")
MOST_FILES, MOST_BYTES, MOST_FOLDERS = 200, 2_000_000, 100
_SKIPPED = ("__pycache__",)


@dataclass(frozen=True)
class MethodFolder:
    """The folder of an experiment as it is now."""

    name: str
    path: Path
    package: str = ""
    """The package that brings it; empty for a folder of the home."""


def folders(home: Home) -> dict[str, MethodFolder]:
    """Return the folders of a home and of the installed packages by name; one of the home comes before a package's."""
    found = {each.name: each for each in _of_packages(tuple(sys.path))}
    try:
        entries = sorted(os.scandir(home.experiments), key=lambda entry: entry.name)
    except OSError:
        entries = []
    for entry in entries[:MOST_FOLDERS]:
        if not entry.name.startswith((".", "_")) and entry.is_dir():
            found[entry.name] = MethodFolder(entry.name, Path(entry.path))
    return found


def is_there(home: Home, name: str) -> bool:
    """Return whether an experiment of the lab's own has that name, or had when a run of it was launched."""
    if not NAME.fullmatch(name):
        return False
    return any((place / name).is_dir() for place in (home.methods, home.experiments)) or name in folders(home)


@lru_cache(maxsize=4)
def _of_packages(path: tuple[str, ...]) -> list[MethodFolder]:
    """Return the folders that installed packages name. Finding a top-level package imports nothing."""
    found = []
    for point in entry_points(group=GROUP):
        first, *rest = point.module.split(".")
        spec = PathFinder.find_spec(first, list(path))
        places = list(spec.submodule_search_locations or ()) if spec else []
        folder = Path(places[0] if places else point.module, *rest)
        found.append(MethodFolder(point.name, folder, point.dist.name if point.dist else first))
    return found


def version_of(folder: MethodFolder) -> tuple[str, dict[str, bytes]]:
    """Return the version of a folder, and its files by path; raises MethodFault where it can't be copied."""
    if not NAME.fullmatch(folder.name):
        rule = "begin with a lower-case letter, and have at most 40 lower-case letters, digits and _"
        raise MethodFault(folder.name, f"The name of its folder must {rule}. Rename the folder.")
    files: dict[str, bytes] = {}
    size = 0
    try:
        for path, text in _files(folder):
            size += text.stat(follow_symlinks=False).st_size
            if len(files) >= MOST_FILES or size > MOST_BYTES:
                rule = f"at most {MOST_FILES} files and {MOST_BYTES:,} bytes"
                raise MethodFault(folder.name, f"{folder.path} must have {rule}. Move data out of it.")
            files[path] = Path(text.path).read_bytes()
    except OSError as error:
        raise MethodFault(folder.name, f"{folder.path} can't be read: {error.strerror}.") from error
    for each in (CONFIG, METHOD):
        if each not in files:
            cure = "python -m engine new NAME writes a folder that runs."
            raise MethodFault(folder.name, f"{folder.path / each} doesn't exist. {cure}")
    digest = sha256()
    for path in sorted(files):
        digest.update(f"{path}\0{len(files[path])}\0".encode() + files[path])
    return digest.hexdigest()[:16], files


def _files(folder: MethodFolder) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Yield the files of a folder with their paths in it, in order; raises MethodFault for a link and special files."""
    places = [(folder.path, "")]
    seen = 0
    for place, before in places:
        for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
            seen += 1
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            path = f"{before}{entry.name}"
            if seen > 10 * MOST_FILES or len(places) > MOST_FILES:
                raise MethodFault(folder.name, f"{folder.path} must have at most {MOST_FILES} files.")
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                what = "a link" if entry.is_symlink() else "no regular file"
                raise MethodFault(folder.name, f"{folder.path / path} is {what}. Put a copy of the file in its place.")
            if entry.is_dir():
                places.append((Path(entry.path), f"{path}/"))
            else:
                yield path, entry


def write_package(name: str, files: Mapping[str, bytes], into: Path) -> None:
    """Write a folder's files below `into` such that it can be imported with `into` among the paths of modules."""
    for path, content in files.items():
        target = into / PACKAGE / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


# ---- The versions that a home keeps --------------------------------------------------------------------------------


@dataclass(frozen=True)
class MethodVersion:
    """One version of an experiment's code in a home."""

    name: str
    version: str
    path: Path

    @property
    def code(self) -> Path:
        """Path of modules below which the code is."""
        return self.path / "code"

    @property
    def card(self) -> Path:
        """What the child told of it."""
        return self.path / "card.json"

    @property
    def fault(self) -> Path:
        """Why the child told nothing."""
        return self.path / "fault.json"

    @property
    def approval(self) -> Path:
        """Who has approved it, in a lab with accounts."""
        return self.path / "approval.json"

    def copy_to(self, into: Path) -> None:
        """Copy the code below a folder; raises MethodFault if the home's copy is gone or was changed."""
        root = self.code / PACKAGE / self.name
        kept, files = version_of(MethodFolder(self.name, root))
        if kept != self.version:
            raise MethodFault(
                self.name, f"The copy of version {self.version} in {root} was changed. Delete {self.path}."
            )
        write_package(self.name, files, into)


def version(home: Home, name: str, code: str) -> MethodVersion | None:
    """Return a version that the home keeps, None if it doesn't."""
    if not (NAME.fullmatch(name) and VERSION.fullmatch(code)):
        return None
    found = MethodVersion(name, code, home.methods / name / code)
    return found if found.code.is_dir() else None


def versions(home: Home, name: str) -> list[MethodVersion]:
    """Return the versions of an experiment that the home keeps, the one that was read last first."""
    if not NAME.fullmatch(name):
        return []
    try:
        found = [version(home, name, entry.name) for entry in os.scandir(home.methods / name)]
    except OSError:
        return []
    return sorted(filter(None, found), key=_read_at, reverse=True)


def _read_at(version: MethodVersion) -> float:
    try:
        return version.card.stat().st_mtime
    except OSError:
        return 0.0


def keep(home: Home, folder: MethodFolder) -> MethodVersion:
    """Keep a copy of the folder's present files in the home, unless it is there; raises MethodFault."""
    code, files = version_of(folder)
    if found := version(home, folder.name, code):
        return found
    place = home.create().methods / folder.name
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = Path(mkdtemp(prefix=".", dir=place))
    try:
        write_package(folder.name, files, aside / "code")
        aside.rename(place / code)
    except OSError:  # another process was faster
        shutil.rmtree(aside, ignore_errors=True)
        if version(home, folder.name, code) is None:
            raise
    return MethodVersion(folder.name, code, place / code)
