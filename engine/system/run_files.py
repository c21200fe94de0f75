"""Files of a run's folder: opened without following a link, those that are useless after its end, and what an unknown
run left there. Torch-free.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from engine.home import Home
from engine.store.timestamps import now

LOCK_SUFFIX = ".lock"
RENDEZVOUS_SUFFIX = ".rendezvous"
FORMER = ("rendezvous", "lines", "ring", "group")
"""Previous names of rendezvous files, in the folders of old runs."""
ASIDE = "aside"
"""Folder among the run folders for those that were moved aside, where the home's is on another file system."""


@contextmanager
def opened_within(folder: int | Path, name: str) -> Iterator[IO[bytes]]:
    """Open a regular file of a folder (its descriptor or path) for reading; a link or a special file raises
    FileNotFoundError, as if it was not there.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if isinstance(folder, Path) else os.dup(folder)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise FileNotFoundError(errno.ENOENT, "no regular file", name) from error
    finally:
        os.close(descriptor)
    with os.fdopen(file, "rb") as found:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FileNotFoundError(errno.ENOENT, "no regular file", name)
        yield found


def is_meeting_file(path: Path) -> bool:
    """Return whether a file of a run's folder is one of these, by its name."""
    return path.suffix in (LOCK_SUFFIX, RENDEZVOUS_SUFFIX) or path.name in FORMER


def remove_meeting_files(folder: Path) -> None:
    """Remove these files of a run whose processes have all ended."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_meeting_file(path):
                with suppress(OSError):
                    path.unlink()


def aside_of(home: Home) -> Path:
    """Return where run folders are moved aside: in the home, or in `runs/` if that is on another file system."""
    runs = home.run_folder(0).parent
    is_apart = runs.exists() and runs.stat().st_dev != home.path.stat().st_dev
    return runs / ASIDE if is_apart else home.aside


def put_aside(home: Home, folder: Path, occasion: str) -> Path:
    """Move a folder of `runs/` to `aside/<occasion>/` of the home, or of `runs/` if that is on another file system;
    return its new place. Nothing is copied; raises OSError, and nothing has changed.
    """
    for place in (home.aside / occasion, folder.parent / ASIDE / occasion):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return folder.rename(place / folder.name)
        except OSError as error:
            with suppress(OSError):
                place.rmdir()
            if error.errno != errno.EXDEV:
                raise
    raise OSError(errno.EXDEV, "is a file system of its own", str(folder))


def vacate(home: Home, run_id: int) -> Path | None:
    """Move aside what another run of this number left in a new run's folder; return its new place, None without
    anything.
    """
    folder = home.run_folder(run_id)
    try:
        if not folder.is_symlink() and not any(folder.iterdir()):
            return None
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_symlink() and not folder.exists():
            return None
    return put_aside(home, folder, f"found-{now().replace(':', '-')}")
