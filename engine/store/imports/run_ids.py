"""Reservation of run ids before their rows exist."""

from engine.store.reader import Reader
from engine.store.store import Store


def reserve(store: Store, count: int) -> range:
    """Return ids that no other run will ever get, so that files placed in their folders before the rows can't end up in
    another run.
    """
    with store.db.change() as connection:
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
        if row is None:
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', ?)", [count])
        else:
            connection.execute("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'runs'", [count])
    first = int(row[0] if row else 0) + 1
    return range(first, first + count)


def last_id(reader: Store | Reader) -> int:
    """Return the highest id assigned or reserved so far."""
    row = reader.db.row("SELECT seq FROM sqlite_sequence WHERE name = 'runs'")
    return int(row["seq"]) if row else 0


def without_run(reader: Store | Reader, after: int) -> list[int]:
    """Return the ids above `after` that were assigned but have no run."""
    last = last_id(reader)  # before the runs: one that is launched meanwhile lies beyond it
    here = {row["id"] for row in reader.db.rows("SELECT id FROM runs WHERE id > ?", [after])}
    return [run_id for run_id in range(after + 1, last + 1) if run_id not in here]
