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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of threads are glibc's")
@pytest.mark.parametrize("way", ["shared", "usual"])
def test_many_threads_share_few_heaps(way: str) -> None:
    found = subprocess.run([sys.executable, "-c", HEAPS_OF_32_THREADS, way], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    heaps = found.stdout.count("<heap nr=")
    assert (heaps <= HEAPS) == (way == "shared"), "as usual there are more, or this would show nothing"
