"""A process that stands in for the worker of runs that are made up: the runner may end what an ended run has left, and
that must not be the tests.
"""

import os
import subprocess
import sys

from engine.store.records import ProcessIdentity
from engine.system.processes import identity, is_alive

_standing: list[tuple[subprocess.Popen[bytes], ProcessIdentity]] = []


def worker() -> ProcessIdentity:
    """Return a live process in a session of its own that does nothing, and ends with the tests."""
    if not _standing or not is_alive(_standing[-1][1]):
        program = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
        environment = {name: value for name, value in os.environ.items() if name != "PARALLAB_HOME"}
        process = subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True, env=environment)
        found = identity(process.pid)
        assert found
        _standing.append((process, found))
    return _standing[-1][1]


worker()  # while tests are collected, so that no test is said to start it
