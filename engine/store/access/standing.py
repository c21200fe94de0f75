"""A person's standing in this lab: admin, member, viewer, a part of Parallab, or nobody."""

from engine.access.rules import LOST, PersonStanding, Program
from engine.errors import StoreError
from engine.store.access.accounts_mark import is_marked
from engine.store.connection import Connection


class AccessReader:
    """Queries of permissions, and of whether this lab has accounts."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def standing(self, name: str) -> PersonStanding:
        """Return a person's current standing; in a lab without accounts, and for parts of Parallab, everything is
        permitted.
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
        """Return whether the lab has accounts, so that rules apply and the console requires a sign-in."""
        return self.db.row("SELECT 1 FROM people LIMIT 1") is not None

    def require_accounts(self) -> None:
        """Raise StoreError if the lab has accounts but this store has none: it was emptied, deleted or replaced."""
        if not self.has_people() and is_marked(self.db.home):
            raise StoreError(LOST)
