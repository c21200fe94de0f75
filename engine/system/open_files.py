"""The limit on open files of this process."""

import resource
import sys
from contextlib import suppress

ENOUGH = 65_536
"""What is asked for where the machine names no bound."""


def raise_open_files() -> int:
    """Let this process open as many files as it may, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS names a bound that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
