"""The environment of a run: commit, versions, CPU, GPUs, host; stored with the run so that figures can be verified
later.
"""

import platform
import re
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version

from engine import __version__
from engine.home import ROOT
from engine.store.records import Run
from engine.system.machine import machine
from engine.system.processes import boot_id

PACKAGES = (
    "torch",
    "torchvision",
    "gymnasium",
    "streamlit",
    "plotly",
    "sqlite-utils",
    "numpy",
    "pydantic",
    "scikit-learn",
)


def environment() -> dict[str, object]:
    """Return the environment as plain JSON values."""
    here = machine()
    return {
        "parallab": __version__,
        "git_commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "cpu": here.cpu_model,
        "cores": here.cores,
        "memory_gb": here.memory_gb,
        "gpus": [gpu.name for gpu in here.gpus],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """Return the project's commit, with `+changes` if files differ from it; empty outside a checkout."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+changes"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()


# ------------------------------------------------------------------------------------------------------------------
# The versions of the code: of this process, of the worker that started a run, and on disk; an upgrade makes them
# differ. Torch-free. Ranks find functions by their modules' names, and a spawned process reads those modules again.
# So a worker whose code was replaced can finish its run with the loaded code, but can't start one.


def version_on_disk() -> str:
    """Return the version that a new process would have; this process's own if that can't be read."""
    try:
        found = re.search(r'^__version__ = "(.+)"$', (ROOT / "engine" / "__init__.py").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else __version__


def is_replaced() -> bool:
    """Return whether another version has replaced the code that this process was started from."""
    return version_on_disk() != __version__


def told_of_replacement(cause: str) -> str:
    """Return the cause of a failure, with a note if this process's code was replaced meanwhile."""
    if not is_replaced():
        return cause
    return (
        f"{cause} Its code (version {__version__}) was replaced by version {version_on_disk()} during "
        "the run, which may be the reason: retry or resume it."
    )


def begun_by(run: Run) -> str:
    """Return the version of the run's worker; empty before it has started."""
    return str(run.environment.get("parallab", ""))


def is_of_another_version(run: Run) -> bool:
    """Return whether the worker of a started run has another version than the code on disk."""
    return begun_by(run) not in ("", version_on_disk())
