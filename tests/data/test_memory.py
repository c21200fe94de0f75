"""What a step frees stays with the process: seen by the page faults of a process of its own."""

import platform
import subprocess
import sys

import pytest

from engine.home import ROOT

PROGRAM = """
import ctypes, resource, sys, torch
from engine.data.memory import M_MMAP_THRESHOLD, keep_freed_memory

ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 * 1024)  # what glibc starts with, whatever importing torch has made of it
if sys.argv[1] == "kept":
    keep_freed_memory()

def step():
    return [torch.empty(size * 100_000).fill_(1.0) for size in (1, 4, 10)]

for _ in range(20):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_memory_of_one_step_serves_the_next() -> None:
    faults = {}
    for mode in ("returned", "kept"):
        ended = subprocess.run([sys.executable, "-c", PROGRAM, mode], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        faults[mode] = float(ended.stdout)
    assert faults["kept"] < 10 < faults["returned"], faults
