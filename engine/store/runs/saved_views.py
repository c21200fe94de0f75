"""Saved views: the URL of a page under a name, for the whole lab. Only its owner changes or deletes one."""

from dataclasses import dataclass

from engine.access.confusables import visible
from engine.errors import ConfigError, Problem
from engine.store.access.authorization import command
from engine.store.access.standing import AccessReader
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now

NAME_LENGTH, QUERY_LENGTH = 80, 4_000


@dataclass(frozen=True)
class SavedView:
    """A saved page."""

    id: int
    name: str
    owner: str
    page: str
    """Its path without the slash, such as compare."""
    query: str
    """Query string of its URL."""
    saved_at: str


class ViewReader:
    """Queries of saved views."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def find(self, *, page: str | None = None, owner: str | None = None, limit: int = 100) -> list[SavedView]:
        """Return saved views by name, optionally only those of a page or an owner."""
        sql = (
            "SELECT id, name, owner, page, query, saved_at FROM views WHERE page = coalesce(?, page) AND owner "
            "= coalesce(?, owner)"
            " ORDER BY sort_key(name), sort_key(owner), id LIMIT ?"
        )
        return [SavedView(*row) for row in self.db.rows(sql, [page, owner, limit])]


class ViewCommands:
    """Commands of saved views."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._access = AccessReader(db)

    @command("save view")
    def save(self, name: str, page: str, query: str, *, owner: str) -> int:
        """Save a page's query under a name and return the view's id; an existing view of the owner with that name is
        replaced.

        Raises ConfigError for an empty or too long name or query.
        """
        name = _checked("name", " ".join(name.split()), NAME_LENGTH)
        _checked("query", query, QUERY_LENGTH)
        sql = (
            "INSERT INTO views (name, owner, page, query, saved_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, "
            "page, name)"
            " DO UPDATE SET query = excluded.query, saved_at = excluded.saved_at RETURNING id"
        )
        with self.db.change() as connection:
            return int(connection.execute(sql, [name, owner, page, query, now()]).fetchone()[0])

    @command("rename view", "view")
    def rename(self, view_id: int, name: str, *, by: str) -> bool:
        """Rename a view; False if it does not exist. Raises ConfigError for another person's view, or a name that is
        invalid or taken.
        """
        name = _checked("name", " ".join(name.split()), NAME_LENGTH)
        with self.db.change() as connection:
            row = self._own(view_id, by, "rename")
            if row is None:
                return False
            sql = "SELECT 1 FROM views WHERE owner = ? AND page = ? AND name = ? AND id <> ?"
            if connection.execute(sql, [row["owner"], row["page"], name, view_id]).fetchone():
                who = "You have" if row["owner"] == by else f"{row['owner']} has"
                raise ConfigError(
                    [
                        Problem(
                            "name",
                            (f"{who} a view of this page named '{name}'. Choose another name or delete that view."),
                        )
                    ]
                )
            connection.execute("UPDATE views SET name = ? WHERE id = ?", [name, view_id])
            return True

    @command("delete view", "view")
    def delete(self, view_id: int, *, by: str) -> bool:
        """Delete a view; False if it does not exist. Raises ConfigError for another person's view."""
        with self.db.change() as connection:
            if self._own(view_id, by, "delete") is None:
                return False
            connection.execute("DELETE FROM views WHERE id = ?", [view_id])
            return True

    def _own(self, view_id: int, by: str, verb: str) -> Row | None:
        """Return a view's row, None if it does not exist; raises ConfigError for another person's view in a lab without
        roles.
        """
        row: Row | None = self.db.connection.execute(
            "SELECT name, owner, page FROM views WHERE id = ?", [view_id]
        ).fetchone()
        if row is not None and row["owner"] != by and self._access.standing(by).open:
            raise ConfigError(
                [
                    Problem(
                        "owner",
                        f"Only {row['owner']}, the owner of the view '{row['name']}', can {verb} it; you are {by}.",
                    )
                ]
            )
        return row


def _checked(field: str, text: str, most: int) -> str:
    visible(field, text)
    if not 0 < len(text) <= most:
        raise ConfigError(
            [Problem(field, f"The {field} of a saved view must have 1 to {most:,} characters; got {len(text):,}.")]
        )
    return text
