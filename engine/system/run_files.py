"""Files in a run's folder by which its ranks lock and find each other; of no use once they have ended. Torch-free."""

from contextlib import suppress
from pathlib import Path

LOCK_SUFFIX = ".lock"
RENDEZVOUS_SUFFIX = ".rendezvous"
FORMER = ("rendezvous", "lines", "ring", "group")
"""How files of the second kind were named before, in the folders of runs that ended then."""


def is_meeting_file(path: Path) -> bool:
    """Say whether a file of a run's folder is one of these, by its name."""
    return path.suffix in (LOCK_SUFFIX, RENDEZVOUS_SUFFIX) or path.name in FORMER


def remove_meeting_files(folder: Path) -> None:
    """Remove these files of a run whose processes have all ended."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_meeting_file(path):
                with suppress(OSError):
                    path.unlink()
