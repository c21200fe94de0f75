"""The mark of a lab that has accounts: a file beside the store, so that a store that was emptied, lost or replaced
never opens the lab again.

It is on the disk before the first account is committed: a crash between the two leaves a lab that is closed, not one
that is open.
"""

import os

from engine.errors import StoreError
from engine.home import Home

_ABOUT = (
    "This lab has accounts. While this file exists, a store without accounts is refused. Delete it only to open "
    "the lab to everyone on this machine.\n"
)


def is_marked(home: Home) -> bool:
    """Return whether the home belongs to a lab that has accounts."""
    return os.path.lexists(home.accounts)


def mark(home: Home) -> None:
    """Mark the home as one of a lab that has accounts, and wait until the disk has it; raises StoreError."""
    try:
        with os.fdopen(os.open(home.accounts, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_ABOUT)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(home.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(
            f"{home.accounts} can't be written: {error.strerror}. Check who owns {home.path}, and that its "
            "disk has room."
        ) from error
