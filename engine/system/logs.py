"""Log format of runner and worker: one line per entry, UTC, to standard output, which is a file. Torch-free."""

import logging
import sys
import time

from engine.home import Home

FORMAT, MOMENT = "%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"


def log_to_stdout() -> None:
    """Configure logging to standard output."""
    formatter = logging.Formatter(FORMAT, datefmt=MOMENT)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def moment(at: float | None = None) -> str:
    """Return a time (default: now) as lines of a log begin, in UTC."""
    return time.strftime(MOMENT, time.gmtime(at)) + "Z"


def note_for_runner(home: Home, words: str) -> None:
    """Append a line to the runner's log, from any process; lines are written atomically."""
    line = f"{moment()} INFO {' '.join(words.split())}\n"
    with home.runner_log.open("a", encoding="utf-8") as log:
        log.write(line)
