"""A process that a rank starts for a while says what it has to say, and never outlives the one who started it."""

import os
import signal
import subprocess
import sys

import pytest

from engine.errors import RunFailed
from engine.home import ROOT
from engine.runtime.rank.process import spawned
from engine.system.processes import identity, is_alive
from tests import child_functions as functions
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


def test_a_process_that_breaks_off_is_a_failure_with_its_name() -> None:
    with (
        pytest.raises(RunFailed, match="trainer2's process of round 3 exited with code 7"),
        spawned("trainer2's process of round 3", functions.say_and_break, "one", "two") as said,
    ):
        assert list(said) == ["one", "two"]


def test_a_process_dies_with_the_one_who_started_it() -> None:
    program = (
        "from engine.runtime.rank.process import spawned\n"
        "from tests import child_functions as functions\n"
        "if __name__ == '__main__':\n"
        "    with spawned('a process', functions.say_and_wait, 'word') as said:\n"
        "        print(next(said)[1], flush=True)\n"
        "        next(said)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    process = identity(int(starter.stdout.readline()))
    assert process is not None
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not is_alive(process), "the process dies with it")
