"""Imported by each Python process that `tests.faults.commit_log.environment` starts: makes workers log their writes."""

import sys

if "engine.worker" in sys.orig_argv:
    from tests.faults.commit_log import follow

    follow()
