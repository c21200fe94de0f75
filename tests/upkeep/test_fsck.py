"""What crashes can leave is found, said and mended; what is in use, or not ours, is never touched."""

import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import ProcessIdentity, RankBatch, Reader, Store
from engine.store.runs.files import arriving_content, content_path
from engine.system.processes import boot_id, identity, me
from engine.upkeep import fsck
from tests.upkeep.conftest import HOUR_AGO

Running = Callable[..., int]


def found(home: Home) -> dict[str, str]:
    return {trouble.kind: trouble.sentence for trouble in fsck.examine(home)}


def mend(home: Home) -> None:
    for trouble in fsck.examine(home):
        assert trouble.mend, trouble
        trouble.mend()


@pytest.fixture
def shelf() -> Iterator[Path]:
    """Give a folder that every user of the machine may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in Path(name).glob("home*"):
            path.chmod(0o700)


AS_ANOTHER = """
import json, os, sys
from pathlib import Path
from engine.home import Home
from engine.upkeep.fsck import examine
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps([[trouble.kind, trouble.sentence, trouble.cure] for trouble in examine(Home(Path(sys.argv[1])))]))
"""


@pytest.mark.processes
@pytest.mark.parametrize(("folder", "file"), [(0o555, 0o444), (0o555, 0o000), (0o000, 0o444)])
def test_a_home_that_may_not_be_written_is_no_damage(shelf: Path, folder: int, file: int) -> None:
    home = Home(shelf / "home").create()
    with Store.open(home):
        pass
    home.database.chmod(file)
    home.path.chmod(folder)
    ended = subprocess.run([sys.executable, "-c", AS_ANOTHER, str(home.path)], cwd=ROOT, capture_output=True, text=True)
    ((kind, sentence, cure),) = json.loads(ended.stdout or ended.stderr)
    assert kind == "access"
    assert re.search(r"parallab\.db can't be (written|opened|read)", sentence), sentence
    assert f"who owns {home.path}" in cure and "don't restore a backup" in cure


def test_a_store_that_is_no_database_is_damage(home: Home) -> None:
    home.database.write_bytes(b"nonsense" * 1_000)
    ((trouble,)) = fsck.examine(home)
    assert (trouble.kind, "Restore the newest good backup" in trouble.cure) == ("damage", True)


@pytest.fixture
def ended(store: Store, running: Running, home: Home) -> int:
    """A finished run with points of two metrics and a folder."""
    run_id = running()
    points = [Point("train/loss", step, 1.0 / (step + 1), step / 10) for step in range(600)]
    store.worker.write(run_id, [RankBatch(0, [*points, Point("test/loss", 600, float("nan"), 60.0)])])
    store.worker.add_log(run_id, "worker", "logs/worker.log")
    home.run_folder(run_id).mkdir(parents=True)
    store.claims.end(run_id, "finished", "Completed successfully")
    return run_id


def test_a_home_in_order_has_nothing_to_say(home: Home, ended: int, running: Running) -> None:
    assert found(home).keys() == set()
    assert found(Home(home.path / "nowhere")) == {}


@pytest.mark.parametrize(
    ("damage", "kind", "words"),
    [
        (
            "UPDATE metrics SET count = count + 5 WHERE name = 'train/loss'",
            "summary",
            "has 605 points, .*; its points have 600 points",
        ),
        ("UPDATE metrics SET last = 9 WHERE name = 'train/loss'", "summary", "last 9.0 at step 599"),
        ("UPDATE metrics SET low = -9 WHERE name = 'train/loss'", "summary", "-9.0 to 1.0; .* to 1.0"),
        ("DELETE FROM points WHERE id BETWEEN 50 AND 60", "summary", "has 600 points, .*; its points have 589 points"),
        ("DELETE FROM buckets WHERE bucket = 1", "corners", "1 curves have bounds"),
        ("UPDATE runs SET last_point_id = 3", "point ids", "The point counters of runs 1 are too low"),
        (
            "INSERT INTO events (run_id, at, kind, who, detail) VALUES (77, '', 'x', 'x', '')",
            "foreign keys",
            "The table events has 1 row with references to missing rows of runs",
        ),
        ("INSERT INTO tags (run_id, tag) VALUES (77, 'x')", "foreign keys", "The table tags has 1 row"),
        (
            "UPDATE runs SET parent_id = 77",
            "foreign keys",
            "The table runs has 1 row with references to missing rows of runs",
        ),
    ],
)
def test_what_does_not_fit_together_is_found_and_mended(
    home: Home, store: Store, ended: int, damage: str, kind: str, words: str
) -> None:
    store.db.connection.execute("PRAGMA foreign_keys = OFF")
    store.db.connection.execute(damage)
    told = found(home)
    assert told.keys() == {kind}
    assert re.search(words, told[kind]), told
    mend(home)
    assert found(home) == {}
    with Reader.open(home) as reader:
        assert reader.runs.one(ended).parent_id is None
        store.worker.write(ended, [RankBatch(0, [Point("train/loss", 600, 0.5, 60.0)])])
        assert reader.curves.series(ended, ["train/loss"], max_points=5)[0].steps[-1] == 600


def test_a_run_whose_worker_is_gone_becomes_lost_unless_a_runner_is_there_to_see(
    home: Home, store: Store, add: Callable[..., int]
) -> None:
    alive, gone, asked = add(), add(), add()
    store.claims.claim(alive, me(), ())
    for run_id in (gone, asked):
        store.claims.claim(run_id, ProcessIdentity(boot_id(), 10_000_000, 1), ())
    store.runs.cancel(asked, by="ada")
    with FileLock(home.runner_lock):
        assert found(home) == {}
    told = [trouble.sentence for trouble in fsck.examine(home)]
    assert [sentence.partition(" and no runner")[0] for sentence in told] == [
        f"Run {run_id} is {status}, but its worker (pid 10000000) is gone"
        for run_id, status in ((asked, "stopping"), (gone, "starting"))
    ]
    mend(home)
    with Reader.open(home) as reader:
        assert [reader.runs.one(run_id).status for run_id in (alive, gone, asked)] == ["starting", "lost", "cancelled"]


def test_folders_without_a_run_go_aside_and_runs_without_a_folder_are_named(
    home: Home, store: Store, ended: int
) -> None:
    orphan, fresh, data = home.path / "runs" / "41", home.path / "runs" / "42", home.path / "runs" / "notes"
    for folder in (orphan, fresh, data):
        folder.mkdir()
    (orphan / "checkpoint.pt").write_text("worth something")
    os.utime(orphan, (HOUR_AGO, HOUR_AGO))
    home.run_folder(ended).rmdir()
    told = found(home)
    assert told.keys() == {"orphan folders", "missing folder"}
    assert "without a run in the store: 41." in told["orphan folders"]
    assert "The folder of run 1 is missing, with its 1 logs" in told["missing folder"]
    mend(home)
    assert found(home) == {}
    assert [path.read_text() for path in home.aside.glob("orphans-*/41/checkpoint.pt")] == ["worth something"]
    assert fresh.is_dir()
    assert data.is_dir()


def test_half_written_files_sockets_and_locks_of_ended_runs_go_and_those_of_a_live_one_stay(
    home: Home, store: Store, ended: int, add: Callable[..., int]
) -> None:
    run_id = add()
    store.claims.claim(run_id, me(), ())
    live = home.run_folder(run_id)
    live.mkdir()
    home.backups.mkdir()
    for folder in (live, home.run_folder(ended)):
        (folder / "checkpoint.pt.part").write_text("half")
        (folder / "checkpoint.pt").write_text("whole")
        (folder / "step.lock").touch()
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(folder / "bell"))
    half = home.backups / "parallab-2026.db.part"
    half.write_text("half")
    with FileLock(home.backups / "backup.lock"):
        assert "3 leftover sockets, locks" in found(home)["leftovers"]
    assert "4 leftover sockets, locks and partial files" in found(home)["leftovers"]
    assert all(trouble.harmless for trouble in fsck.examine(home))
    mend(home)
    assert found(home) == {}
    assert sorted(path.name for path in live.iterdir()) == ["bell", "checkpoint.pt", "checkpoint.pt.part", "step.lock"]
    assert [path.name for path in home.run_folder(ended).iterdir()] == ["checkpoint.pt"]


def test_a_damaged_store_is_said_to_be_and_no_mending_is_tried(home: Home, store: Store, ended: int) -> None:
    store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    size = store.db.rows("PRAGMA page_size")[0][0]
    store.close()
    with home.database.open("r+b") as file:
        for page in range(6, home.database.stat().st_size // size):
            file.seek(page * size)
            file.write(b"\xff" * 64)
    (trouble,) = fsck.examine(home)
    assert (trouble.kind, trouble.mend, trouble.harmless) == ("damage", None, False)
    assert "restore FILE" in trouble.cure


@pytest.mark.processes
def test_processes_and_shared_memory_of_ended_runs_are_named_and_mended(
    home: Home, store: Store, run_with: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {"GRACE_S": -1.0, "KILL_S": 60.0}.items():
        monkeypatch.setattr(f"engine.upkeep.leftovers.{name}", seconds)
    memory = Path("/dev/shm")
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    worker = identity(process.pid)
    assert worker
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    segment = memory / f"torch_{gone.pid}_parallab_{os.getpid()}"
    try:
        run_id = run_with(worker, gone.pid)
        home.run_folder(run_id).mkdir(parents=True)
        segment.write_bytes(bytes(4096))
        assert found(home) == {}
        store.claims.end(run_id, "failed", "It broke.")
        told = found(home)
        assert told["processes"] == f"Leftover processes: {process.pid} (run {run_id})."
        assert re.fullmatch(
            rf"1 leftover shared memory segments \(0\.0 MB\) of ended ranks: shm/{segment.name}\.",
            told["shared memory"],
        )
        mend(home)
        assert (process.wait(), segment.exists(), found(home)) == (-15, False, {})
    finally:
        process.kill()
        segment.unlink(missing_ok=True)
    with Reader.open(home) as reader:
        (event,) = (event for event in reader.details.events(run_id) if event.kind == "cleaned up")
    assert (event.who, event.detail) == (
        "fsck",
        f"process {process.pid} of run {run_id}, shared memory {segment} of run {run_id}",
    )


def test_kept_files_are_checked_by_their_hash_and_content_without_a_run_is_found(
    home: Home, store: Store, running: Running
) -> None:
    run_id = running()
    for name, content in (("whole", b"1"), ("changed", b"2"), ("gone", b"3"), ("removed", b"4")):
        with arriving_content(home, io.BytesIO(content)) as arriving:
            store.files.keep(run_id, name, arriving, by="ada")
    files = {each.name: content_path(home, each.sha256) for each in store.read.files.of([run_id])}
    files["changed"].write_bytes(b"5")
    files["gone"].unlink()
    store.files.remove(run_id, "removed", by="ada")
    told = found(home)
    assert told["kept files"] == (
        f"Kept files whose content is missing or damaged: changed of run {run_id}, gone of run {run_id}."
    )
    assert told["unkept files"] == "1 kept file without a run (1 B)."
    for trouble in fsck.examine(home):
        if "files" in trouble.kind and trouble.mend:
            trouble.mend()
    assert [each.name for each in store.read.files.of([run_id])] == ["whole"]
    store.files.sweep()
    assert [path.name for path in home.files.glob("*/*")] == [files["whole"].name]
