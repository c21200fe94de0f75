"""A folder, a zip file or a single file as a set of named members, with limits against hostile files.

Members are never unpacked to disk under their own names, and never read past their declared size. Files that operating
systems and editors add, and links, are left out with a note.
"""

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

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
MOST_NAMED = 3
"""Files named in a note."""
_DRIVE = re.compile(r"[A-Za-z]:")
_OF_SYSTEMS = {
    *("__macosx", ".trashes", ".spotlight-v100", ".fseventsd", "$recycle.bin", "system volume information", "@eadir"),
    *(".git", ".hg", ".svn", ".idea", ".vscode", ".ipynb_checkpoints"),
}
"""Folders of operating systems, version control and editors, in lower case."""
_OF_EDITORS = re.compile(r"\..*|desktop\.ini|(?:eh)?thumbs\.db|icon\r|.*~|#.*#|~\$.*", re.DOTALL)
"""Files of operating systems and editors, in lower case: hidden ones, thumbnails, backups and locks."""


class DamagedMember(ImportRefused):
    """A member of a zip is damaged; the others may be whole."""


class Members(Protocol):
    """Files by name, relative to one root."""

    @property
    def names(self) -> Collection[str]:
        """The names, with slashes, in order."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes on the files that are left out."""

    def size(self, name: str) -> int:
        """Return a member's size in bytes."""

    def open(self, name: str) -> IO[bytes]:
        """Open a member for reading; raises ImportRefused if that fails."""


@dataclass(frozen=True)
class Folder:
    """The files below a folder, without links, which could point to any file of the machine."""

    path: Path
    files: Mapping[str, str]
    """The place of each file below the folder, by its name as a member."""
    notes: Sequence[str] = ()

    @property
    def names(self) -> Collection[str]:
        """The names of its files."""
        return self.files.keys()

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        return (self.path / self.files[name]).lstat().st_size

    def open(self, name: str) -> IO[bytes]:
        """Open a file; raises ImportRefused if that fails."""
        try:
            return (self.path / self.files[name]).open("rb")
        except OSError as error:
            raise ImportRefused(
                f"'{shown(name)}' can't be read: {error.strerror}. Change its permissions, or import a copy."
            ) from error


@dataclass(frozen=True)
class Zip:
    """The members of a zip file."""

    file: zipfile.ZipFile
    infos: Mapping[str, zipfile.ZipInfo]
    notes: Sequence[str]
    open_ones: list[IO[bytes]] = field(default_factory=list)
    """Open members, closed with the zip: an import may stop anywhere."""

    @property
    def names(self) -> Collection[str]:
        """The names of its members."""
        return self.infos.keys()

    def size(self, name: str) -> int:
        """Return a member's declared size, at which reading ends."""
        return self.infos[name].file_size

    def open(self, name: str) -> IO[bytes]:
        """Open a member; raises ImportRefused if it is encrypted or its compression is unknown."""
        try:
            self.open_ones.append(self.file.open(self.infos[name]))
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


def without_damaged(source: Members) -> Members:
    """Return the members that can be read to their ends; a note names the others. Reads all of a zip."""
    assert isinstance(source, Zip)
    damaged = list[str]()
    for name in source.names:
        try:
            with opened(source, name) as file:
                while file.read(1 << 20):
                    pass
        except DamagedMember:
            damaged.append(name)
    infos = {name: info for name, info in source.infos.items() if name not in damaged}
    return replace(source, infos=infos, notes=[*source.notes, *_left_out("damaged", damaged)])


@contextmanager
def members(path: Path) -> Iterator[Members]:
    """Open a folder or file; raises ImportRefused if it is missing, an invalid zip, or over a limit."""
    if path.is_dir():
        yield _folder(path)
    elif not path.is_file():
        raise ImportRefused(f"{path} doesn't exist.")
    elif path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        with _zip(path) as file:
            found = Zip(file, *_members_of(file))
            try:
                yield found
            finally:
                for each in found.open_ones:
                    each.close()
    else:
        yield Folder(path.parent, {path.name: path.name})


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
            raise DamagedMember(
                f"Member '{shown(name)}' is damaged ({_why(error)}). Copy or download the file again."
            ) from error


def lines(source: Members, name: str, most: int) -> Iterator[bytes]:
    """Yield the lines of a member with their line ends; of a line of more than `most` bytes, its beginning alone."""
    with opened(source, name) as file:
        buffered = io.BufferedReader(file)  # type: ignore[type-var]  # a member's own readline takes a time that grows with the square of the line
        while line := buffered.readline(most):
            yield line
            while not line.endswith(b"\n") and line:
                line = buffered.readline(most)


def shown(name: str, most: int = 80) -> str:
    """Return a name from a file for use in a message, cut to `most` characters."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _why(error: Exception) -> str:
    """Return zipfile's message, which can quote the file."""
    return shown(str(error).rstrip("."), 200)


def _folder(path: Path) -> Folder:
    places, links = list[str](), list[str]()
    for folder, folders, names in os.walk(path, followlinks=False):
        here = Path(folder)
        for each in map(here.joinpath, (*folders, *names)):
            if each.is_symlink():
                links.append(each.relative_to(path).as_posix())
            elif each.is_file():
                places.append(each.relative_to(path).as_posix())
        if len(places) > MOST_MEMBERS:
            raise ImportRefused(f"{path} has more than {MOST_MEMBERS:,} files. Choose a folder of fewer runs.")
    files: dict[str, str] = {}
    for place in sorted(places, key=lambda place: "\\" in place):
        name = place.replace("\\", "/")  # unpacked from a zip of Windows by a program that kept its back-slashes
        files[place if name in files or _is_unsafe(name) else name] = place
    return Folder(path, *_of_runs(files, sorted(links)))


def _of_runs(files: Mapping[str, Any], links: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the files without those of operating systems and editors, in order, and notes on what is left out."""
    kept = {name: files[name] for name in sorted(files) if not _is_of_system(name)}
    notes = list[str]()
    for what, left_out in (
        ("files of the operating system or an editor", sorted(files.keys() - kept.keys())),
        ("links", links),
    ):
        notes += _left_out(what, left_out)
    return kept, notes


def _left_out(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    named = ", ".join(f"'{shown(name)}'" for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return [f"Left out as {what}: {named}{more}."]


def _is_of_system(name: str) -> bool:
    *folders, file = name.lower().split("/")
    return not _OF_SYSTEMS.isdisjoint(folders) or _OF_EDITORS.fullmatch(file) is not None


def _is_unsafe(name: str) -> bool:
    """Return whether a name with slashes could point outside its folder on any system."""
    return name.startswith("/") or ".." in name.split("/") or "\0" in name or _DRIVE.match(name) is not None


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise ImportRefused(
            f"{path.name} is not a zip file, or is incomplete ({_why(error)}). Copy or download it again."
        ) from error


def _members_of(file: zipfile.ZipFile) -> tuple[dict[str, zipfile.ZipInfo], list[str]]:
    """Return the members of a zip by name, and notes on those left out; raises ImportRefused for unsafe or duplicate
    names, or too large contents.

    Some programs for Windows write back-slashes between folders, which the format doesn't allow: they are read as
    slashes, before any name is checked.
    """
    infos = [info for info in file.infolist() if not info.filename.endswith(("/", "\\"))]
    if len(infos) > MOST_MEMBERS:
        raise ImportRefused(f"Too many files: {len(infos):,}; at most {MOST_MEMBERS:,} can be imported at once.")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.replace("\\", "/")
        if len(name) > LONGEST_NAME:
            raise ImportRefused(
                f"The name of member '{shown(name)}' has {len(name):,} characters; at most {LONGEST_NAME:,} are "
                "supported. Shorten it."
            )
        if _is_unsafe(name):
            raise ImportRefused(
                f"Member '{shown(info.filename)}' has an unsafe path, which no supported program writes. The file "
                "was not imported."
            )
        if members.setdefault(str(PurePosixPath(name)), info) is not info:
            raise ImportRefused(f"Two members have the same name, '{shown(name)}'. Compress the file again.")
    _check_sizes(infos)
    links = {name for name, info in members.items() if stat.S_ISLNK(info.external_attr >> 16)}
    return _of_runs({name: info for name, info in members.items() if name not in links}, sorted(links))


def _check_sizes(infos: Sequence[zipfile.ZipInfo]) -> None:
    """Raise ImportRefused for contents that are too large, or compressed as only a zip bomb is."""
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
