"""The function that submitit calls on a node. Small: the fork server loads torch beside the worker's own imports."""

import os


def run_job(path: str) -> None:
    """Execute the run whose job folder this is."""
    from engine.runtime.rank import fork_server
    from engine.umask import set_private

    set_private()
    os.environ["PARALLAB_HOME"] = path
    fork_server.start(waits_for_run=True)
    from engine.cluster.worker import execute_job

    execute_job(path)
