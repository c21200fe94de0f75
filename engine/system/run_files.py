"""Lock and rendezvous files of ranks in a run's folder, useless after their end. Torch-free."""

from contextlib import suppress
from pathlib import Path

LOCK_SUFFIX = ".lock"
RENDEZVOUS_SUFFIX = ".rendezvous"
FORMER = ("rendezvous", "lines", "ring", "group")
"""Previous names of rendezvous files, in the folders of old runs."""


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
