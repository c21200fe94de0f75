"""How runner and worker write their logs: one line an entry, UTC, to standard output, which is a file of theirs. Torch-free."""

import logging
import sys
import time


def log_to_stdout() -> None:
    """Send this process's log to its standard output."""
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
