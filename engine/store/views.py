"""Saved views: the address of a page under a name, kept for the whole lab. Only its owner changes or deletes one."""

from dataclasses import dataclass

from engine.errors import ConfigError, Problem
from engine.store.clock import now
from engine.store.connection import Connected, Writing

NAME_LENGTH, QUERY_LENGTH = 80, 4_000


@dataclass(frozen=True)
class SavedView:
    """One page as somebody left it."""

    id: int
    name: str
    owner: str
    page: str
    """Its path without the slash, such as compare."""
    query: str
    """What stands behind the question mark of its address."""
    saved_at: str


class Views(Connected):
    """The questions about saved views."""

    def views(self, *, page: str | None = None, owner: str | None = None, limit: int = 100) -> list[SavedView]:
        """Return saved views, those of a page or an owner alone where asked, by name."""
        sql = (
            "SELECT id, name, owner, page, query, saved_at FROM views WHERE page = coalesce(?, page) AND owner = coalesce(?, owner)"
            " ORDER BY name COLLATE NOCASE, owner, id LIMIT ?"
        )
        return [SavedView(*row) for row in self.rows(sql, [page, owner, limit])]


class ViewCommands(Writing):
    """The commands about saved views."""

    def save_view(self, name: str, page: str, query: str, *, owner: str) -> int:
        """Keep a page's query under a name and return the view's id; one that the owner has under that name is written anew.

        Raises ConfigError for a name or query that is empty or too long.
        """
        name = " ".join(name.split())
        for field, text, most in (("name", name, NAME_LENGTH), ("query", query, QUERY_LENGTH)):
            if not 0 < len(text) <= most:
                raise ConfigError([Problem(field, f"The {field} of a saved view must have 1 to {most:,} characters, got {len(text):,}.")])
        sql = (
            "INSERT INTO views (name, owner, page, query, saved_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, page, name)"
            " DO UPDATE SET query = excluded.query, saved_at = excluded.saved_at RETURNING id"
        )
        with self.change() as connection:
            return int(connection.execute(sql, [name, owner, page, query, now()]).fetchone()[0])

    def delete_view(self, view_id: int, *, by: str) -> bool:
        """Delete a view; False where it is gone already. Raises ConfigError where it is somebody else's."""
        with self.change() as connection:
            row = connection.execute("SELECT name, owner FROM views WHERE id = ?", [view_id]).fetchone()
            if row is None:
                return False
            if row["owner"] != by:
                raise ConfigError([Problem("owner", f"The view '{row['name']}' is of {row['owner']}, who alone can delete it; you are {by}.")])
            connection.execute("DELETE FROM views WHERE id = ?", [view_id])
            return True
