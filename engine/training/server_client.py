"""The trainer's side of a run with a server: its copy of the net, its mini-batches and its requests."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.data.tensors import keep_freed_memory, usable
from engine.errors import RunFailed
from engine.runtime.transport.request_reply import Answer, ClientLink, Exchange, Request
from engine.runtime.worker.ranks import Rank
from engine.seeding import DROPOUT, ORDER, WEIGHTS, seed_of
from engine.training.faults import Faults
from engine.training.flat_net import FlatNet
from engine.training.server import FETCH, LEAVE, PUSH
from engine.training.settings import ServerConfig
from engine.training.workload import Batch, Rounds, Workload


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
