"""Keep a home private to its owner: access of others is removed at each start. Links are never followed."""

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
from engine.home import PRIVATE, Home

log = logging.getLogger(__name__)
_OURS = frozenset(
    (
        "accounts",
        "aside",
        "backups",
        "catalogue",
        "checksums",
        "clusters",
        "command-link",
        "console",
        "cookie",
        "data",
        "experiments",
        "files",
        "exercises",
        "import",
        "limits",
        "mail",
        "methods",
        "notices",
        "parallab",
        "presence",
        "restoring",
        "runner",
        "runs",
        "schema",
        "spare",
    )
)
"""Names, up to a dot, of Parallab's entries in a home; other entries are never changed."""
NAMED = 3
"""Maximum number of paths in a message."""


@dataclass(frozen=True)
class Open:
    """A file or folder of a home that its group or others can access."""

    path: Path
    mode: int
    owner: int

    def __str__(self) -> str:
        return f"{self.path} (mode {self.mode:04o}, owner {_name_of(self.owner)})"


def open_parts(home: Home) -> list[Open]:
    """Return the entries that group or others can access; for a link in the home, its target."""
    return [*(found for found, _, _ in _open(home)), *_open_targets(home)]


def _open_targets(home: Home) -> Iterator[Open]:
    """Yield accessible targets of the home's links; a start doesn't change them, as they are outside the home."""
    for link in home.path.iterdir() if home.path.is_dir() else ():
        if (
            link.is_symlink() and link.name.partition(".")[0] in _OURS - {"data"} and link.exists()
        ):  # data sets may be shared
            target = link.resolve()
            about = target.stat()
            if about.st_mode & PRIVATE:
                yield Open(target, stat.S_IMODE(about.st_mode), about.st_uid)


def close_home(home: Home) -> None:
    """Remove the rights of group and others; raises StoreError if that fails."""
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
        raise StoreError(
            f"Other users can access files of this lab, and their rights can't be removed: {named(left)}. {cure(home)}"
        )
    if closed:
        log.info("Removed the rights of group and others from %d files and folders of %s.", closed, home.path)


def named(found: list[Open]) -> str:
    """Return the first few accessible entries as text."""
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return f"{', '.join(map(str, found[:NAMED]))}{more}"


def cure(home: Home) -> str:
    """Return the cure for an accessible home."""
    owned = (
        f"chown -R {_name_of(os.geteuid())} {home.path}; chmod -R go= {home.path}; likewise for the targets "
        "of its links"
    )
    return f"Make them private ({owned}), or set PARALLAB_HOME to a folder of your own."


def _open(home: Home) -> Iterator[tuple[Open, str, int]]:
    """Yield accessible entries with their names and folder descriptors, top down; a folder closed meanwhile is still
    searched.
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
    """Return whether it is another user's data set, mounted or shared, which needs no protection."""
    return owner != os.geteuid() and path.is_relative_to(top / "data")


def _close(name: str, folder: int) -> None:
    """Remove the rights of group and others from an entry, never from a link's target; raises OSError if that fails."""
    held = os.open(name, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW, dir_fd=folder)
    try:
        about = os.fstat(held)
        if not stat.S_ISLNK(about.st_mode):
            _set_mode(held, stat.S_IMODE(about.st_mode) & 0o700)
            if os.fstat(held).st_mode & PRIVATE:
                raise PermissionError(errno.EPERM, "The file system doesn't support modes", name)
    finally:
        os.close(held)


def _set_mode(held: int, mode: int) -> None:
    if hasattr(os, "O_PATH"):  # O_PATH also opens sockets and unreadable files; its mode is changed through /proc
        Path(f"/proc/self/fd/{held}").chmod(mode)
    else:
        os.fchmod(held, mode)


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
