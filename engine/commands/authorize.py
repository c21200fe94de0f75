"""Permission check for commands outside the store's tables: backups, retention, stopping the runner. The store decides
and keeps the audit log.
"""

from engine.errors import StoreError
from engine.home import Home
from engine.store import Store


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
