"""Retention takes what is old and nothing else, leaves summaries as they were, and says before what it would do."""

import math
from collections.abc import Callable
from contextlib import closing

import pytest

from engine.access.rules import Program
from engine.errors import ConfigError, Forbidden, NoSuchRun
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store, SweepLaunch
from engine.store.maintenance import integrity
from engine.store.maintenance.retention import to_delete, to_thin
from engine.store.timestamps import now
from engine.upkeep.retention_policy import RetentionPolicy, collect, deletable, delete_runs, preview
from tests.labs import basic

Running = Callable[..., int]
OLD = RetentionPolicy(thin_after_days=30, delete_after_days=None, points=100)
OLDER = RetentionPolicy(thin_after_days=None, delete_after_days=30, points=100)


def age(store: Store, run_id: int, days: float) -> None:
    """Let a run have ended so many days ago."""
    with store.db.change() as connection:
        sql = "UPDATE runs SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) WHERE id = ?"
        connection.execute(sql, [f"-{days} days", run_id])


@pytest.fixture
def long_run(store: Store, running: Running, home: Home) -> Callable[..., int]:
    """Bring a run with 5,000 points, its least and its last finite ones in odd places, to its end; return its id."""

    def made(days: float = 90, **more: object) -> int:
        run_id = running(**more)
        values = [float(step % 97) for step in range(5_000)]
        values[1234], values[4997], values[4998], values[4999] = -5.0, 3.5, math.nan, math.nan
        store.worker.write(
            run_id, [RankBatch(0, [Point("train/loss", step, value, step / 10) for step, value in enumerate(values)])]
        )
        folder = home.run_folder(run_id)
        folder.mkdir(parents=True)
        (folder / "checkpoint.pt").write_bytes(b"x" * 1000)
        if days:
            store.claims.end(run_id, "finished", "Completed successfully")
            age(store, run_id, days)
        return run_id

    return made


def test_an_old_curve_keeps_its_corners_its_summary_and_its_last_value(
    home: Home, store: Store, reader: Reader, long_run: Callable[..., int]
) -> None:
    run_id = long_run()
    before = reader.details.summaries(run_id)
    foreseen = preview(home, OLD)
    assert [(curve.run_id, curve.points) for curve in foreseen.thinned] == [(run_id, 5_000)]
    assert (foreseen.points, foreseen.store_bytes > 0) == (4_900, True)
    assert reader.curves.series(run_id, ["train/loss"])[0].total == 5_000, "a preview changes nothing"
    done = collect(home, OLD, by="ada")
    (curve,) = reader.curves.series(run_id, ["train/loss"])
    assert len(curve.ids) == curve.total <= 101
    assert {0, 1234, 4997, 4999} <= set(curve.steps)
    assert done.points == 5_000 - curve.total
    assert reader.details.summaries(run_id) == before
    assert list(integrity.unlike_summaries(reader)) == []
    assert list(integrity.unlike_corners(reader)) == []
    assert not preview(home, OLD).thinned
    assert (home.run_folder(run_id) / "checkpoint.pt").is_file()


def test_thinning_says_the_same_twice_and_a_file_gives_its_room_back(
    home: Home, store: Store, reader: Reader, long_run: Callable[..., int]
) -> None:
    first, second = long_run(), long_run()
    collect(home, OLD, by="ada")
    one, other = (reader.curves.series(run_id, ["train/loss"])[0] for run_id in (first, second))
    assert one.steps == other.steps
    for _ in range(5):
        long_run()
    store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    before = home.database.stat().st_size
    done = collect(home, OLDER, by="ada")
    store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    assert done.store_bytes > 500_000
    assert before - home.database.stat().st_size >= done.store_bytes
    with closing(store.db.connection.execute("PRAGMA integrity_check")) as found:
        assert found.fetchone()[0] == "ok"


def test_an_older_run_goes_whole_with_its_folder_and_the_change_token_grows(
    home: Home, store: Store, reader: Reader, long_run: Callable[..., int]
) -> None:
    young, old = long_run(days=10), long_run()
    token = reader.runs.token()
    foreseen = preview(home, OLDER)
    assert ([run.run_id for run in foreseen.deleted], foreseen.points, foreseen.folder_bytes) == ([old], 5_000, 1_000)
    assert [run.run_id for run in collect(home, OLDER, by="ada").deleted] == [old]
    assert [row.id for row in reader.runs.find()] == [young]
    assert not home.run_folder(old).exists()
    assert home.run_folder(young).exists()
    assert reader.runs.token() > token
    rows = [reader.db.rows(f"SELECT count(*) FROM {name}")[0][0] for name in ("runs", "metrics", "points", "buckets")]
    assert rows == [1, 1, 5_000, 20]
    assert reader.db.rows("PRAGMA foreign_key_check") == []


def test_an_imported_run_is_as_old_as_its_import(store: Store, long_run: Callable[..., int]) -> None:
    run_id = long_run(days=900)
    origin = "INSERT INTO origins (run_id, kind, host, original_id, owner, fingerprint, file, imported_at, imported_by)"
    with store.db.change() as connection:
        connection.execute(f"{origin} VALUES (?, 'mlflow', '', 1, '', 'f', 'runs.zip', ?, 'ada')", [run_id, now()])
    assert not to_delete(store.read, 30) and not to_thin(store.read, 30, 100)
    with store.db.change() as connection:
        connection.execute("UPDATE origins SET imported_at = '2020-01-01T00:00:00.000Z'")
    assert [each.run_id for each in to_delete(store.read, 30)] == [run_id]
    assert {each.run_id for each in to_thin(store.read, 30, 100)} == {run_id}


def test_a_run_on_a_tagged_one_and_those_of_a_sweep_that_goes_on_are_left_alone(
    home: Home, store: Store, long_run: Callable[..., int]
) -> None:
    demand = Demand(1, 0, 1, 1)
    sweep = store.sweeps.add(
        SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": [1, 2]}),
        [Launch("hogwild", {"seed": 1}, demand=demand), Launch("hogwild", {"seed": 2}, demand=demand)],
    )
    ended, waiting = (row["id"] for row in store.db.rows("SELECT id FROM runs WHERE sweep_id = ? ORDER BY id", [sweep]))
    store.claims.refuse(ended, "It can never be placed.")
    age(store, ended, 90)
    tagged, parent = long_run(), long_run()
    long_run(days=0)
    store.annotations.tag([tagged], "starred", by="ada")
    child = store.runs.add(Launch("hogwild", {}, "ada", parent_id=parent, demand=demand))
    for policy in (OLD, OLDER):
        found = preview(home, policy)
        assert (found.thinned, found.deleted) == ((), ())
        assert collect(home, policy, by="ada").points == 0
    store.runs.cancel(waiting, by="ada")
    store.runs.cancel(child, by="ada")
    assert [run.run_id for run in collect(home, OLDER, by="ada").deleted] == [ended, parent]


def test_a_sweep_goes_with_its_last_run_and_a_policy_that_names_no_age_is_refused(
    home: Home, store: Store, reader: Reader
) -> None:
    sweep = store.sweeps.add(
        SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": [1]}),
        [Launch("hogwild", {"seed": 1}, demand=Demand(1, 0, 1, 1))],
    )
    (run_id,) = (row.id for row in reader.sweeps.runs(sweep))
    store.runs.cancel(run_id, by="ada")
    age(store, run_id, 90)
    collect(home, OLDER, by="ada")
    assert reader.sweeps.count() == 0
    with pytest.raises(ConfigError, match="needs --thin-after-days, --delete-after-days, or both"):
        preview(home, RetentionPolicy(None, None, 100))
    with pytest.raises(ConfigError, match="points must be at least 5, got 4"):
        preview(home, RetentionPolicy(1, None, 4))


def test_runs_that_a_person_names_are_deleted_with_all_they_have_but_protected_ones(
    home: Home, store: Store, reader: Reader, long_run: Callable[..., int]
) -> None:
    gone, tagged, alive = long_run(1), long_run(1), long_run(0)
    store.annotations.tag([tagged], "thesis", by="ada")
    basic.keep(store, gone, "net.pt", b"weights")
    assert deletable(reader, [alive, tagged, gone]) == [gone]
    store.people.add("ada", "admin", by=Program("first"))
    store.people.add("mo", "member", by="ada")
    with pytest.raises(Forbidden, match="Only admins can delete runs"):
        delete_runs(home, [gone], by="mo")
    assert reader.runs.one(gone).status == "finished"
    assert delete_runs(home, [alive, tagged, gone, 99], by="ada") == [gone]
    with pytest.raises(NoSuchRun):
        reader.runs.one(gone)
    assert [row.id for row in reader.runs.find()] == [alive, tagged]
    assert not home.run_folder(gone).exists() and not list(home.files.glob("*/*"))
    assert [(each.who, each.targets) for each in reader.audit.entries(command="delete")] == [
        *(("ada", (gone,)), ("mo", (gone,)))
    ]
    assert not integrity.strangers(store)
