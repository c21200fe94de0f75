"""A run computes on the cores that it was given: its worker, and what that had started before, and what it starts
later.

That two runs get cores of their own is seen in tests/cli/test_real_runs.py.
"""

import os
import subprocess
import sys

import pytest

from engine.home import ROOT

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to cores"),
]
PROGRAM = """
import os, subprocess, sys, threading
from engine.runtime.worker.session import bind_session
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
"""  # noqa: E501


def test_a_session_is_bound_with_its_threads_and_children_old_and_new() -> None:
    core = max(os.sched_getaffinity(0))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(core)], cwd=ROOT, capture_output=True, text=True, start_new_session=True
    )
    assert (ended.returncode, ended.stdout.split("\n")[:-1]) == (0, [str(core)] * 4), ended.stderr


def test_a_core_that_is_gone_leaves_the_run_all_of_them() -> None:
    program = (
        "import os; from engine.runtime.worker.session import bind_session; n = os.sched_getaffinity(0); "
        "bind_session([4095]); assert os.sched_getaffinity(0) == n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, start_new_session=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "can't be bound to cores 4095" in ended.stderr
