"""What a step frees stays with the process: seen in a process of its own, by its page faults."""

import platform
import subprocess
import sys

import pytest

from engine.home import ROOT

PROGRAM = """
import resource, sys, torch
from engine.data.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    keep_freed_memory()

def step():
    return [torch.empty(4_000_000).fill_(1.0) for _ in range(3)]  # 16 MB each

for _ in range(3):
    step()
before = faults()
for _ in range(10):
    step()
print((faults() - before) / 10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_memory_of_one_step_serves_the_next() -> None:
    found = {}
    for mode in ("kept", "default"):
        ended = subprocess.run([sys.executable, "-c", PROGRAM, mode], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        found[mode] = float(ended.stdout)
    assert found["kept"] < 100, found
