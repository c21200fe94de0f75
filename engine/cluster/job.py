"""The functions that begin a job's processes on a node. Torch-free and small: the fork server loads torch beside the
worker's own imports.
"""

import json
import os
from importlib import import_module
from pathlib import Path


def run_job(path: str, nodes: int = 1) -> None:
    """Execute the run whose job folder this is, on that many nodes of which this is the first."""
    _prepare(path, nodes > 1, has_ranks=_is_of_method(path))
    import_module("engine.cluster.worker").execute_job(path)


def serve_agent(path: str) -> None:
    """Serve the worker of a job on a further node of it."""
    _prepare(path, spread=True)
    import_module("engine.cluster.worker").serve(path)


def _is_of_method(path: str) -> bool:
    return json.loads(Path(path, "job.json").read_text()).get("command") is None


def _prepare(path: str, spread: bool, has_ranks: bool = True) -> None:
    from engine.home import set_private
    from engine.runtime.rank import fork_server

    set_private()
    os.environ["PARALLAB_HOME"] = path
    if has_ranks:  # a command starts its own processes
        fork_server.start(spread)


if __name__ == "__main__":
    import sys

    serve_agent(sys.argv[1])
