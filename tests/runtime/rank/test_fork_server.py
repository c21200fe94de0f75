"""What the fork server has loaded when it forks: less from the arrival of a run, which would wait for it."""

import json
import subprocess
import sys

import pytest

from engine.home import ROOT
from tests.waiting import PATIENCE_S

WORKER = """
import multiprocessing, os
from engine.runtime.rank import fork_server
from tests.child_functions import say_what_is_loaded

if __name__ == "__main__":
    fork_server.start(waits_for_run={waits})
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=say_what_is_loaded, args=(theirs,))
    process.start()
    print(ours.recv())
    process.join()
"""

pytestmark = pytest.mark.processes


def loaded(waits: bool, standard_input: str | None) -> dict[str, bool]:
    """Return what a process finds that is forked in a worker whose standard input holds that text, or stays silent."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER.format(waits=waits)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin and worker.stdout
    with worker:
        if standard_input is not None:
            worker.stdin.write(standard_input)
            worker.stdin.flush()
        found: dict[str, bool] = json.loads(worker.stdout.readline())
        worker.stdin.close()
        assert worker.wait(PATIENCE_S) == 0
    return found


@pytest.mark.parametrize(
    ("waits", "standard_input", "all_of_torch"), [(True, "7\n", False), (True, None, True), (False, "7\n", True)]
)
def test_a_run_that_has_arrived_waits_for_torch_and_the_methods_alone(
    waits: bool, standard_input: str | None, all_of_torch: bool
) -> None:
    found = loaded(waits, standard_input)
    assert found == {
        "complete": True,
        "torch": True,
        "engine.experiments.hogwild.method": True,
        "torch._dynamo": all_of_torch,
        "collects garbage": True,
    }
