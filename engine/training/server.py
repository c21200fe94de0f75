"""Base of all weight servers: send versioned weights, track the members, apply no push twice.

Each method overrides `on_gradient`, and `on_member_left` if it waits for members.
"""

import time
from typing import Any

import torch
from torch import Tensor

from engine.data.devices import finish
from engine.data.weights import FlatSgd
from engine.runtime.transport.request_reply import Answer, Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.seeding import WEIGHTS, seed_of
from engine.training.flat_net import flat_state
from engine.training.membership import Membership, TrainerState
from engine.training.settings import ServerConfig
from engine.training.workload import Workload

FETCH, PUSH, LEAVE = range(3)


class WeightServer(Membership):
    """Weights and running statistics in one vector `state` [P + B], and the trainers.

    It is the handler of an exchange: called from several threads, it changes only under `lock`, and no call waits.
    """

    def __init__(self, rank: Rank, config: ServerConfig, workload: Workload) -> None:
        super().__init__(rank, config, workload)
        net = workload.net(seed_of(config.seed, WEIGHTS))
        self.workload = workload
        self.state = flat_state(net).to(rank.device)
        self.parameters = sum(parameter.numel() for parameter in net.parameters())
        self.gradient = torch.zeros_like(self.state)
        self.optimizer = FlatSgd(
            self.state[: self.parameters], self.gradient[: self.parameters], config.learning_rate, config.momentum
        )
        self.total = sum(workload.samples(number) for number in range(1, config.trainers + 1))
        self.samples = 0
        self.staleness: list[int] = []
        """Staleness of the gradients applied since the last report."""
        self.dropped: int | None = None
        """Late gradients dropped so far; None where none is dropped."""

    # ---- overridden by the method

    def on_gradient(self, trainer: TrainerState, gradient: Tensor, staleness: int) -> None:
        """Handle a gradient (with running statistics, [P + B]) and reply to its trainer, now or later; `staleness`
        counts the updates since its fetch.
        """
        raise NotImplementedError

    # ---- handler of the exchange

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        """Handle one request of a trainer."""
        with self.lock:
            began = time.thread_time()
            self._handle(self.members[request.client], request, vector, respond)
            finish(self.state.device)  # the next request, or a test, has another stream, which waits for nothing
            self.serve_s += time.thread_time() - began

    def _handle(self, member: TrainerState, request: Request, vector: Tensor | None, respond: Respond) -> None:
        member.heard_at = time.monotonic()
        if request.kind == LEAVE:
            self.leave(member)
            respond(Answer(self.version), None)
        elif request.kind == FETCH:
            member.respond = respond
            self.reply(member, note=member.step)
        elif request.step <= member.step:
            self._reply_again(member, respond)
        else:
            assert vector is not None
            self.rejoin(member)
            member.step, member.samples = request.step, request.samples
            member.is_waiting = True
            self.samples += request.samples
            member.respond = respond
            self.on_gradient(member, vector.to(self.state.device), self.version - request.version)

    def reply(self, member: TrainerState, staleness: int = 0, note: int = 0) -> None:
        """Reply to a trainer's last request with the current weights."""
        respond = member.respond
        assert respond is not None
        member.is_waiting, member.respond, member.heard_at = False, None, time.monotonic()
        respond(Answer(self.version, staleness, self.samples, note), self.state)

    def _reply_again(self, member: TrainerState, respond: Respond) -> None:
        """Answer a repeated push without applying it again: with the first one's answer, or at once if that was
        sent.
        """
        if not member.is_waiting:
            member.respond = respond
            self.reply(member)
            return
        first = member.respond
        assert first is not None

        def both(answer: Answer, vector: Tensor | None) -> None:
            first(answer, vector)
            respond(answer, vector)

        member.respond = both

    # ---- updates

    def mix_statistics(self, mean: Tensor, share: float) -> None:
        """Move the running statistics towards those sent by trainers, weighted by the fraction of trainers they come
        from.
        """
        self.state[self.parameters :].lerp_(mean, share)

    # ---- checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the training state for a checkpoint; call under `lock`."""
        return {
            "state": self.state.cpu().clone(),
            "velocity": self.optimizer.velocity.cpu().clone(),
            "version": self.version,
            "samples": self.samples,
            "steps": [member.step for member in self.members.values()],
            "staleness": list(self.staleness),
            "dropped": self.dropped,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Load a checkpoint; a trainer gets its last counted step with its first fetch."""
        self.state.copy_(saved["state"])
        self.optimizer.velocity.copy_(saved["velocity"])
        self.version, self.samples = int(saved["version"]), int(saved["samples"])
        self.staleness = list(saved.get("staleness", ()))
        if self.dropped is not None:
            self.dropped = int(saved.get("dropped") or 0)
        for member, step in zip(self.members.values(), saved["steps"], strict=True):
            member.step = step
