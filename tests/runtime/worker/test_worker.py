"""The worker's process from its start to its end."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.home import ROOT, Home
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes
SLOW = f"""
import sys, time
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep({2 * PATIENCE_S})
if "engine.worker" in sys.orig_argv:
    kept = Slow()
"""


def test_a_worker_exits_without_waiting_for_objects_to_be_destroyed(home: Home, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    worker = subprocess.run(
        [sys.executable, "-m", "engine.worker", "--home", str(home.path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1.5 * PATIENCE_S,
    )
    assert worker.returncode == 0, worker.stderr
