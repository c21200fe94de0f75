"""The two loops of a run with a server: the server's own thread, which tests and watches, and a trainer's."""

import math
import time

import torch

from engine.data.allocator import keep_freed_memory
from engine.data.devices import usable
from engine.errors import RunFailed
from engine.runtime.transport.request_reply import Answer, ClientLink, Exchange, Request
from engine.runtime.worker.checkpoints import Checkpoints, load_checkpoint
from engine.runtime.worker.ranks import Rank
from engine.seeding import DROPOUT, ORDER, WEIGHTS, seed_of
from engine.training.faults import Faults
from engine.training.learner import Learner, state_size
from engine.training.server import FETCH, LEAVE, PUSH, WeightServer
from engine.training.settings import ServerConfig
from engine.training.workload import Workload

LOOK_S = 0.05
REPORT_EACH = 100
"""Gradients whose staleness goes into one mean and one 99th percentile."""


def exchange_with_server(config: ServerConfig, workload: Workload, server_device: str) -> Exchange:
    """Return the exchange between `ps`, which is rank 0, and its trainers, for the vectors of the workload's net."""
    with torch.device("meta"):  # a net without numbers tells their count
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


class Serving:
    """The server's own thread: it answers nobody, but tests the weights, saves them, and looks after the members."""

    def __init__(self, rank: Rank, config: ServerConfig, server: WeightServer) -> None:
        self.rank = rank
        self.config = config
        self.server = server
        self.record = rank.recorder
        self.checkpoints = Checkpoints(rank.folder, config.checkpoint_every_s, rank.recorder.flush)
        self.time_before_s = 0.0
        if rank.resume_from:
            saved = load_checkpoint(rank.resume_from)
            server.restore(saved)
            self.time_before_s = float(saved["time_s"])
        self.tested_at = self._passes()

    def until_all_left(self, exchange: Exchange) -> None:
        """Serve until every trainer has left; test the weights on the way and at the end."""
        server = self.server
        with exchange.serve(self.rank, server) as service:
            self.rank.ready()
            self.began = time.monotonic()
            server.begin()
            while server.active:
                with self.record.phase("wait"):
                    server.stirred.wait(LOOK_S)
                    server.stirred.clear()
                service.check()
                server.look_after_members()
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
            score = self.server.workload.score(state)
        if score:
            self.record.log({"test/accuracy": score.accuracy, "test/loss": score.loss}, step=version, passes=passes)

    def _save_if_due(self) -> None:
        if not self.checkpoints.due():
            return
        with self.record.phase("other"):
            with self.server.lock:
                saved, version, passes = self.server.checkpoint(), self.server.version, self._passes()
            saved["time_s"] = self.time_before_s + time.monotonic() - self.began
            self.checkpoints.save(saved, step=version, passes=passes, time_s=float(saved["time_s"]))  # type: ignore[arg-type]

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


def train(rank: Rank, config: ServerConfig, exchange: Exchange, workload: Workload) -> None:
    """Be a trainer: fetch the weights, then push one gradient after another, each answered with the weights to go on
    from.
    """
    keep_freed_memory()
    device = usable(config.device, str(rank.device))
    workload = workload.to(device)
    with exchange.connect(rank) as line:
        trainer = Trainer(rank, config, line, workload, device)
        torch.manual_seed(rank.seed_of(DROPOUT))
        rank.ready()
        skip = trainer.fetch()
        if skip:
            torch.manual_seed(rank.seed_of(DROPOUT, skip))
        batches = workload.batches(rank.index, rank.seed_of(ORDER), skip)
        while trainer.step_on(batches):
            pass
        line.ask(Request(rank.index, LEAVE), send=False)


class Trainer:
    """One trainer's steps and what it records of them."""

    def __init__(
        self, rank: Rank, config: ServerConfig, line: ClientLink, workload: Workload, device: torch.device
    ) -> None:
        self.rank = rank
        self.config = config
        self.line = line
        self.workload = workload
        self.record = rank.recorder
        self.here = line.incoming.device == device
        with torch.device("meta"):  # its numbers come with the first fetch
            net = workload.net(seed_of(config.seed, WEIGHTS))
        state, message = (line.incoming, line.outgoing) if self.here else (None, None)
        self.learner = Learner(net, workload.loss, state, message, device)
        self.faults = Faults(rank, config, rank.index)
        self.step = 0
        self.samples = 0
        self.version = 0

    def fetch(self) -> int:
        """Take the weights as they are; return how many of this trainer's steps are in them already."""
        with self.record.phase("communicate"):
            answer = self._ask(FETCH, send=False)
        self.step, self.version = answer.note, answer.version
        self.samples = self.workload.samples(self.rank.index, self.step)
        return self.step

    def step_on(self, batches: "object") -> bool:
        """Push the gradient of the next mini-batch; return False where there is none left."""
        with self.record.phase("data"):
            batch = next(batches, None)  # type: ignore[call-overload]
        if batch is None:
            return False
        self.step += 1
        with self.record.phase("compute"):
            self.faults.strike(self.step)
            loss = self.learner.step(*batch)
        if not math.isfinite(loss):
            self.record.log({"train/loss": loss}, step=self.step)
            raise RunFailed(
                f"{self.rank.role}'s loss became {loss} at its step {self.step}. Lower learning_rate "
                f"({self.config.learning_rate}) "
                f"or momentum ({self.config.momentum}); a checkpoint from before is kept."
            )
        with self.record.phase("communicate"):
            answer = self._ask(PUSH, len(batch[1]))
        held = answer.held_ns / 1e9
        self.record.spend("wait", held)
        self.record.spend("communicate", -held)
        self._log(loss, answer, len(batch[1]))
        return True

    def _ask(self, kind: int, samples: int = 0, send: bool = True) -> Answer:
        if send and not self.here:
            self.line.outgoing.copy_(self.learner.message)
        answer = self.line.ask(Request(self.rank.index, kind, self.step, self.version, samples), send=send)
        if not self.here:
            self.learner.state.copy_(self.line.incoming)
        return answer

    def _log(self, loss: float, answer: Answer, samples: int) -> None:
        self.version = answer.version
        self.samples += samples
        values = {"train/loss": loss}
        if self.config.may_be_stale:
            values["perf/staleness"] = answer.staleness
            self.record.histogram("staleness", answer.staleness)
        self.record.log(values, step=self.step, passes=answer.samples / self.workload.pass_size)
        self.record.progress(self.samples, self.workload.samples(self.rank.index))
