"""Settings of the environment that a runner and the person who launches may disagree on: the runner keeps those that it
was started with. Torch-free.

`PARALLAB_DATA` is none of them: a run keeps the folder that it was launched with. Nor are OMP_NUM_THREADS and
MKL_NUM_THREADS: the threads of a run come from its config, whatever either side has set.
"""

import os
from collections.abc import Mapping

import psutil

from engine.home import Home
from engine.notices.mail_server import PREFIX
from engine.notices.public_url import VARIABLE as PUBLIC_URL
from engine.runtime.worker.commit_log import VARIABLE as COMMITS
from engine.system.processes import is_foreign
from engine.system.runner_process import runner_process
from engine.upkeep.schedule import EVERY, KEEP

SHOWN = ("CUDA_VISIBLE_DEVICES", EVERY, KEEP, COMMITS, PUBLIC_URL)
"""Read by the runner or its workers, and named with their values."""
HIDDEN = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""Likewise, for downloads of data sets, in capitals or not; their values, and those of the mail server, may hold a
password.
"""

RESTART = "To change that, restart the runner: python -m engine stop, then python -m engine serve."


def ignored_settings(home: Home, here: Mapping[str, str] = os.environ) -> list[str]:
    """Return a sentence for each setting of this process that the live runner was started with otherwise; none where
    its environment can't be read.

    A variable that is not set here asks for nothing.
    """
    runner = runner_process(home)
    if runner is None or is_foreign(runner):
        return []
    try:
        there = psutil.Process(runner.pid).environ()
    except psutil.Error:
        return []
    return [
        (
            f"{name} {_values(name, here[name], there.get(name))} in the runner (pid {runner.pid}), which keeps "
            "what it was started with."
        )
        for name in sorted(here)
        if (name in SHOWN or _is_hidden(name)) and here[name] != there.get(name)
    ]


def _is_hidden(name: str) -> bool:
    return name.startswith(PREFIX) or name.upper() in HIDDEN


def _values(name: str, here: str, there: str | None) -> str:
    if _is_hidden(name):
        return "is set here and not" if there is None else "has another value here than"
    return f"is '{here}' here and not set" if there is None else f"is '{here}' here and '{there}'"
