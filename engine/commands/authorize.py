"""The rule for commands that are carried out beside the store's tables: backups, retention, the runner's end. The store
decides and keeps the audit log.
"""

from engine.errors import StoreError
from engine.home import Home
from engine.store import Store


def permit(home: Home, command: str, *, by: str, detail: str = "", damaged: bool = False) -> None:
    """Let somebody give a command and keep that in the audit log; raises Forbidden.

    A home without a store has no rules yet. With `damaged` a store that can't be opened stops nobody: mending it takes
    its files, and whoever may write those needs nobody's leave.
    """
    if not home.database.exists():
        return
    try:
        with Store.open(home) as store:
            store.access.permit(command, by=by, detail=detail)
    except StoreError:
        if not damaged:
            raise
