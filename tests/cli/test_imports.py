"""What a command imports: the modules that it needs, so that it starts at once."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from engine.home import ROOT, Home
from tests.waiting import PATIENCE_S

HEAVY = {"torch", "torchvision", "numpy", "pandas", "scipy", "httpx", "streamlit", "plotly", "sqlite_utils"}
CONFIGS = {"pydantic", "engine.config"}
"""Imported for the settings of an experiment."""
PROCESSES = {"psutil", "engine.system.runner_process"}

pytestmark = pytest.mark.processes


def imported(*words: str) -> set[str]:
    """Return the modules that a process has imported when one command has ended."""
    program = (
        "import json, sys\nfrom engine.cli import main\n"
        f"main({list(words)}, standalone_mode=False)\nprint()\nprint(json.dumps(sorted(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stdout.splitlines()[-1]))


def test_the_list_of_commands_imports_none_of_them(home: Home) -> None:
    found = imported("--help")
    assert {name for name in found if name.startswith("engine.cli.")} == {"engine.cli.frame"}
    assert not found & {*HEAVY, *CONFIGS, *PROCESSES, "sqlite3", "engine.store"}


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        (("list",), HEAVY | CONFIGS | PROCESSES),
        (("list", "--json", "--status", "queued"), HEAVY | CONFIGS | PROCESSES),
        (("list", "--filter", "trainers >= 1"), HEAVY | PROCESSES),
        (("show", "1"), HEAVY),  # of a queued run it says why it waits
        (("submit", "hogwild", "--preset", "quick", "--no-runner"), HEAVY),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_imports_only_what_it_needs(
    words: tuple[str, ...], needless: set[str], queued: Callable[..., int]
) -> None:
    queued()
    assert not imported(*words) & needless
