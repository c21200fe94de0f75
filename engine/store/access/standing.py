"""Who somebody is to this lab: an admin, a member, a viewer, a part of Parallab, or nobody."""

from engine.access.rules import LOST, PersonStanding, Program
from engine.errors import StoreError
from engine.store.access.accounts_mark import is_marked
from engine.store.connection import Connection


class AccessReader:
    """Questions about what a person may do, and whether this lab has accounts."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def standing(self, name: str) -> PersonStanding:
        """Return what a person may do at this moment; in a lab without accounts that is everything, as it is for a part
        of Parallab.
        """
        if isinstance(name, Program):
            return PersonStanding(name, "admin", open=True)
        if not self.has_people():
            return (
                PersonStanding(name, None, lost=True)
                if is_marked(self.db.home)
                else PersonStanding(name, "admin", open=True)
            )
        row = self.db.row("SELECT name, role FROM people WHERE name = ? AND disabled_at IS NULL", [name])
        return PersonStanding(name, row["role"] if row and row["name"] == name else None)

    def has_people(self) -> bool:
        """Say whether the lab has accounts, so that rules hold and the console asks for a sign-in."""
        return self.db.row("SELECT 1 FROM people LIMIT 1") is not None

    def require_accounts(self) -> None:
        """Raise StoreError where the lab has accounts and this store holds none: it was emptied, deleted or
        replaced.
        """
        if not self.has_people() and is_marked(self.db.home):
            raise StoreError(LOST)
