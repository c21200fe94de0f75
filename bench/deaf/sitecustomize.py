"""Makes the rank that `DEAF_ROLE` names ignore SIGTERM, for bench.cancel: Python imports this where its folder stands
in PYTHONPATH.
"""

import os
import signal
from multiprocessing import process
from typing import Any

_signal = signal.signal


def _deaf(number: int, handler: Any) -> Any:
    if number == signal.SIGTERM and process.current_process().name == os.environ.get("DEAF_ROLE"):
        handler = signal.SIG_IGN
    return _signal(number, handler)


signal.signal = _deaf
