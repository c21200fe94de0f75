"""The loop of the server's main thread, which tests, saves and monitors while other threads answer the trainers."""

import time

import torch

from engine.data.tensors import finish, usable
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.checkpoints import Checkpoints, load_checkpoint
from engine.runtime.worker.ranks import Rank
from engine.seeding import WEIGHTS, seed_of
from engine.trace.layout import EVERYBODY
from engine.training.flat_net import state_size
from engine.training.server import WeightServer
from engine.training.settings import ServerConfig
from engine.training.workload import Workload

POLL_S = 0.05
REPORT_EACH = 100
"""Number of gradients in one staleness mean and 99th percentile."""


def exchange_with_server(config: ServerConfig, workload: Workload, server_device: str) -> Exchange:
    """Return the exchange between `ps` (rank 0) and its trainers, for vectors the size of the workload's net."""
    usable(config.device, server_device)
    with torch.device("meta"):  # a net without values is enough to count them
        size = state_size(workload.net(seed_of(config.seed, WEIGHTS)))
    clients = tuple(range(1, config.trainers + 1))
    return Exchange.create(
        config.transport,
        size,
        server=0,
        server_role="ps",
        clients=clients,
        patience_s=config.patience_s,
        wire=config.wire,
        server_device=server_device,
    )


class ServerLoop:
    """Tests the weights, saves them, and monitors the members of one server until all have left."""

    def __init__(self, rank: Rank, config: ServerConfig, server: WeightServer) -> None:
        self.rank = rank
        self.config = config
        self.server = server
        self.record = rank.recorder
        self.checkpoints = Checkpoints(rank, config.checkpoint_every_s)
        if rank.resume_from:
            server.restore(load_checkpoint(rank.resume_from))
        self.tested_at = self._passes()

    def run(self, exchange: Exchange) -> None:
        """Serve until every trainer has left; test the weights periodically and at the end."""
        server = self.server
        with exchange.serve(self.rank, server) as service:
            self.rank.ready()
            self.began = time.monotonic()
            server.start_timeouts()
            while server.active:
                with self.record.phase("wait", "requests", peer=EVERYBODY):
                    server.member_left.wait(POLL_S)
                    server.member_left.clear()
                service.check()
                server.check_members()
                self._test_if_due()
                self._save_if_due()
                self._report()
            service.check()
        self._report(all_of_it=True)
        self._test()

    def _passes(self) -> float:
        return self.server.samples / self.server.workload.pass_size

    def _test_if_due(self) -> None:
        every = self.config.evaluate_every
        if every and self._passes() >= self.tested_at + every and self.server.samples < self.server.total:
            self.tested_at += every
            self._test()

    def _test(self) -> None:
        if not self.server.workload.has_tests:
            return
        with self.record.phase("evaluate"):
            with self.server.lock:
                state, version, passes = self.server.state.clone(), self.server.version, self._passes()
                finish(state.device)
            score = self.server.workload.score(state)
        if score:
            self.record.log({"test/accuracy": score.accuracy, "test/loss": score.loss}, step=version, passes=passes)
            self.record.summarize("update", version)

    def _save_if_due(self) -> None:
        if not self.checkpoints.due():
            return
        with self.record.phase("other"):
            with self.server.lock:
                saved = self.server.checkpoint()
            time_s = self.rank.time_before_s + time.monotonic() - self.began
            steps = dict(enumerate(saved["steps"], start=1))
            passes = saved["samples"] / self.server.workload.pass_size
            self.checkpoints.save(saved, step=saved["version"], passes=passes, time_s=time_s, steps=steps)

    def _report(self, all_of_it: bool = False) -> None:
        server = self.server
        with server.lock:
            serve_s, server.serve_s = server.serve_s, 0.0
            version, passes = server.version, self._passes()
            found, server.staleness = (
                (server.staleness, []) if all_of_it or len(server.staleness) >= REPORT_EACH else ([], server.staleness)
            )
        self.record.spend("serve", serve_s)
        if found and self.config.may_be_stale:
            values = torch.tensor(found, dtype=torch.float32)
            mean, p99 = float(values.mean()), float(values.quantile(0.99))
            self.record.log({"perf/staleness_mean": mean, "perf/staleness_p99": p99}, step=version, passes=passes)
        if server.dropped is not None and (found or all_of_it):
            self.record.log({"perf/gradients_dropped": server.dropped}, step=version, passes=passes)
