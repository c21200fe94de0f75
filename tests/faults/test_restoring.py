"""A backup made while a sweep goes on gives a store that is in order, and the sweep goes on from it."""

import json
import time
from pathlib import Path

import pytest

from engine.home import Home
from engine.store import Reader
from tests.cli.conftest import Parallab, parallab
from tests.waiting import wait_until

__all__ = ["parallab"]


@pytest.mark.long
def test_a_restore_from_a_backup_made_during_a_sweep_passes_fsck_and_goes_on(home: Home, parallab: Parallab) -> None:
    sweep = json.loads(
        parallab("sweep", "hogwild", "--preset", "quick", "--over", "trainers=1,2", "--seeds", "3", "--json").stdout
    )

    def going_on() -> bool:
        with Reader.open(home) as reader:
            return reader.runs.count(statuses=["finished"]) >= 1 and reader.runs.count(statuses=["running"]) >= 1

    wait_until(going_on, "one run has finished and another is on")
    made = Path(json.loads(parallab("backup", "--json").stdout)["path"])
    time.sleep(2)
    assert parallab("stop", "--cancel-runs").returncode == 0
    done = parallab("restore", str(made))
    assert done.returncode == 0, done.stderr
    mended = parallab("fsck", "--mend")
    assert mended.returncode == 0, mended.stdout
    assert parallab("fsck").returncode == 0
    with Reader.open(home) as reader:
        statuses = [row.status for row in reader.runs.find()]
        assert len(statuses) == 6, sweep
        assert (statuses.count("lost") >= 1, statuses.count("finished") >= 1) == (True, True)
        waiting = [row.id for row in reader.runs.find(statuses=["queued"])]
    begun = parallab("run", "hogwild", "--preset", "quick")
    assert begun.returncode == 0, begun.stderr
    with Reader.open(home) as reader:
        assert {reader.runs.one(run_id).status for run_id in waiting} == {"finished"}
