"""What one question to the console costs its server: with uvloop, and on asyncio's own loop, in turn.

Both consoles serve one home with a run of 30,000 points; 20 connections ask for its change token one after the other.
Run: python -m bench.serving_cost [--rounds 7]
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench.first_loss import console
from bench.measuring import alternate, ratio, save
from bench.poll_cost import Poller, running_run, server_of
from engine.home import Home

CONNECTIONS, QUESTIONS = 20, 400


@contextmanager
def hidden(folder: Path) -> Iterator[None]:
    """Have processes that start within the block not find uvloop."""
    (folder / "uvloop.py").write_text("raise ImportError\n")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home, without = Home(Path(folder) / "home").create(), Path(folder) / "without"
        without.mkdir()
        run_id = running_run(home)
        with ExitStack() as consoles:
            fast = consoles.enter_context(console(home))
            with hidden(without):
                slow = consoles.enter_context(console(home))
            time.sleep(2)  # the servers' sockets are set just after they begin to listen
            cpu_ms = alternate(rounds, uvloop=_asking(fast, run_id), asyncio=_asking(slow, run_id))
    medians = {name: round(median(values), 3) for name, values in cpu_ms.items()}
    save("serving_cost", {"server_cpu_ms_a_question": cpu_ms, "medians": medians, "asyncio_over_uvloop": ratio(cpu_ms["asyncio"], cpu_ms["uvloop"])})


def _asking(address: str, run_id: int) -> Callable[[], float]:
    pollers, server = [Poller(address) for _ in range(CONNECTIONS)], server_of(address)

    def measure() -> float:
        before = sum(server.cpu_times()[:2])
        for number in range(QUESTIONS):
            pollers[number % CONNECTIONS].ask(f"/api/token?run={run_id}")
        return (sum(server.cpu_times()[:2]) - before) / QUESTIONS * 1000

    return measure


if __name__ == "__main__":
    main()
