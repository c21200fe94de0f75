"""The versions of the code: of this process, of the worker that began a run, and on the disk; an upgrade makes them
differ. Torch-free.

Ranks find functions by their modules' names, and a spawned process reads those modules anew. So a worker whose code was
replaced can go on with what it has loaded, and can begin nothing.
"""

import re

from engine import __version__
from engine.home import ROOT
from engine.store.records import Run


def version_on_disk() -> str:
    """Return the version that a process started now would be of; this process's own while that can't be read."""
    try:
        found = re.search(r'^__version__ = "(.+)"$', (ROOT / "engine" / "__init__.py").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else __version__


def is_replaced() -> bool:
    """Say whether code of another version took the place of what this process was started from."""
    return version_on_disk() != __version__


def told_of_replacement(cause: str) -> str:
    """Return why a run failed, and that this process's code was replaced meanwhile where that is so."""
    if not is_replaced():
        return cause
    return (
        f"{cause} Its code, of version {__version__}, was replaced by version {version_on_disk()} while it was on, "
        "which may be why: retry or resume it."
    )


def begun_by(run: Run) -> str:
    """Return the version that the run's worker is of; empty before it has begun."""
    return str(run.environment.get("parallab", ""))


def is_of_another_version(run: Run) -> bool:
    """Say whether the worker of a run that has begun is of another version than what lies on the disk."""
    return begun_by(run) not in ("", version_on_disk())
