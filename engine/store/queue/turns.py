"""Turns in the queue: the runs of exercises share the places that they hold among them, round robin by person."""

import json
from collections import Counter

from engine.store.connection import WriteConnection
from engine.store.records import ALIVE


def take_turn(db: WriteConnection, run_id: int) -> None:
    """Give a new run of an exercise its turn, within the change that queues it: a person's second run waits for the
    first one of everybody.

    It moves behind the last run of its round, counted from the runs that its owner has queued or live, and the runs of
    exercises behind it move back by one of their places; all other runs keep theirs. What a person moved stays where it
    is, relative to the others.
    """
    of = "FROM runs JOIN attempt_runs ON run_id = runs.id WHERE"
    queued = db.rows(
        f"SELECT id, owner, place {of} status = 'queued' AND priority = (SELECT priority FROM runs WHERE id = ?)"
        " ORDER BY place",
        [run_id],
    )
    rounds = Counter(db.column(f"SELECT owner {of} status IN (SELECT value FROM json_each(?))", [json.dumps(ALIVE)]))
    before, round_of = list[int](), dict[int, int]()
    for row in queued:
        rounds[row["owner"]] += 1
        round_of[row["id"]] = rounds[row["owner"]]
        if row["id"] != run_id:
            before.append(row["id"])
    at = max((place for place, each in enumerate(before, 1) if round_of[each] <= round_of[run_id]), default=0)
    places = {row["id"]: row["place"] for row in queued}
    turns = [*before[:at], run_id, *before[at:]]
    for each, place in zip(turns, sorted(places.values()), strict=True):
        if places[each] != place:
            db.connection.execute("UPDATE runs SET place = ? WHERE id = ?", [place, each])
