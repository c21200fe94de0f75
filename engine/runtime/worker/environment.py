"""The environment of a run: commit, versions, CPU, GPUs, host; stored with the run so that figures can be verified
later.
"""

import platform
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version

from engine import __version__
from engine.home import ROOT
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
