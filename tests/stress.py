"""`make test-stress`: the tests of `make test` while processes of theirs are stopped at random and two CPU hogs run
beside them.

Whatever belongs to the suite may be hit: pytest's own processes, consoles, runners, workers, ranks, Chromium. Each is
stopped (SIGSTOP) for up to `LONGEST_S` seconds. What a test stops itself stays stopped. Prints its seed; `--seed`
repeats the choices, though not the moments.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import psutil

from engine.home import ROOT

LONGEST_S, HOGS, AT_ONCE = 4.0, 2, 2
TOKEN = "PARALLAB_STRESS"
STOPS = 1 << (signal.SIGSTOP - 1) | 1 << (signal.SIGTSTP - 1)
"""Bits of the signals that stop a process, as /proc writes them."""


def lanes() -> list[list[str]]:
    """Return the arguments of each call of pytest in `make test`, as the Makefile has them."""
    rule = (ROOT / "Makefile").read_text().partition("\ntest: ")[2].partition("\n\n")[0]
    calls = re.findall(r"-m pytest -m \"([^\"]+)\"([^&;\\]*)", rule)
    return [["-m", marks, *rest.split()] for marks, rest in calls]


class Stopper(threading.Thread):
    """Stops and continues processes of the suite until it is told to end."""

    def __init__(self, token: str, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.ending = threading.Event()
        self.hits: Counter[str] = Counter()
        self._token, self._chance = token, chance

    def run(self) -> None:
        while not self.ending.wait(self._chance.uniform(0.1, 1.0)):
            found = [each for each in psutil.process_iter() if self._is_ours(each)]
            chosen = self._chance.sample(found, min(len(found), self._chance.randint(1, AT_ONCE)))
            held = [each for each in chosen if stop(each)]
            self.hits.update(_name(each) for each in held)
            self.ending.wait(self._chance.uniform(0.05, LONGEST_S))
            for each in held:
                go_on(each)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return (
                process.pid != os.getpid()
                and process.environ().get(TOKEN) == self._token
                and process.status() != psutil.STATUS_STOPPED
            )
        except psutil.Error:
            return False


def stop(process: psutil.Process) -> bool:
    """Stop a process; return whether it was there."""
    try:
        process.suspend()
    except psutil.Error:
        return False
    return True


def go_on(process: psutil.Process) -> None:
    """Continue a process, unless a test has stopped it meanwhile: then a second stop waits in its queue."""
    try:
        status = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status").read().splitlines())  # noqa: SIM115, PTH123
        if not (int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)) & STOPS:
            process.resume()
    except (psutil.Error, OSError):
        return


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "ended"


def main() -> None:
    """Run the suite under stress; exit as pytest does."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    seed = options.parse_args().seed
    print(f"seed {seed}", flush=True)
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]
    stopper = Stopper(str(os.getpid()), random.Random(seed))
    stopper.start()
    began, codes = time.monotonic(), []
    try:
        for arguments in lanes():
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=os.environ | {TOKEN: str(os.getpid())}
            )
            codes.append(ended.returncode)
    finally:
        stopper.ending.set()
        stopper.join()
        for hog in hogs:
            hog.kill()
    print(
        f"{time.monotonic() - began:.0f} s; {stopper.hits.total()} stops: {dict(stopper.hits.most_common(8))}; "
        f"seed {seed}"
    )
    sys.exit(next((code for code in codes if code), 0))


if __name__ == "__main__":
    main()
