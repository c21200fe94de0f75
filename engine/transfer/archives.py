"""A folder, a zip file or a single file as a set of named members, with bounds on what a hostile one can cost.

Nothing is ever unpacked to the disk by the name it has inside, and nothing is read past what a member says its size is.
"""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from engine.errors import ImportRefused

MOST_MEMBERS = 200_000
MOST_BYTES = 2 << 30
"""Of all members together, unpacked."""
DENSEST = 100
"""So many times its packed size a member, or a zip, may unpack to where that is more than `SMALL`; what training
records stays below 20. Logs are exempt: one line again and again packs as densely as zip can, and a log is copied piece
by piece, never held.
"""
LOGS = "logs/"
SMALL = 16 << 20
LONGEST_NAME = 1_000


class Members(Protocol):
    """Files by name, below one place."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names, parts apart by slashes, in order."""

    def size(self, name: str) -> int:
        """Return how many bytes a member has."""

    def open(self, name: str) -> IO[bytes]:
        """Open a member for reading; raises ImportRefused where it can't be."""


@dataclass(frozen=True)
class Folder:
    """The files below a folder; links are left out, since they could name any file of the machine."""

    path: Path
    names: tuple[str, ...]

    def size(self, name: str) -> int:
        """Return how many bytes a file has."""
        return (self.path / name).lstat().st_size

    def open(self, name: str) -> IO[bytes]:
        """Open a file."""
        return (self.path / name).open("rb")


@dataclass(frozen=True)
class Zip:
    """The members of a zip file."""

    file: zipfile.ZipFile
    names: tuple[str, ...]
    open_ones: list[IO[bytes]] = field(default_factory=list)
    """They keep the zip itself open, so they are closed with it: an import may stop anywhere in one."""

    def size(self, name: str) -> int:
        """Return what the zip says about a member's size; reading ends there."""
        return self.file.getinfo(name).file_size

    def open(self, name: str) -> IO[bytes]:
        """Open a member; raises ImportRefused where it is locked or packed in a way that is not known."""
        try:
            self.open_ones.append(self.file.open(name))
            return self.open_ones[-1]
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OSError,
        ) as error:  # one that would begin before the file has no place
            raise ImportRefused(
                f"Its member '{shown(name)}' can't be read: {_why(error)}. Pack it again without a password, "
                "by deflate."
            ) from error


@contextmanager
def members(path: Path) -> Iterator[Members]:
    """Open what lies at a path; raises ImportRefused for what is not there, is no zip though it says so, or is out of
    bounds.
    """
    if path.is_dir():
        yield _folder(path)
    elif not path.is_file():
        raise ImportRefused(f"There is no file or folder {path}.")
    elif path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        with _zip(path) as file:
            found = Zip(file, _checked(file))
            try:
                yield found
            finally:
                for each in found.open_ones:
                    each.close()
    else:
        yield Folder(path.parent, (path.name,))


def read(source: Members, name: str, most: int) -> bytes:
    """Return a member of at most `most` bytes; raises ImportRefused where it is larger or damaged."""
    if source.size(name) > most:
        raise ImportRefused(
            f"Its member '{shown(name)}' has {source.size(name):,} bytes, where at most {most:,} are expected."
        )
    with opened(source, name) as file:
        return file.read(most + 1)


@contextmanager
def opened(source: Members, name: str) -> Iterator[IO[bytes]]:
    """Open a member; what turns out to be damaged while it is read is an ImportRefused."""
    with source.open(name) as file:
        try:
            yield file
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ImportRefused(
                f"Its member '{shown(name)}' is damaged ({_why(error)}). Copy or download the file again."
            ) from error


def lines(source: Members, name: str, most: int) -> Iterator[bytes]:
    """Yield the lines of a member; raises ImportRefused at one of more than `most` bytes, of which no more is read."""
    with opened(source, name) as file:
        buffered = io.BufferedReader(file)  # type: ignore[type-var]  # a member's own readline takes a time that grows with the square of the line
        number = 0
        while line := buffered.readline(most + 1):
            number += 1
            if len(line) > most:
                raise ImportRefused(
                    f"'{shown(name)}', line {number:,}, is longer than {most:,} bytes, which no line of such a "
                    "file is. Export it again."
                )
            yield line


def shown(name: str, most: int = 80) -> str:
    """Return a name out of a file so that a sentence can hold it, in no more than so many characters."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _why(error: Exception) -> str:
    """Return what zipfile says, which can be a piece of the file itself."""
    return shown(str(error).rstrip("."), 200)


def _folder(path: Path) -> Folder:
    found: list[str] = []
    for folder, _, files in os.walk(path, followlinks=False):
        here = Path(folder)
        found += [
            (here / name).relative_to(path).as_posix()
            for name in files
            if (here / name).is_file() and not (here / name).is_symlink()
        ]
        if len(found) > MOST_MEMBERS:
            raise ImportRefused(f"{path} holds more than {MOST_MEMBERS:,} files. Name a folder of fewer runs.")
    return Folder(path, tuple(sorted(found)))


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise ImportRefused(
            f"{path.name} is no zip file, or only a part of one ({_why(error)}). Copy or download it again."
        ) from error


def _checked(file: zipfile.ZipFile) -> tuple[str, ...]:
    """Return the names of a zip; raises ImportRefused for one that would lead out of a folder, stands twice, or unpacks
    to too much.
    """
    infos = [info for info in file.infolist() if not info.is_dir()]
    names = [info.filename for info in infos]
    if len(names) > MOST_MEMBERS:
        raise ImportRefused(f"It holds {len(names):,} files; at most {MOST_MEMBERS:,} can be imported at once.")
    for name in names:
        if len(name) > LONGEST_NAME:
            raise ImportRefused(
                f"Its member '{shown(name)}' has a name of {len(name):,} characters; at most {LONGEST_NAME:,} "
                "can be read. Pack it again."
            )
        if (
            name.startswith("/")
            or "\\" in name
            or ":" in name.split("/")[0]
            or ".." in PurePosixPath(name).parts
            or "\0" in name
        ):
            raise ImportRefused(
                f"Its member '{shown(name)}' has a name that leads out of the file. No program that we import "
                "from writes such names."
            )
    if len(set(names)) < len(names):
        raise ImportRefused("It holds two members of one name. Pack it again.")
    total = sum(info.file_size for info in infos)
    if total > MOST_BYTES:
        raise ImportRefused(
            f"It unpacks to {total / 1e9:,.1f} GB; at most {MOST_BYTES / 1e9:,.1f} GB can be imported at once. "
            "Export fewer runs at a time."
        )
    read = [info for info in infos if not info.filename.startswith(LOGS)]
    whole = ("It", sum(info.file_size for info in read), sum(info.compress_size for info in read))
    for what, unpacked, size in (
        whole,
        *((f"Its member '{shown(info.filename)}'", info.file_size, info.compress_size) for info in read),
    ):
        if unpacked > SMALL and unpacked > DENSEST * max(1, size):
            raise ImportRefused(
                f"{what} unpacks to {unpacked // max(1, size):,} times its size; at most {DENSEST:,} times can "
                "be imported, since files that are made to "
                "fill a disk unpack to more. It was not read."
            )
    return tuple(sorted(names))
