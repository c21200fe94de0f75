"""`remeasure`, and the disturbance in `show`."""

import json

from engine.home import Home
from tests.app.test_disturbance import at_2, disturb
from tests.app.test_scaling import hogwild
from tests.cli.conftest import Parallab


def test_the_disturbed_runs_of_a_sweep_are_told_and_queued_again(home: Home, parallab: Parallab) -> None:
    sweep_id = hogwild(home, {"trainers": [1, 2, 4]}, 1)
    (one,) = at_2(home, sweep_id)
    ask = ("remeasure", "--sweep", str(sweep_id), "--no-runner")
    refused = parallab(*ask)
    assert refused.returncode and "no cell's newest run was disturbed" in refused.stderr
    found = json.loads(parallab("show", str(one), "--json").stdout)
    assert (found["disturbance"], found["disturbed"]) == (None, False)
    disturb(home, one, 31.4)
    found = json.loads(parallab("show", str(one), "--json").stdout)
    assert (found["disturbance"], found["disturbed"]) == (0.314, True)
    assert "31 %, disturbed; stress 0.61 cores" in parallab("show", str(one)).stdout
    new = json.loads(parallab(*ask, "--json").stdout)
    assert (new["id"], len(new["runs"])) == (sweep_id, 1)
