"""An import that is killed at any moment has taken in all of a bundle or nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.home import ROOT, Home
from engine.recorder import Point
from engine.store import RankBatch, Reader, Store, checks
from engine.transfer.bundle import write_bundle
from engine.transfer.incoming import import_path
from tests.app import labs

RUNS, POINTS = 6, 4_000


def bundle_of_some_size(folder: Path) -> Path:
    home = Home(folder / "theirs").create()
    with Store.open(home) as store, Reader.open(home) as reader:
        for _ in range(RUNS):
            run_id = labs.add(store, "Ada")
            labs.drive(store, home, run_id, "running")
            store.write(run_id, [RankBatch(0, [Point("train/loss", step, 1 / (step + 1), float(step)) for step in range(1_000, 1_000 + POINTS)])])
            store.end(run_id, "finished", "It finished.", execution_time_s=1.0)
        write_bundle(reader, range(1, RUNS + 1), folder / "runs.zip", by="Ada")
    return folder / "runs.zip"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.7, 0.85, 0.95])
def test_a_killed_import_has_taken_in_all_or_nothing(home: Home, tmp_path: Path, share: float) -> None:
    bundle = bundle_of_some_size(tmp_path)
    with Store.open(home) as store:
        labs.add(store, "Lin")
    begun = time.monotonic()
    with Store.open(Home(tmp_path / "timing")) as store:
        import_path(store, bundle, by="Lin")
    takes_s = time.monotonic() - begun
    program = (
        "import sys; from pathlib import Path; from engine.home import Home; from engine.store import Store\n"
        "from engine.transfer.incoming import import_path\n"
        "with Store.open(Home.find()) as store:\n    print('go', flush=True); import_path(store, Path(sys.argv[1]), by='Lin')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(bundle)], cwd=ROOT, env=os.environ | {"PARALLAB_HOME": str(home.path)}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline() == b"go\n"
        time.sleep(takes_s * share)
        process.send_signal(signal.SIGKILL)
    with Store.open(home) as store, Reader.open(home) as reader:
        assert reader.count() in (1, 1 + RUNS)
        assert not checks.damage(store) + checks.strangers(store) + checks.unlike_summaries(store) + checks.unlike_corners(store)
        if reader.count() == 1:
            folders = {int(path.name) for path in home.path.glob("runs/*")}
            assert len(import_path(store, bundle, by="Lin").ids) == RUNS
            assert not folders & {run.id for run in reader.runs()}, "a folder of the killed import belongs to another run now"
