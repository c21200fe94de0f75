"""The worker: one process, one run of an experiment, from the claim to a final status with its cause.

It starts as a spare that loads torch and its fork server, then waits on standard input for the id of a run. It is the
only writer of that run's measurements.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.config import Config
from engine.data.added_files import files_used
from engine.home import Home
from engine.registry import experiment, method
from engine.runtime.nodes.node import Node
from engine.runtime.rank import fork_server
from engine.runtime.rank.fork_server import run_is_waiting
from engine.runtime.rank.rank import RunContext
from engine.runtime.usage import Disturbance
from engine.runtime.worker.ranks import Ranks
from engine.runtime.worker.session import Execution, disturbance_of, execute_given_run, home_of_worker
from engine.runtime.worker.sink import Sink, StopRequested, StopSwitch
from engine.store import Store
from engine.store.records import Run
from engine.store.worker_writes import StoreSink
from engine.system.checkpoint_state import go_on_from_parent

log = logging.getLogger(__name__)


def main() -> None:
    """Prepare, wait for a run's id on standard input, execute the run; exit quietly if none arrives."""
    home = home_of_worker()
    if not run_is_waiting():
        warm_up()
    execute_given_run(home, execution_of)


def warm_up() -> None:
    """Wait until the fork server has loaded what any run may need, before a person waits for it."""
    if not fork_server.wait_until_loaded():
        log.warning(
            "The fork server did not load completely; ranks start slowly. See `python -m engine "
            "doctor` for missing packages."
        )


def execution_of(store: Store, run: Run, folder: Path, began: float, switch: StopSwitch) -> "MethodExecution":
    """Return the execution of a run of an experiment."""

    def prepared(config: Config) -> RunContext:
        resume_from = go_on_from_parent(store, run, folder)
        return RunContext.of(
            config,
            folder,
            [str(gpu) for gpu in run.gpus],
            began=began,
            resume_from=resume_from,
            time_before_s=store.read.runs.one(run.id).time_before_s,
            uid=run.uid,
            host_network_refused=store.read.quotas.why_no_listening("host"),
            end_when_hung=run.terms.end_when_hung,
        )

    return MethodExecution(
        run.experiment,
        run.config,
        store.db.home,
        StoreSink(store.db, run.id),
        switch,
        disturbance_of(run),
        prepared,
        began=began,
    )


# ---- Execution of one run by its worker, wherever its records go ---------------------------------------------------
# Starts the ranks, and turns the end into a status.


class NodeSetting(NamedTuple):
    """What ranks on several nodes need to find each other."""

    nodes: tuple[Node, ...]
    meeting_point: tuple[str, int] | None
    """Address at which they meet."""
    interface: str
    """The first node's network interface."""


ONE_NODE = NodeSetting((), None, "lo")


@dataclass
class MethodExecution(Execution):
    """A run of an experiment's method; `ranks` is there once they could be set up."""

    experiment: str
    settings: Mapping[str, Any]
    home: Home
    """The home, for data sets and the cache of their checksums."""
    sink: Sink
    switch: StopSwitch
    disturbance: Disturbance
    prepared: Callable[[Config], RunContext]
    """Makes the run's context, with the checkpoint to resume from."""
    further_nodes: Callable[[], AbstractContextManager[NodeSetting]] | None = None
    """Opens the connection with further nodes; None for a run on one."""
    began: float = field(default_factory=time.monotonic)
    ranks: Ranks | None = field(default=None, init=False)

    def run(self) -> None:
        """Run the method; raises what ends it early."""
        self.switch.interruptible = True
        if self.switch.requested:
            raise StopRequested("The run was asked to stop.")
        config = experiment(self.experiment).config.check(self.settings)
        context = self.prepared(config)
        os.environ["CUDA_VISIBLE_DEVICES"] = context.visible_gpus
        places = [f"{role} on {device}" for role, device in zip(context.roles, context.devices, strict=True)]
        log.info("%s, seed %s, ranks: %s.", self.experiment, config.seed, ", ".join(places))
        noted = self._note_data(config)
        with self.further_nodes() if self.further_nodes else nullcontext(ONE_NODE) as (nodes, meeting_point, interface):
            context = replace(context, meeting_point=meeting_point, interface=interface)
            self.ranks = Ranks(context, self.sink, self.disturbance, self.switch.is_requested, nodes)
            method(self.experiment)(config, self.ranks)
        if not noted:  # it was downloaded meanwhile
            self._note_data(config)

    @property
    def execution_time_s(self) -> float | None:
        """Return how long the ranks took from all ready to all done; None if they did not get there."""
        return self.ranks.execution_time_s if self.ranks else None

    def _note_data(self, config: Config) -> bool:
        """Record the files that the run is trained on; False if they don't exist yet."""
        if config.trains_on is None or not (files := files_used(config.trains_on, self.home)):
            return False
        self.sink.note("data_files", dict(files))
        return True
