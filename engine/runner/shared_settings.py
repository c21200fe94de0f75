"""Environment settings that can differ between the runner and a launching process: the runner keeps the ones it was
started with. Torch-free.

Not included: `PARALLAB_DATA`, as a run keeps the folder from its launch; OMP_NUM_THREADS and MKL_NUM_THREADS, as a
run's threads come from its config.
"""

import os
from collections.abc import Mapping

import psutil

from engine.home import Home
from engine.notices.public_url import VARIABLE as PUBLIC_URL
from engine.system.processes import is_foreign
from engine.system.runner_process import runner_process
from engine.upkeep.backups import EVERY, KEEP

SHOWN = ("CUDA_VISIBLE_DEVICES", EVERY, KEEP, PUBLIC_URL)
"""Read by the runner or its workers; shown with their values."""
HIDDEN = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""For downloads of data sets and for notifications, in upper or lower case; their values may contain a password."""

RESTART = "To apply the change, restart the runner: python -m engine stop, then python -m engine serve."


def ignored_settings(home: Home, here: Mapping[str, str] = os.environ) -> list[str]:
    """Return a message for each setting that differs between this process and the running runner; empty if its
    environment can't be read.

    Variables that are not set here are ignored.
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
            "its settings from its start."
        )
        for name in sorted(here)
        if (name in SHOWN or _is_hidden(name)) and here[name] != there.get(name)
    ]


def _is_hidden(name: str) -> bool:
    return name.upper() in HIDDEN


def _values(name: str, here: str, there: str | None) -> str:
    if _is_hidden(name):
        return "is set here, but not" if there is None else "has a different value here than"
    return f"is '{here}' here, but not set" if there is None else f"is '{here}' here, but '{there}'"
