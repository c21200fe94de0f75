import platform
import subprocess
import sys

import pytest

from app.heap import HEAPS
from engine.home import ROOT

HEAPS_OF_32_THREADS = """
import ctypes, sys, threading
from app.heap import share_heaps
if sys.argv[1] == "shared":
    share_heaps()
here = threading.Barrier(33)

def work():
    kept = [bytes(2_000) for _ in range(2_000)]
    here.wait()
    here.wait()

for _ in range(32):
    threading.Thread(target=work).start()
here.wait()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
here.wait()
"""

HOLES = """
import psutil
from app.heap import give_back
def resident_mb():
    return psutil.Process().memory_info().rss / 1e6
parts = [bytes(2_000) for _ in range(50_000)]
parts = [part for number, part in enumerate(parts) if number % 100 == 99]
before = resident_mb()
give_back()
print(before - resident_mb())
"""
only_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of threads, and giving back what lies between, are glibc's")


@only_glibc
@pytest.mark.parametrize("way", ["shared", "usual"])
def test_many_threads_share_few_heaps(way: str) -> None:
    found = subprocess.run([sys.executable, "-c", HEAPS_OF_32_THREADS, way], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    heaps = found.stdout.count("<heap nr=")
    assert (heaps <= HEAPS) == (way == "shared"), "as usual there are more, or this would show nothing"


@only_glibc
def test_what_lies_free_between_what_is_kept_is_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", HOLES], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert float(found.stdout) > 60, "of 100 MB, 99 are free between the blocks that are kept"
