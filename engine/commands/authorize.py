"""Permission check for commands outside the store's tables: backups, retention, stopping the runner. The store decides
and keeps the audit log.
"""

import os
from contextlib import suppress

from engine.access.rules import Program
from engine.errors import StoreError
from engine.home import Home
from engine.store import Reader, Store


def operator(home: Home, login: str) -> str:
    """Return who gives a maintenance command that names nobody: for the Unix user to whom the home belongs, unless
    `login` is an account, a name of its own that may. File permissions already let that user do everything.
    """
    if home.database.exists() and os.geteuid() in (0, home.path.stat().st_uid):
        with suppress(StoreError), Reader.open(home) as reader:
            names = [each.name for each in reader.people.everyone()]
            if names and login not in names:
                return Program(f"{login} on the command line")
    return login


def permit(home: Home, command: str, *, by: str, detail: str = "", damaged: bool = False) -> None:
    """Check a person's permission for a command and record it in the audit log; raises Forbidden.

    A home without a store has no rules yet. With `damaged`, a store that can't be opened permits the command: a repair
    needs write access to its files, which already grants everything.
    """
    if not home.database.exists():
        return
    try:
        with Store.open(home) as store:
            store.access.permit(command, by=by, detail=detail)
    except StoreError:
        if not damaged:
            raise
