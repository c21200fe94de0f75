"""A run with a weight server: what its ranks share, the loop of its trainers, and the loop of the server's main thread,
which tests, saves and monitors while other threads answer the trainers. A method adds its own server.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.data.tensors import finish, keep_freed_memory, usable
from engine.errors import RunFailed
from engine.runtime.rank.rank import Checkpoints, load_checkpoint
from engine.runtime.transport.request_reply import Answer, ClientLink, Exchange, Request
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import DROPOUT, ORDER, WEIGHTS, seed_of
from engine.training.flat_net import FlatNet, state_size
from engine.training.server import FETCH, LEAVE, PUSH, WeightServer
from engine.training.settings import ServerConfig
from engine.training.step_log import Faults
from engine.training.workload import Batch, Rounds, Workload

REPORT_EACH = 100
"""Number of gradients in one staleness mean and 99th percentile."""


def run_with_server(
    config: ServerConfig, ranks: Ranks, workload: Workload, kind: type[WeightServer], tutorial_batch: int
) -> None:
    """Start `ps` with a server of that kind, and its trainers; return when all have finished. The tutorial's server
    updates once per `tutorial_batch` gradients.
    """
    if config.variant == "tutorial":
        from engine.training import tutorial_server  # only this one needs torchvision's transforms

        tutorial_server.run(config, ranks, workload, tutorial_batch)
        return
    exchange = exchange_with_server(config, workload, ranks.devices[0])
    ranks.run(_take_part, config, kind, exchange, workload, expendable=config.expendable)


def _take_part(
    rank: Rank, config: ServerConfig, kind: type[WeightServer], exchange: Exchange, workload: Workload
) -> None:
    if rank.index == exchange.server:
        ServerLoop(rank, config, kind(rank, config, workload.to(rank.device))).run(exchange)
    else:
        train(rank, config, exchange, workload)


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


# ---- A trainer: its copy of the net, its mini-batches and its requests ---------------------------------------------


def train(rank: Rank, config: ServerConfig, exchange: Exchange, workload: Workload) -> None:
    """Run as a trainer: push gradients, each computed from the weights in the previous answer."""
    with ServerClient.connect(rank, config, exchange, workload) as ps:
        ps.fetch()
        for inputs, targets in ps.batches():
            with ps.record.phase("compute"):
                ps.faults.inject(ps.step)
                loss = ps.net.compute_gradient(inputs, targets)
            answer = ps.push(loss, len(targets))
            ps.log_step(loss, answer)


class ServerClient:
    """A trainer's connection to the server; `net` holds the weights of the last answer."""

    def __init__(
        self, rank: Rank, config: ServerConfig, line: ClientLink, workload: Workload, device: torch.device
    ) -> None:
        self.rank = rank
        self.config = config
        self.line = line
        self.workload = workload
        self.record = rank.recorder
        self.shares_memory = line.incoming.device == device
        """Whether the net's memory is the line's own buffer."""
        with torch.device("meta"):  # its values arrive with the first fetch
            net = workload.net(seed_of(config.seed, WEIGHTS))
        state, message = (line.incoming, line.outgoing) if self.shares_memory else (None, None)
        self.net = FlatNet(net, workload.loss, state, message, device)
        self.faults = Faults(rank, config, rank.index)
        self.step = 0
        self.samples = 0
        self.version = 0
        self.rounds = Rounds(self.record, workload, rank.index)

    @classmethod
    @contextmanager
    def connect(
        cls, rank: Rank, config: ServerConfig, exchange: Exchange, workload: Workload
    ) -> Iterator["ServerClient"]:
        """Run as a trainer for the block; tell the server at its end that no more gradients will follow."""
        keep_freed_memory()
        device = usable(config.device, str(rank.device))
        with exchange.connect(rank) as line:
            client = cls(rank, config, line, workload.to(device), device)
            torch.manual_seed(rank.seed_of(DROPOUT))
            rank.ready()
            yield client
            line.ask(Request(rank.index, LEAVE), send=False)

    def fetch(self) -> None:
        """Fetch the weights and resume after the steps that they already include."""
        answer = self._ask("fetch", FETCH, send=False)
        self.step, self.version = answer.note, answer.version
        self.samples = self.workload.samples(self.rank.index, self.step)
        if self.step:
            torch.manual_seed(self.rank.seed_of(DROPOUT, self.step))

    def batches(self) -> Iterator[Batch]:
        """Yield this trainer's mini-batches; `step` counts them."""
        batches = self.workload.batches(self.rank.index, self.rank.seed_of(ORDER), self.step)
        while True:
            with self.record.phase("data"):
                batch = next(batches, None)
            if batch is None:
                return
            self.step += 1
            yield batch

    def push(self, loss: float, samples: int) -> Answer:
        """Push the gradient in `net` and wait for the answer, whose weights are in `net` afterwards.

        Time that the server delays the answer counts as `wait`. Raises RunFailed if the loss is not finite.
        """
        if not math.isfinite(loss):
            self.record.log({"train/loss": loss}, step=self.step)
            raise RunFailed(
                f"{self.rank.role}'s loss became {loss} at step {self.step}. Lower learning_rate "
                f"({self.config.learning_rate}) or momentum ({self.config.momentum})."
            )
        answer = self._ask("push", PUSH, samples)
        held = answer.held_ns / 1e9
        self.record.spend("wait", held)
        self.record.spend("communicate", -held)
        self.version = answer.version
        self.samples += samples
        return answer

    def log_step(self, loss: float, answer: Answer) -> None:
        """Record a step and the staleness of its gradient."""
        values = {"train/loss": loss}
        if self.config.may_be_stale:
            values["perf/staleness"] = answer.staleness
            self.record.histogram("staleness", answer.staleness)
        self.record.log(values, step=self.step, passes=answer.samples / self.workload.pass_size)
        self.record.progress(self.samples, self.workload.samples(self.rank.index))
        self.rounds.end_if_due(self.step)

    def _ask(self, name: str, kind: int, samples: int = 0, send: bool = True) -> Answer:
        with self.record.phase("communicate", name, peer=0, number=self.step) as asked:
            if send and not self.shares_memory:
                self.line.outgoing.copy_(self.net.message)
            answer = self.line.ask(Request(self.rank.index, kind, self.step, self.version, samples), send=send)
            if not self.shares_memory:
                self.net.state.copy_(self.line.incoming)
            asked.version, asked.value = answer.version, answer.staleness
            asked.bytes = (1 + send) * self.net.state.nbytes
        return answer


# ---- The server's main thread --------------------------------------------------------------------------------------


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
                server.wait()
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
            self.record.log(score.metrics, step=version, passes=passes)
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
