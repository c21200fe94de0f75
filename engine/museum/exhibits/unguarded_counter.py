"""A counter that several processes increment without a lock: read, add, write; increments in between are lost.

Scheduling is random, except once per round, when all processes read before any writes.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.museum.outcome import Broken, ExhibitOutcome

COLLECTORS, ROUNDS, STEPS = 4, 10, 3000

COUNTS = """
import fcntl, mmap, os, struct, sys
file = os.open(sys.argv[1], os.O_RDWR)
counter, steps, guarded = mmap.mmap(file, 8), int(sys.argv[2]), sys.argv[3] == "guarded"
while sys.stdin.readline():
    for step in range(steps):
        if guarded:
            fcntl.flock(file, fcntl.LOCK_EX)
        value, = struct.unpack("q", counter[:8])
        if step == 0 and not guarded:
            print("read", flush=True)  # here a scheduler may let others run; once a round it does
            sys.stdin.readline()
        counter[:8] = struct.pack("q", value + 1)
        if guarded:
            fcntl.flock(file, fcntl.LOCK_UN)
    print("counted", flush=True)
"""


def wrong(seed: int) -> ExhibitOutcome:
    """Count without a lock."""
    return _counted("unguarded")


def right(seed: int) -> ExhibitOutcome:
    """Count under a lock shared by all processes."""
    return _counted("guarded")


def _counted(how: str) -> ExhibitOutcome:
    """Let four processes count their steps in one shared number, by rounds."""
    with TemporaryDirectory(prefix="parallab-") as folder:
        path = Path(folder) / "counter"
        path.write_bytes(bytes(8))
        command = [sys.executable, "-c", COUNTS, str(path), str(STEPS), how]
        collectors = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(COLLECTORS)
        ]
        series, lost = {0: 0.0}, 0
        try:
            for number in range(1, ROUNDS + 1):
                _turn(collectors, "count")
                if how == "unguarded":
                    _turn(collectors, "write")
                taken = number * COLLECTORS * STEPS
                lost = taken - int.from_bytes(path.read_bytes(), sys.byteorder)
                series[taken] = float(taken - lost)
        finally:
            for collector in collectors:
                collector.kill()
                collector.communicate()
    return ExhibitOutcome({"lost": float(lost), "steps": float(ROUNDS * COLLECTORS * STEPS)}, series)


def _turn(collectors: list[subprocess.Popen[str]], word: str) -> None:
    """Send a word to all processes and wait for each reply."""
    for collector in collectors:
        assert collector.stdin
        collector.stdin.write(f"{word}\n")
        collector.stdin.flush()
    for collector in collectors:
        assert collector.stdout
        collector.stdout.readline()


def invariant(outcome: ExhibitOutcome) -> None:
    """Every step is counted."""
    lost, steps = outcome.numbers["lost"], outcome.numbers["steps"]
    if lost:
        raise Broken(f"Every step must be counted; {lost:,.0f} of {steps:,.0f} were lost. Increment it under a lock.")
