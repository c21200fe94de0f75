"""How a fork server comes to be, and what it has loaded when it forks a rank."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from engine.home import ROOT
from engine.system.processes import MARK
from tests.waiting import PATIENCE_S

WORKER = """
import multiprocessing, os, sys
from engine.runtime.rank import fork_server
from tests.child_functions import say_what_is_loaded

if __name__ == "__main__":
    fork_server.{start}
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    held = os.open(os.devnull, os.O_RDONLY)
    process = context.Process(target=say_what_is_loaded, args=(theirs,))
    process.start()
    print(ours.recv(), os.getpid())
    process.join()
"""

pytestmark = pytest.mark.processes


@cache
def found(start: str, **environment: str) -> tuple[dict[str, Any], int]:
    """Return what a process finds that is forked by the fork server of a worker, and the worker's pid."""
    worker = subprocess.run(
        [sys.executable, "-c", WORKER.format(start=start)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert worker.returncode == 0, worker.stderr
    answer, pid = worker.stdout.rsplit(maxsplit=1)
    return json.loads(answer), int(pid)


@pytest.mark.parametrize("start", ["start()", "fork_this_process()"])
def test_a_rank_finds_torch_and_the_methods_loaded_and_nothing_slow_that_few_methods_use(start: str) -> None:
    child, worker = found(start)
    assert child["loaded"] == {
        "torch": True,
        "engine.experiments.hogwild.method": True,
        "torch._dynamo": False,
        "torch.distributed.tensor": False,
        "torchvision": False,
        "sklearn": False,
    }
    assert child["complete"] and child["collects garbage"]
    assert child["mark"].split("/")[1] == str(worker), "by which the run's processes are found"
    assert "glibc.malloc.hugetlb=1" in child["tunables"]
    assert child["can start processes"], "with a fork server of its own"


def test_a_forked_server_has_nothing_open_of_its_worker_and_keeps_the_mark_that_it_is_given() -> None:
    child, worker = found(f"fork_this_process(os.environ[{MARK!r}])", **{MARK: "boot/7/9"})
    assert child["mark"] == "boot/7/9"
    assert child["open in the server"] == found("start()")[0]["open in the server"]
    assert child["parent of the server"] == worker
