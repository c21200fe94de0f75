"""The one deadline of the tests, and the one way to wait: for a fact, never for a time.

`PATIENCE_S` is far beyond what anything takes on a slow machine; a test that passes never reaches it.
"""

import time
from collections.abc import Callable

import pytest

PATIENCE_S = 240.0


def wait_until(
    holds: Callable[[], object], what: str = "what the test waits for came true", patience_s: float = PATIENCE_S
) -> None:
    """Return once `holds` gives something true; fail the test with `what` after `patience_s` seconds."""
    end, pause = time.monotonic() + patience_s, 0.01
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"Within {patience_s:g} s it was not so that {what}.")
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)
