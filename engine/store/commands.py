"""What people do to runs: launch, cancel, tag, note, rename. Each command is one short transaction with its event."""

import json
from collections.abc import Mapping
from typing import Any

from engine.errors import ConfigError, Problem, WrongStatus
from engine.home import named_data
from engine.launch_options import PRIORITIES, USUAL, Terms
from engine.seeding import SEEDING
from engine.store.clock import now
from engine.store.configs import keep_whole, listed
from engine.store.connection import Row
from engine.store.guarding import command, storable
from engine.store.launch_keys import LaunchKey, LaunchKeys
from engine.store.outbox import Telling
from engine.store.records import ENDED, RESUMED, RETRIED, RETRIES, Demand, Status, StopKind
from engine.store.shares import Sharing

TAG_LENGTH, NAME_LENGTH, NOTE_LENGTH = 40, 200, 20_000


class Commands(Sharing, Telling, LaunchKeys):
    """The commands of pages and command line."""

    @command(
        lambda given: "launch" if given.get("parent_id") is None else "retry",
        "run",
        lambda _, given: _known(given.get("parent_id")),
    )
    def add_run(
        self,
        experiment: str,
        config: Mapping[str, Any],
        *,
        owner: str,
        demand: Demand,
        preset: str | None = None,
        name: str = "",
        parent_id: int | None = None,
        resumes: bool = True,
        terms: Terms = USUAL,
        once: LaunchKey | None = None,
    ) -> int:
        """Queue a run and return its id; `parent_id` names the run that it resumes, or without `resumes` repeats from
        the start.

        One that repeats a run of a sweep belongs to that sweep too. A key given `once` before launches nothing: its run
        is returned. Raises NoSuchRun for a parent that is not there, ConfigError for a key that launched something
        else, LimitReached.
        """
        with self.change():
            if once and (there := self._launched_under(once, owner)) is not None:
                return there
            self._may_prefer(terms, owner)
            self._may_queue(owner, [demand], terms.max_run_time_s if parent_id is None else None)
            sweep_id = None
            if parent_id is not None:
                self._status(parent_id)
                sweep_id = (
                    None
                    if resumes
                    else self.connection.execute("SELECT sweep_id FROM runs WHERE id = ?", [parent_id]).fetchone()[0]
                )
            run_id = self._queue(
                experiment,
                config,
                owner=owner,
                demand=demand,
                preset=preset,
                name=name,
                parent_id=parent_id,
                sweep_id=sweep_id,
                resumes=resumes,
                terms=terms,
            )
            if parent_id is not None:
                self._note_event(parent_id, RESUMED if resumes else RETRIED, owner, f"as run {run_id}")
                self.touch(parent_id)
                if not resumes:
                    self._note_event(run_id, RETRIES, owner, f"run {parent_id} from the start")
            if once:
                self._keep_key(once, owner, run_id)
        return run_id

    @command("cancel", "run")
    def request_cancel(self, run_id: int, *, by: str, force: bool = False) -> Status:
        """Ask for the run's end: a queued one is cancelled at once, a live one is stopping. Returns the new status.

        With `force` its processes are killed without being asked first, also where it is stopping already.
        Raises NoSuchRun, WrongStatus where it has ended. Asking twice changes nothing.
        """
        with self.change():
            status = self._status(run_id)
            if status in ENDED:
                raise WrongStatus(f"Run {run_id} can't be cancelled: it is {status} already.")
            return self._cancel(run_id, status, by, "force" if force else "cancel")

    @command("tag", "run")
    def add_tag(self, run_id: int, tag: str, *, by: str) -> None:
        """Tag a run; a tag that it has already changes nothing. Raises ConfigError for one that is empty or
        too long.
        """
        tag = checked_tag(tag)
        self._edit(run_id, "tagged", by, tag, "INSERT OR IGNORE INTO tags (run_id, tag) VALUES (?, ?)", [run_id, tag])

    @command("untag", "run")
    def remove_tag(self, run_id: int, tag: str, *, by: str) -> None:
        """Take a tag off a run; one that it does not have changes nothing."""
        self._edit(
            run_id, "untagged", by, tag.strip(), "DELETE FROM tags WHERE run_id = ? AND tag = ?", [run_id, tag.strip()]
        )

    @command("note", "run")
    def set_note(self, run_id: int, text: str, *, by: str) -> None:
        """Write the run's note anew; raises ConfigError for one that is too long."""
        sql = "INSERT OR REPLACE INTO notes (run_id, text, author, at) VALUES (?, ?, ?, ?)"
        self._edit(run_id, "noted", by, "", sql, [run_id, _checked("note", text, NOTE_LENGTH), by, now()])

    @command("rename", "run")
    def rename(self, run_id: int, name: str, *, by: str) -> None:
        """Give the run another name; raises ConfigError for one that is too long."""
        name = checked_name(name)
        self._edit(run_id, "renamed", by, name, "UPDATE runs SET name = ? WHERE id = ?", [name, run_id])

    def add_event(self, run_id: int, kind: str, who: str, detail: str = "") -> None:
        """Keep what happened to a run."""
        with self.change():
            self.touch(run_id)
            self._note_event(run_id, kind, who, detail)

    def _may_prefer(self, terms: Terms, by: str) -> None:
        """Raise Forbidden where runs are to pass others and the person may not let them."""
        if terms.priority == PRIORITIES[-1]:
            self._check("prefer", by, "", [])

    def _queue(
        self,
        experiment: str,
        config: Mapping[str, Any],
        *,
        owner: str,
        demand: Demand,
        preset: str | None,
        name: str,
        parent_id: int | None = None,
        sweep_id: int | None = None,
        resumes: bool = True,
        terms: Terms = USUAL,
        attempt: int = 0,
        data_folder: str | None = None,
    ) -> int:
        """Put one run at the end of the queue, inside a change; its time limit is at most what its owner's limits
        allow.

        Its data folder is the one given, else the one that this process's environment names, else its parent's. No
        request can name one.
        """
        terms = self._cut(terms, owner)
        data_folder = data_folder or named_data() or self._data_folder(parent_id)
        whole = json.dumps(dict(config))
        cursor = self.connection.execute(
            "INSERT INTO runs"
            " (experiment, preset, name, owner, status, config, cores, gpus, ranks, threads_per_rank, "
            "parent_id, sweep_id, created_at,"
            " priority, oversubscribe, max_run_time_s, max_retries, resumes, attempt, seeding, data_folder, "
            "place, version)"
            " VALUES (?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " (SELECT coalesce(max(place), 0) + 1 FROM runs), (SELECT coalesce(max(version), 0) + 1 FROM runs))",
            [
                *(experiment, preset, name, owner, listed(whole)),
                *(demand.cores, demand.gpus, demand.ranks, demand.threads_per_rank, parent_id, sweep_id, now()),
                *(
                    PRIORITIES.index(terms.priority),
                    terms.oversubscribe,
                    terms.max_run_time_s,
                    terms.max_retries,
                    resumes,
                    attempt,
                    SEEDING,
                    data_folder,
                ),
            ],
        )
        run_id = cursor.lastrowid
        assert run_id is not None
        keep_whole(self.connection, run_id, whole)
        self._note_event(run_id, "queued", owner, f"{demand.ranks} ranks, {demand.cores} cores, {demand.gpus} GPUs")
        return run_id

    def _data_folder(self, run_id: int | None) -> str | None:
        row = self.row("SELECT data_folder FROM runs WHERE id = ?", [run_id])
        return row["data_folder"] if row else None

    def _cancel(self, run_id: int, status: Status, by: str, kind: StopKind = "cancel", detail: str = "") -> Status:
        """Cancel a run that is queued, or let a live one be stopping, inside a change; return its new status.

        One that is stopping stays as it is, but for a force that was not asked for yet.
        """
        if status == "stopping":
            if kind == "force":
                self._force(run_id, by)
            return status
        if status == "queued":
            sql = "UPDATE runs SET status = 'cancelled', cause = ?, ended_at = ? WHERE id = ?"
            self.connection.execute(sql, [f"Cancelled by {by}.", now(), run_id])
        else:
            self.connection.execute("UPDATE runs SET status = 'stopping' WHERE id = ?", [run_id])
        self.connection.execute(
            "UPDATE runs SET stop_requested_at = ?, stop_requested_by = ?, stop_kind = ? WHERE id = ?",
            [now(), by, kind, run_id],
        )
        new: Status = "cancelled" if status == "queued" else "stopping"
        self._note_event(run_id, new, by, detail or ("by force" if kind == "force" else ""))
        self.touch(run_id)
        if new == "cancelled":
            self._tell_end(run_id)
        return new

    def _force(self, run_id: int, by: str) -> None:
        sql = "UPDATE runs SET stop_kind = 'force', stop_requested_by = ? WHERE id = ? AND stop_kind <> 'force'"
        if self.connection.execute(sql, [by, run_id]).rowcount:
            self._note_event(run_id, "forced", by, "")
            self.touch(run_id)

    def _edit(self, run_id: int, kind: str, by: str, detail: str, sql: str, values: list[Any]) -> None:
        with self.change() as connection:
            self._status(run_id)
            if connection.execute(sql, values).rowcount:
                self._note_event(run_id, kind, by, detail)
                self.touch(run_id)

    def _status(self, run_id: int) -> Status:
        found: Row | None = self.connection.execute("SELECT status FROM runs WHERE id = ?", [run_id]).fetchone()
        if found is None:
            raise self.no_such_run(run_id)
        status: Status = found["status"]
        return status

    def _note_event(self, run_id: int, kind: str, who: str, detail: str) -> None:
        self.connection.execute(
            "INSERT INTO events (run_id, at, kind, who, detail) VALUES (?, ?, ?, ?, ?)",
            [run_id, now(), kind, who, storable(detail)],
        )


def _known(run_id: int | None) -> list[object]:
    return [] if run_id is None else [run_id]


def checked_tag(tag: str) -> str:
    """Return a tag without blanks round it; raises ConfigError where it is empty or too long."""
    tag = _checked("tag", tag, TAG_LENGTH)
    if not tag:
        raise ConfigError([Problem("tag", f"tag must have 1 to {TAG_LENGTH} characters, got ''.")])
    return tag


def checked_name(text: str) -> str:
    """Return the name of a run, sweep or duel without blanks round it; raises ConfigError where it is too long."""
    return _checked("name", text, NAME_LENGTH)


def _checked(field: str, text: str, most: int) -> str:
    """Return the text without blanks round it; raises ConfigError where it is too long."""
    text = storable(text).strip()
    if len(text) > most:
        raise ConfigError(
            [Problem(field, f"{field} must have at most {most:,} characters, got {len(text):,}. Shorten it.")]
        )
    return text
