"""The marker file of a lab with accounts: an emptied, lost or replaced store never opens the lab again.

It is written before the first account is committed, so a crash between the two leaves the lab closed, not open.
"""

import os

from engine.errors import StoreError
from engine.home import Home

_ABOUT = (
    "This lab has accounts. While this file exists, a store without accounts is refused. Delete it only to open "
    "the lab to everyone on this machine.\n"
)


def is_marked(home: Home) -> bool:
    """Return whether the home belongs to a lab with accounts."""
    return os.path.lexists(home.accounts)


def mark(home: Home) -> None:
    """Write the marker file and wait until it is on disk; raises StoreError."""
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
            f"{home.accounts} can't be written: {error.strerror}. Check the owner of {home.path} and the free disk "
            "space."
        ) from error
