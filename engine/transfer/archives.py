"""A folder, a zip file or a single file as a set of named members, with limits against hostile files.

Members are never unpacked to disk under their own names, and never read past their declared size.
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
"""Total unpacked size of all members."""
DENSEST = 100
"""Maximum compression ratio of a member, or a zip, that unpacks to more than `SMALL`; training records stay below 20.
Logs are exempt: repeated lines compress to zip's limit, and a log is copied in pieces, never held in memory.
"""
LOGS = "logs/"
SMALL = 16 << 20
LONGEST_NAME = 1_000


class Members(Protocol):
    """Files by name, relative to one root."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names, with slashes, in order."""

    def size(self, name: str) -> int:
        """Return a member's size in bytes."""

    def open(self, name: str) -> IO[bytes]:
        """Open a member for reading; raises ImportRefused if that fails."""


@dataclass(frozen=True)
class Folder:
    """The files below a folder, without links, which could point to any file of the machine."""

    path: Path
    names: tuple[str, ...]

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
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
    """Open members, closed with the zip: an import may stop anywhere."""

    def size(self, name: str) -> int:
        """Return a member's declared size, at which reading ends."""
        return self.file.getinfo(name).file_size

    def open(self, name: str) -> IO[bytes]:
        """Open a member; raises ImportRefused if it is encrypted or its compression is unknown."""
        try:
            self.open_ones.append(self.file.open(name))
            return self.open_ones[-1]
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OSError,
        ) as error:  # OSError: an offset before the start of the file
            raise ImportRefused(
                f"Member '{shown(name)}' can't be read: {_why(error)}. Compress the file again with deflate, "
                "without a password."
            ) from error


@contextmanager
def members(path: Path) -> Iterator[Members]:
    """Open a folder or file; raises ImportRefused if it is missing, an invalid zip, or over a limit."""
    if path.is_dir():
        yield _folder(path)
    elif not path.is_file():
        raise ImportRefused(f"{path} doesn't exist.")
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
    """Return a member of at most `most` bytes; raises ImportRefused if it is larger or damaged."""
    if source.size(name) > most:
        raise ImportRefused(f"Member '{shown(name)}' is too large: {source.size(name):,} bytes; at most {most:,}.")
    with opened(source, name) as file:
        return file.read(most + 1)


@contextmanager
def opened(source: Members, name: str) -> Iterator[IO[bytes]]:
    """Open a member; damage found while reading raises ImportRefused."""
    with source.open(name) as file:
        try:
            yield file
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ImportRefused(
                f"Member '{shown(name)}' is damaged ({_why(error)}). Copy or download the file again."
            ) from error


def lines(source: Members, name: str, most: int) -> Iterator[bytes]:
    """Yield the lines of a member; raises ImportRefused for a line of more than `most` bytes."""
    with opened(source, name) as file:
        buffered = io.BufferedReader(file)  # type: ignore[type-var]  # a member's own readline takes a time that grows with the square of the line
        number = 0
        while line := buffered.readline(most + 1):
            number += 1
            if len(line) > most:
                raise ImportRefused(
                    f"'{shown(name)}', line {number:,}, is longer than the maximum of {most:,} bytes. Export it again."
                )
            yield line


def shown(name: str, most: int = 80) -> str:
    """Return a name from a file for use in a message, cut to `most` characters."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _why(error: Exception) -> str:
    """Return zipfile's message, which can quote the file."""
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
            raise ImportRefused(f"{path} has more than {MOST_MEMBERS:,} files. Choose a folder of fewer runs.")
    return Folder(path, tuple(sorted(found)))


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise ImportRefused(
            f"{path.name} is not a zip file, or is incomplete ({_why(error)}). Copy or download it again."
        ) from error


def _checked(file: zipfile.ZipFile) -> tuple[str, ...]:
    """Return the names of a zip; raises ImportRefused for unsafe or duplicate names, or too large contents."""
    infos = [info for info in file.infolist() if not info.is_dir()]
    names = [info.filename for info in infos]
    if len(names) > MOST_MEMBERS:
        raise ImportRefused(f"Too many files: {len(names):,}; at most {MOST_MEMBERS:,} can be imported at once.")
    for name in names:
        if len(name) > LONGEST_NAME:
            raise ImportRefused(
                f"The name of member '{shown(name)}' has {len(name):,} characters; at most {LONGEST_NAME:,} are "
                "supported. Shorten it."
            )
        if (
            name.startswith("/")
            or "\\" in name
            or ":" in name.split("/")[0]
            or ".." in PurePosixPath(name).parts
            or "\0" in name
        ):
            raise ImportRefused(
                f"Member '{shown(name)}' has an unsafe path, which no supported program writes. The file "
                "was not imported."
            )
    if len(set(names)) < len(names):
        raise ImportRefused("Two members have the same name. Compress the file again.")
    total = sum(info.file_size for info in infos)
    if total > MOST_BYTES:
        raise ImportRefused(
            f"The file unpacks to {total / 1e9:,.1f} GB; at most {MOST_BYTES / 1e9:,.1f} GB can be imported at once. "
            "Export fewer runs at a time."
        )
    read = [info for info in infos if not info.filename.startswith(LOGS)]
    whole = ("The file", sum(info.file_size for info in read), sum(info.compress_size for info in read))
    for what, unpacked, size in (
        whole,
        *((f"Member '{shown(info.filename)}'", info.file_size, info.compress_size) for info in read),
    ):
        if unpacked > SMALL and unpacked > DENSEST * max(1, size):
            raise ImportRefused(
                f"{what} unpacks to {unpacked // max(1, size):,} times its size; at most {DENSEST:,} times is "
                "allowed, as protection against zip bombs."
            )
    return tuple(sorted(names))
