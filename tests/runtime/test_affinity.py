"""A run computes on the cores that it was given: its worker, and what that had started before, and what it starts later."""

import os
import subprocess
import sys

import psutil
import pytest

from engine.home import ROOT, Home
from engine.launch import launch
from engine.registry import experiment
from engine.runtime.machine import machine
from engine.runtime.running import ensure_running, is_running
from engine.store import Reader, Store
from tests.cli.conftest import wait

PROGRAM = """
import os, subprocess, sys, threading
from engine.runtime.affinity import bind_session
before = subprocess.Popen([sys.executable, "-c", "import os, sys; sys.stdin.readline(); print(*os.sched_getaffinity(0))"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
stay, thread_cores = threading.Event(), []
thread = threading.Thread(target=lambda: (stay.wait(), thread_cores.append(os.sched_getaffinity(0))))
thread.start()
bind_session([int(sys.argv[1])])
stay.set()
thread.join()
print(before.communicate("\\n")[0].strip())
print(*os.sched_getaffinity(0))
print(*thread_cores[0])
print(subprocess.run([sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"], capture_output=True, text=True).stdout.strip())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to cores")
def test_a_session_is_bound_with_its_threads_and_children_old_and_new() -> None:
    core = max(os.sched_getaffinity(0))
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(core)], cwd=ROOT, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (ended.returncode, ended.stdout.split("\n")[:-1]) == (0, [str(core)] * 4), ended.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to cores")
def test_a_core_that_is_gone_leaves_the_run_all_of_them() -> None:
    program = (
        "import os; from engine.runtime.affinity import bind_session; n = os.sched_getaffinity(0); bind_session([4095]); assert os.sched_getaffinity(0) == n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert ended.returncode == 0, ended.stderr
    assert "can't be bound to cores 4095" in ended.stderr


@pytest.mark.skipif(len(machine().core_ids) < 2, reason="two runs at once need two cores")
def test_two_runs_are_on_at_once_each_rank_and_worker_on_the_cores_of_its_run(home: Home) -> None:
    config = experiment("hogwild").configure("quick", {"dataset": "synthetic", "device": "cpu", "trainers": 1, "threads_per_rank": 1, "epochs": 1000})
    ids = [launch(home, "hogwild", config, owner="ada") for _ in range(2)]
    ensure_running(home)

    def both_are_on() -> bool:
        with Reader.open(home) as reader:
            return all(reader.run(run_id).status == "running" for run_id in ids)

    wait(both_are_on, 120)
    with Reader.open(home) as reader:
        runs = [reader.run(run_id) for run_id in ids]
        ranks = [reader.ranks(run_id)[0].pid for run_id in ids]
    assert [run.cores for run in runs] == [machine().core_ids[:1], machine().core_ids[1:2]]
    for run, rank in zip(runs, ranks, strict=True):
        assert run.worker is not None
        assert rank is not None
        assert [psutil.Process(pid).cpu_affinity() for pid in (run.worker.pid, rank)] == [list(run.cores)] * 2
    with Store.open(home) as store:
        for run_id in ids:
            store.request_cancel(run_id, by="ada")
        store.ask_runner_to_stop()
    wait(lambda: not is_running(home), 120)
