"""An import that is killed at any moment has taken in all of a bundle or nothing."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store
from engine.store.maintenance import integrity
from engine.transfer.bundles.bundle import write_bundle
from engine.transfer.import_child import import_path
from tests.labs import basic

pytestmark = pytest.mark.processes
RUNS, POINTS = 6, 4_000
PROGRAM = """
import sys
from pathlib import Path
from engine.home import Home
from engine.store import Store
from engine.transfer.import_child import import_path
with Store.open(Home.find()) as store:
    print("go", flush=True)
    import_path(store, Path(sys.argv[1]), by="Lin")
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """Give a bundle of some size, and the seconds that its import takes."""
    folder = tmp_path_factory.mktemp("bundle")
    home = Home(folder / "theirs").create()
    with Store.open(home) as store, Reader.open(home) as reader:
        for _ in range(RUNS):
            run_id = basic.add(store, "Ada")
            basic.drive(store, home, run_id, "running")
            store.worker.write(
                run_id,
                [
                    RankBatch(
                        0,
                        [
                            Point("train/loss", step, 1 / (step + 1), float(step))
                            for step in range(1_000, 1_000 + POINTS)
                        ],
                    )
                ],
            )
            store.claims.end(run_id, "finished", "It finished.", execution_time_s=1.0)
        write_bundle(reader, range(1, RUNS + 1), folder / "runs.zip", by="Ada")
    begun = time.monotonic()
    with Store.open(Home(folder / "timing")) as store:
        import_path(store, folder / "runs.zip", by="Lin")
    return folder / "runs.zip", time.monotonic() - begun


@pytest.mark.parametrize(
    "share", [0.2, 0.7, 0.95, *(pytest.param(share, marks=pytest.mark.long) for share in (0.5, 0.85))]
)
def test_a_killed_import_has_taken_in_all_or_nothing(home: Home, bundle: tuple[Path, float], share: float) -> None:
    path, takes_s = bundle
    with Store.open(home) as store:
        basic.add(store, "Lin")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"go\n"
        time.sleep(takes_s * share)
        process.send_signal(signal.SIGKILL)
    with Store.open(home) as store, Reader.open(home) as reader:
        assert reader.runs.count() in (1, 1 + RUNS)
        assert (
            not integrity.damage(store)
            + integrity.strangers(store)
            + integrity.unlike_summaries(store)
            + integrity.unlike_corners(store)
        )
        if reader.runs.count() == 1:
            folders = {int(path.name) for path in home.path.glob("runs/*")}
            assert len(import_path(store, path, by="Lin").ids) == RUNS
            assert not folders & {run.id for run in reader.runs.find()}, (
                "a folder of the killed import belongs to another run now"
            )
