"""Execution of one run by its worker, wherever its records go: start the ranks, and turn the end into a status."""

import logging
import os
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from engine.config import Config
from engine.data.added_files import files_used
from engine.errors import EngineError, RankFailed
from engine.home import Home
from engine.registry import experiment, method
from engine.runtime.nodes.node import Node
from engine.runtime.rank.rank import RunContext
from engine.runtime.usage import Disturbance
from engine.runtime.worker.ranks import Ranks
from engine.runtime.worker.sink import Sink
from engine.runtime.worker.stop_request import StopRequested, StopSwitch
from engine.store.records import Status
from engine.system.out_of_memory import gpu_failure, gpu_of, limit_met, memory_cause, words_of

log = logging.getLogger(__name__)


class NodeSetting(NamedTuple):
    """What ranks on several nodes need to find each other."""

    nodes: tuple[Node, ...]
    meeting_point: tuple[str, int] | None
    """Address at which they meet."""
    interface: str
    """The first node's network interface."""


ONE_NODE = NodeSetting((), None, "lo")


@dataclass
class Execution:
    """One run in its worker; `ranks` is there once they could be set up."""

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

    def outcome(self, stopped: Callable[[], tuple[Status, str, str]]) -> tuple[Status, str, str]:
        """Run the method, log it, and return status, cause and error details; `stopped` returns those of a requested
        stop.
        """
        status, cause, error = self._outcome(stopped)
        executed = "" if self.execution_time_s is None else f", execution {self.execution_time_s:.1f} s"
        log.info("%s after %.1f s%s: %s", status, time.monotonic() - self.began, executed, cause)
        return status, cause, error

    def _outcome(self, stopped: Callable[[], tuple[Status, str, str]]) -> tuple[Status, str, str]:
        try:
            self.run()
        except StopRequested:
            return stopped()
        except RankFailed as failure:
            return "failed", str(failure), failure.traceback
        except EngineError as failure:
            return "failed", f"{failure}{limit_met(words_of(failure))}", ""
        except BaseException as failure:
            log.exception("the worker failed")
            if lost := gpu_failure(words_of(failure), gpu_of("cuda", os.environ.get("CUDA_VISIBLE_DEVICES", ""))):
                return "failed", f"The worker, which loads the data for all ranks, {lost}", traceback.format_exc()
            cause = memory_cause(words_of(failure))
            return (
                "failed",
                f"The worker raised {type(failure).__name__}: {failure}{f'.{cause}' if cause else ''}",
                traceback.format_exc(),
            )
        return "finished", "Completed successfully", ""

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
