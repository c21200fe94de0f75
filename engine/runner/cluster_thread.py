"""The runner's thread for clusters: a Slurm or shared folder that does not answer never delays the machine's runs."""

import logging
import threading
import traceback
from types import TracebackType
from typing import Self

from engine.errors import EngineError
from engine.home import Home
from engine.runner.cluster_supervisor import ClusterJobs
from engine.store import Store

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Interval of looks at jobs and their files."""
TROUBLE_S = 5.0
"""Wait after a store error."""
CLOSE_S = 2.0


class ClusterThread:
    """Looks after one home's jobs on clusters while its context is open, with a store connection of its own."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clusters", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join(CLOSE_S)  # the next runner continues

    def _run(self) -> None:
        while not self._leaving.is_set():
            try:
                with Store.open(self._home) as store:
                    jobs = ClusterJobs(self._home, store)
                    while not self._leaving.wait(LOOK_S):
                        jobs.step()
            except EngineError as trouble:
                log.warning("runs on clusters are delayed: %s", trouble)
            except Exception as bug:
                log.error(
                    "internal error while looking after clusters, %s: %s\n%s",
                    type(bug).__name__,
                    bug,
                    "".join(traceback.format_tb(bug.__traceback__)),
                )
            self._leaving.wait(TROUBLE_S)
