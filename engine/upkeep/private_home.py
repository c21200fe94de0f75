"""A home that nobody but its owner can read: what lies open in it is closed at each start. Links are never followed."""

import errno
import logging
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import StoreError
from engine.home import Home
from engine.umask import PRIVATE

log = logging.getLogger(__name__)
_OURS = frozenset(
    (
        "accounts",
        "aside",
        "backups",
        "catalogue",
        "checksums",
        "cookie",
        "data",
        "import",
        "limits",
        "mail",
        "parallab",
        "presence",
        "restoring",
        "runner",
        "runs",
        "schema",
        "spare",
    )
)
"""How the names begin, up to a dot, of what Parallab keeps in a home; whatever else lies there is not ours to change.
"""
NAMED = 3
"""So many of the paths are named in a sentence."""


@dataclass(frozen=True)
class Open:
    """A file or folder of a home that its group or others have a right to."""

    path: Path
    mode: int
    owner: int

    def __str__(self) -> str:
        return f"{self.path} (mode {self.mode:04o}, owner {_name_of(self.owner)})"


def open_parts(home: Home) -> list[Open]:
    """Return what group or others have a right to; of what a link of the home leads to, the folder or file itself."""
    return [*(found for found, _, _ in _open(home)), *_open_targets(home)]


def _open_targets(home: Home) -> Iterator[Open]:
    """Yield what the home's own links lead to and others can reach; a start leaves that as it is, since it lies outside
    the home.
    """
    for link in home.path.iterdir() if home.path.is_dir() else ():
        if (
            link.is_symlink() and link.name.partition(".")[0] in _OURS - {"data"} and link.exists()
        ):  # data sets may be for others too
            target = link.resolve()
            about = target.stat()
            if about.st_mode & PRIVATE:
                yield Open(target, stat.S_IMODE(about.st_mode), about.st_uid)


def close_home(home: Home) -> None:
    """Take the rights of group and others away; raises StoreError where something stays open."""
    left, closed = [], 0
    for found, name, folder in _open(home):
        try:
            _close(name, folder)
            closed += 1
        except FileNotFoundError:
            continue
        except OSError:
            left.append(found)
    if left:
        raise StoreError(f"Others can reach files of this lab that can't be closed: {named(left)}. {cure(home)}")
    if closed:
        log.info("Took the rights of group and others from %d files and folders of %s.", closed, home.path)


def named(found: list[Open]) -> str:
    """Return the first few of what is open, in words."""
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return f"{', '.join(map(str, found[:NAMED]))}{more}"


def cure(home: Home) -> str:
    """Return what makes a home private."""
    owned = f"chown -R {_name_of(os.geteuid())} {home.path}; chmod -R go= {home.path}; likewise what its links lead to"
    return f"Own and close them ({owned}), or name a folder of your own in PARALLAB_HOME."


def _open(home: Home) -> Iterator[tuple[Open, str, int]]:
    """Yield what is open with its name and the descriptor of its folder, from the top down; a folder that is closed
    meanwhile is looked into all the same.
    """
    top = home.path.resolve()
    if not top.is_dir():
        return
    above = os.open(top.parent, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        yield from _judged(top.parent, [top.name], above, top)
    finally:
        os.close(above)
    for root, folders, files, here in os.fwalk(top):
        if root == str(top):
            folders[:] = [name for name in folders if name.partition(".")[0] in _OURS]
            files = [name for name in files if name.partition(".")[0] in _OURS]
        yield from _judged(Path(root), [*folders, *files], here, top)


def _judged(root: Path, names: list[str], folder: int, top: Path) -> Iterator[tuple[Open, str, int]]:
    for name in names:
        with suppress(FileNotFoundError):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if (
                about.st_mode & PRIVATE
                and not stat.S_ISLNK(about.st_mode)
                and not _is_others_data(root / name, about.st_uid, top)
            ):
                yield Open(root / name, stat.S_IMODE(about.st_mode), about.st_uid), name, folder


def _is_others_data(path: Path, owner: int, top: Path) -> bool:
    """Return whether it is a data set of another user, mounted or shared: that is no secret of this lab."""
    return owner != os.geteuid() and path.is_relative_to(top / "data")


def _close(name: str, folder: int) -> None:
    """Take the rights of group and others from what has that name, never from what a link leads to; raises OSError
    where they stay.
    """
    held = os.open(name, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW, dir_fd=folder)
    try:
        about = os.fstat(held)
        if not stat.S_ISLNK(about.st_mode):
            _set_mode(held, stat.S_IMODE(about.st_mode) & 0o700)
            if os.fstat(held).st_mode & PRIVATE:
                raise PermissionError(errno.EPERM, "The file system keeps no modes", name)
    finally:
        os.close(held)


def _set_mode(held: int, mode: int) -> None:
    if hasattr(
        os, "O_PATH"
    ):  # such a descriptor reaches sockets and unreadable files too, and is changed by its name in /proc
        Path(f"/proc/self/fd/{held}").chmod(mode)
    else:
        os.fchmod(held, mode)


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
