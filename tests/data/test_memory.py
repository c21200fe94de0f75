"""What a step frees stays with the process: seen by the page faults of a process of its own."""

import platform
import subprocess
import sys

import pytest

from engine.home import ROOT
from tests.waiting import PATIENCE_S

PROGRAM = """
import ctypes, resource, torch
from engine.data.tensors import M_MMAP_THRESHOLD, keep_freed_memory

def faults_of_a_step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        [torch.empty(size * 100_000).fill_(1.0) for size in (1, 4, 10)]
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20

ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 * 1024)  # what glibc starts with, whatever importing torch has made of it
faults_of_a_step()
returned = faults_of_a_step()
keep_freed_memory()
faults_of_a_step()
print(returned, faults_of_a_step())
"""  # noqa: E501


@pytest.mark.processes
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_memory_of_one_step_serves_the_next() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    returned, kept = map(float, ended.stdout.split())
    assert kept < 10 < returned
