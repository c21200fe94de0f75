"""A long write lets others write between its portions; until the last one, an import's runs are nowhere to be seen, and
what a killed import leaves is cleared.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from filelock import FileLock

from engine.errors import StoreBusy
from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store, connection
from engine.store.curves.ingest import hidden
from engine.store.maintenance import integrity, retention
from engine.store.maintenance.backup_copy import copy_store, examine_copy
from engine.system.processes import me
from engine.transfer.import_child import import_path
from engine.transfer.import_process import clear_killed
from engine.upkeep import fsck
from tests.app.browsing import Client
from tests.transfer.bundles.bundle_files import counts
from tests.transfer.readers import events

Turns = list[object]
LONG = 60_000
"""Points of a run whose copy, deletion or recount is of several portions."""


@pytest.fixture
def turns(ours: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], Turns]]:
    """Let portions end wherever they may; in each gap another connection, which never waits, writes and looks."""
    monkeypatch.setattr(connection, "PORTION_S", 0.0, raising=False)
    with Store.open(ours.db.home, timeout_s=0.0) as other:

        def begin(look: Callable[[], object], each: int = 1) -> Turns:
            seen: Turns = []

            def turn(seconds: float) -> None:
                with other.db.change() as change:
                    change.execute("UPDATE runs SET name = ? WHERE id = 1", [f"turn {next(numbers)}"])
                with monkeypatch.context() as usual:
                    usual.setattr(time, "sleep", sleep)
                    seen.append(look() if len(seen) % each == 0 else seen[-1])

            numbers, sleep = count(), time.sleep
            monkeypatch.setattr(time, "sleep", turn)
            return seen

        yield begin


def outside(home: Home) -> tuple[object, ...]:
    """Return what pages, the API, filters, quotas and fsck show of a lab, and what a backup holds."""
    with Reader.open(home) as reader:
        names = reader.fields.names()
        rows = reader.runs.count(), reader.runs.statuses(), names.metrics, names.settings, reader.quotas.held("Lin")
        ids = [run_id for arrived in hidden(reader.db) for run_id in arrived] or [10**6]
    answers = Client()
    missing = {
        re.sub(r"\d+", "N", answers.get(f"{path}{run_id}{rest}").text)
        for run_id in (ids[0], ids[-1])
        for path, rest in (("/api/v1/runs/", ""), ("/api/v1/runs/", "/curves"), ("/api/series?run=", ""))
    }
    troubles = [trouble.kind for trouble in fsck.examine(home)]
    backup = home.path / "copy.db"
    copied = copy_store(home, backup, pause_s=0.0), examine_copy(backup)
    backup.unlink()
    return (*rows, sorted(missing), troubles, copied)


@pytest.mark.parametrize("kind", ["bundle", "tensorboard"])
def test_an_import_lets_others_write_and_is_hidden_until_its_last_portion(
    kind: str, bundle: Path, ours: Store, turns: Callable[..., Turns], tmp_path: Path
) -> None:
    path = bundle if kind == "bundle" else events.write(tmp_path / "events.out.tfevents.1", steps=12_000)
    home = ours.db.home
    with FileLock(home.import_lock):  # as `import_in_child` holds it
        before = outside(home)
        seen = turns(lambda: outside(home), each=8)
        arrived = import_path(ours, path, by="Lin")
    assert len(seen) >= 3 and all(each == before for each in seen)
    with Reader.open(home) as reader:
        assert reader.runs.count() == 1 + len(arrived.ids)
        assert reader.runs.one(1).name == f"turn {len(seen) - 1}"
        (entry,) = reader.audit.entries(command="import")
    assert (entry.who, entry.kind, entry.targets, entry.detail) == ("Lin", "run", arrived.ids, path.name)
    assert not hidden(ours.db) and list(fsck.examine(home)) == []


KILLED = """
import os, signal, sys, time
from pathlib import Path
from engine.home import Home
from engine.store import Store, connection
from engine.transfer.import_child import import_path
gaps = iter(range(int(sys.argv[2])))
connection.PORTION_S = 0.0
time.sleep = lambda seconds: None if next(gaps, None) is not None else os.kill(os.getpid(), signal.SIGKILL)
with Store.open(Home.find()) as store:
    import_path(store, Path(sys.argv[1]), by="Lin")
"""


@pytest.mark.processes
@pytest.mark.parametrize("portions", [0, 2, 6])
def test_what_a_killed_import_leaves_is_hidden_named_and_cleared(bundle: Path, ours: Store, portions: int) -> None:
    home = ours.db.home
    before, rows = outside(home), counts(ours)
    command = [sys.executable, "-c", KILLED, str(bundle), str(portions)]
    assert subprocess.run(command, cwd=ROOT, env=os.environ, check=False).returncode == -signal.SIGKILL
    assert hidden(ours.db) and counts(ours) != rows
    with FileLock(home.import_lock):
        assert outside(home) == before
        assert clear_killed(ours) == 0, "an import in progress is left alone"
    (trouble,) = fsck.examine(home)
    assert (trouble.kind, trouble.harmless) == ("import", True) and trouble.mend
    trouble.mend()
    assert (counts(ours), list(home.path.glob("runs/*")), clear_killed(ours)) == (rows, [], 0)
    assert len(import_path(ours, bundle, by="Lin").ids) == 5


@pytest.fixture
def long_runs(ours: Store) -> tuple[int, int]:
    """Give an ended run of many points, and a run that resumes it."""
    curve = [Point("train/loss", step, float(step % 97), step / 10) for step in range(LONG)]
    ids = []
    for _ in range(2):
        ids.append(ours.runs.add(Launch("hogwild", {}, "Lin", demand=Demand(1, 0, 1, 1))))
        ours.claims.claim(ids[-1], me(), ())
        ours.worker.begin(ids[-1], me(), {})
    ours.worker.write(ids[0], [RankBatch(0, curve)])
    ours.claims.end(ids[0], "finished", "It finished.")
    ours.db.connection.execute("UPDATE runs SET parent_id = ? WHERE id = ?", ids)
    return ids[0], ids[1]


def resume(store: Store, parent: int, child: int) -> None:
    assert store.worker.go_on_from_parent(child, step=LONG, time_s=1e9)


def mend(store: Store, parent: int, child: int) -> None:
    (metric,) = store.db.rows("SELECT id FROM metrics WHERE run_id = ?", [parent])[0]
    integrity.mend_summaries(store, [integrity.Unlike(metric, parent, "train/loss", 0, "", "")])


def thin(store: Store, parent: int, child: int) -> None:
    store.claims.end(child, "finished", "It finished.")
    (curve,) = (each for each in retention.to_thin(Reader(store.db), -1.0, 1_000) if each.run_id == parent)
    retention.thin(store, curve, 1_000)


def delete(store: Store, parent: int, child: int) -> None:
    store.claims.end(child, "finished", "It finished.")
    assert retention.delete(store, parent, -1.0)


@pytest.mark.parametrize("work", [resume, mend, thin, delete])
def test_other_long_writes_let_others_write(
    work: Callable[[Store, int, int], None], ours: Store, long_runs: tuple[int, int], turns: Callable[..., Turns]
) -> None:
    with Reader.open(ours.db.home) as reader:
        seen = turns(lambda: reader.curves.series(long_runs[1], ["train/loss"]))
        work(ours, *long_runs)
        assert len(seen) >= 3
        assert not any(seen), "a resumed run's curves appear at once"
        assert list(fsck.examine(ours.db.home)) == [] or work is delete
        if work is resume:
            parent, child = (reader.curves.series(run_id, ["train/loss"])[0] for run_id in long_runs)
            assert (child.ids, child.values, child.total) == (parent.ids, parent.values, LONG)


def test_a_writer_tries_again_every_few_milliseconds_and_gives_up_at_its_deadline(
    ours: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own waits grow to 100 ms, so that a writer would miss the gaps."""
    waits: list[float] = []
    with Store.open(ours.db.home, timeout_s=0.05) as other, ours.db.change():
        monkeypatch.setattr(time, "sleep", waits.append)
        with pytest.raises(StoreBusy), other.db.change():
            pass
    assert waits and max(waits) < connection.GAP_S
