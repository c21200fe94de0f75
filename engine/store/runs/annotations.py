"""Annotations of runs: names, notes, tags, stars, the archive, an experiment's baseline. Each command is one
transaction with its events.

Archived runs are only hidden; retention exempts runs with a star, a tag or a pin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.access.confusables import visible
from engine.errors import ConfigError, WrongStatus
from engine.store.access.authorization import AccessReader, command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.records import ENDED
from engine.store.runs.commands import NOTE_LENGTH, RunChanges, checked_name, checked_tag, checked_text
from engine.store.scripts import SCRIPT
from engine.store.timestamps import now


class AnnotationCommands:
    """Annotation commands of pages and command line."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._changes = RunChanges(db)

    @command("note", "run")
    def set_note(self, run_id: int, text: str, *, by: str) -> None:
        """Replace the run's note; raises ConfigError for a too long one."""
        sql = "INSERT OR REPLACE INTO notes (run_id, text, author, at) VALUES (?, ?, ?, ?)"
        self._edit(run_id, "noted", by, "", sql, [run_id, checked_text("note", text, NOTE_LENGTH), by, now()])

    @command("rename", "run")
    def rename(self, run_id: int, name: str, *, by: str) -> None:
        """Rename the run; raises ConfigError for a too long name."""
        name = checked_name(name)
        self._edit(run_id, "renamed", by, name, "UPDATE runs SET name = ? WHERE id = ?", [name, run_id])

    @command("tag", "run")
    def tag(self, run_ids: Sequence[int], tag: str, *, by: str) -> list[int]:
        """Add a tag to runs; return those that did not have it. Raises ConfigError for an empty or too long tag."""
        tag = checked_tag(tag)
        return self._mark(run_ids, "tagged", by, tag, "INSERT OR IGNORE INTO tags (run_id, tag) VALUES (?1, ?2)", tag)

    @command("untag", "run")
    def untag(self, run_ids: Sequence[int], tag: str, *, by: str) -> list[int]:
        """Remove a tag from runs; return those that had it."""
        return self._mark(
            run_ids, "untagged", by, tag.strip(), "DELETE FROM tags WHERE run_id = ?1 AND tag = ?2", tag.strip()
        )

    @command("star", "run")
    def star(self, run_ids: Sequence[int], *, by: str) -> list[int]:
        """Star runs, with one star for the whole lab; return those that had none."""
        return self._mark(
            run_ids, "starred", by, "", "UPDATE runs SET starred_by = ?2 WHERE id = ?1 AND starred_by IS NULL", by
        )

    @command("unstar", "run")
    def unstar(self, run_ids: Sequence[int], *, by: str) -> list[int]:
        """Unstar runs, whoever starred them; return those that had a star."""
        return self._mark(
            run_ids, "unstarred", by, "", "UPDATE runs SET starred_by = NULL WHERE id = ?1 AND starred_by IS NOT NULL"
        )

    @command("archive", "run")
    def archive(self, run_ids: Sequence[int], *, by: str) -> list[int]:
        """Archive runs: tables hide them, filters still find them; return those that were not archived. Raises
        WrongStatus for a run that has not ended.
        """
        sql = "UPDATE runs SET archived_by = ?2 WHERE id = ?1 AND archived_by IS NULL"
        return self._mark(run_ids, "archived", by, "", sql, by, only_ended=True)

    @command("unarchive", "run")
    def unarchive(self, run_ids: Sequence[int], *, by: str) -> list[int]:
        """Unarchive runs; return those that were archived."""
        sql = "UPDATE runs SET archived_by = NULL WHERE id = ?1 AND archived_by IS NOT NULL"
        return self._mark(run_ids, "unarchived", by, "", sql)

    @command("pin", "run", lambda store, given: [given["run_id"], *store._baseline_beside(given["run_id"])])
    def pin(self, run_id: int, *, by: str) -> int | None:
        """Pin a run as its experiment's baseline; return the previous baseline, if any."""
        with self.db.change():
            self._changes.status(run_id)
            if self._is_pinned(run_id):
                return None
            before = next(iter(self._baseline_beside(run_id)), None)
            if before is not None:
                self._mark_one(
                    before, "unpinned", by, f"for run {run_id}", "UPDATE runs SET pinned_by = NULL WHERE id = ?1", []
                )
            self._mark_one(run_id, "pinned", by, "", "UPDATE runs SET pinned_by = ?2 WHERE id = ?1", [by])
            return before

    @command("unpin", "run")
    def unpin(self, run_id: int, *, by: str) -> list[int]:
        """Unpin a baseline; return the run if it was one."""
        return self._mark(
            [run_id], "unpinned", by, "", "UPDATE runs SET pinned_by = NULL WHERE id = ?1 AND pinned_by IS NOT NULL"
        )

    def _baseline_beside(self, run_id: int) -> list[int]:
        """Return the other run that is the baseline of a run's experiment or script, if any."""
        kind = f"(SELECT experiment, {SCRIPT} FROM runs WHERE id = ?1)"
        sql = f"SELECT id FROM runs WHERE pinned_by IS NOT NULL AND id <> ?1 AND (experiment, {SCRIPT}) = {kind}"
        return self.db.column(sql, [run_id])

    def _is_pinned(self, run_id: int) -> bool:
        return self.db.exists("SELECT 1 FROM runs WHERE id = ? AND pinned_by IS NOT NULL", [run_id])

    def _mark(
        self, run_ids: Sequence[int], kind: str, by: str, detail: str, sql: str, *values: Any, only_ended: bool = False
    ) -> list[int]:
        """Change each run by `sql` (?1: its id); return the changed ones."""
        with self.db.change():
            for run_id in run_ids:
                if (status := self._changes.status(run_id)) not in ENDED and only_ended:
                    raise WrongStatus(
                        f"Run {run_id} can't be archived while it is {status}. Cancel it, or wait until it has ended."
                    )
            return [
                run_id
                for run_id in dict.fromkeys(run_ids)
                if self._mark_one(run_id, kind, by, detail, sql, list(values))
            ]

    def _mark_one(self, run_id: int, kind: str, by: str, detail: str, sql: str, values: list[Any]) -> bool:
        if self.db.connection.execute(sql, [run_id, *values]).rowcount == 0:
            return False
        self._changes.note_event(run_id, kind, by, detail)
        self.db.touch(run_id)
        return True

    def _edit(self, run_id: int, kind: str, by: str, detail: str, sql: str, values: list[Any]) -> None:
        with self.db.change() as connection:
            self._changes.status(run_id)
            if connection.execute(sql, values).rowcount:
                self._changes.note_event(run_id, kind, by, detail)
                self.db.touch(run_id)


# ---- Saved views: the URL of a page under a name, for the whole lab ------------------------------------------------
# Only its owner changes or deletes one.

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
        return self.db.records(SavedView, sql, [page, owner, limit])


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
                raise ConfigError.of(
                    "name", f"{who} a view of this page named '{name}'. Choose another name or delete that view."
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
            raise ConfigError.of(
                "owner", f"Only {row['owner']}, the owner of the view '{row['name']}', can {verb} it; you are {by}."
            )
        return row


def _checked(field: str, text: str, most: int) -> str:
    visible(field, text)
    if not 0 < len(text) <= most:
        raise ConfigError.of(
            field, f"The {field} of a saved view must have 1 to {most:,} characters; got {len(text):,}."
        )
    return text
