"""Base of all weight servers: send versioned weights, track the members, apply no push twice.

Each method overrides `on_gradient`, and `on_member_left` if it waits for members.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from engine.data.nets import FlatSgd
from engine.data.tensors import finish
from engine.errors import RunFailed
from engine.runtime.transport.request_reply import Answer, Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.seeding import WEIGHTS, seed_of
from engine.trace.layout import EVERYBODY
from engine.training.flat_net import flat_state
from engine.training.settings import ServerConfig, rate_factor
from engine.training.workload import Workload

# ------------------------------------------------------------------------------------------------------------------
# The trainers as their server sees them: who is active, who waits for an answer, and who has exceeded timeout_s.


POLL_S = 0.05


@dataclass
class TrainerState:
    """One trainer as the server sees it."""

    index: int
    role: str
    steps: int
    """Steps that it makes in the run."""
    step: int = 0
    """The last of its steps that has arrived."""
    samples: int = 0
    """The samples of that step."""
    heard_at: float = field(default_factory=time.monotonic)
    is_active: bool = True
    is_waiting: bool = False
    """Whether it waits for an answer, so that its silence doesn't count."""
    respond: Respond | None = None
    """Answers its last request; None once answered."""


class Membership:
    """The members of one server. Call all methods except `start_timeouts`, `wait` and `check_members` under
    `lock`.
    """

    def __init__(self, rank: Rank, config: ServerConfig, workload: Workload) -> None:
        self.rank = rank
        self.config = config
        self.members = {
            number: TrainerState(number, role, workload.steps(number))
            for number, role in enumerate(config.trainer_roles, start=1)
        }
        self.version = 0
        """Number of updates of the weights."""
        self.serve_s = 0.0
        """CPU seconds of the handler threads."""
        self.lock = threading.Lock()
        self.member_left = threading.Event()
        """Set when a member leaves, to wake the main thread."""

    def on_member_left(self) -> None:
        """Handle the departure of a member; overridden by the method."""

    def learning_rate(self, gradients: int) -> float:
        """Return the learning rate of the next update, for which the last `gradients` have arrived.

        Where every update needs all trainers, the number of updates is known; else each gradient counts as one step of
        the schedule, also a dropped one, but none that a lost trainer would have sent.
        """
        if self.config.needs_all:
            done, total = self.version, max(member.steps for member in self.members.values())
        else:
            done = sum(member.step for member in self.members.values()) - gradients
            total = sum(member.steps if member.is_active else member.step for member in self.members.values())
        return self.config.learning_rate * rate_factor(self.config.schedule, done, total)

    def start_timeouts(self) -> None:
        """Start counting silence, now that all trainers have started."""
        with self.lock:
            for member in self.members.values():
                member.heard_at = time.monotonic()

    @property
    def active(self) -> list[TrainerState]:
        """The members that have not left."""
        return [member for member in self.members.values() if member.is_active]

    def leave(self, member: TrainerState) -> None:
        """Remove a member."""
        if member.is_active:
            member.is_active = False
            self.on_member_left()
            self.member_left.set()

    def rejoin(self, member: TrainerState) -> None:
        """Add back a member that was removed."""
        if not member.is_active:
            member.is_active = True
            self.rank.say(
                "trainer back",
                (f"{member.role} is back after a silence longer than timeout_s; its gradients count again."),
            )

    def wait(self) -> None:
        """Wait in the main thread until a member leaves, at most until the members have to be checked again."""
        with self.rank.recorder.phase("wait", "requests", peer=EVERYBODY):
            self.member_left.wait(POLL_S)
            self.member_left.clear()

    def check_members(self) -> None:
        """Remove trainers that died or are silent for too long; raises RunFailed if the method needs all of them."""
        with self.lock:
            for index in self.rank.gone():
                self.leave(self.members[index])
            for member in self.active:
                silent_s = time.monotonic() - member.heard_at
                if not member.is_waiting and silent_s > self.config.timeout_s:
                    self._remove_silent(member)

    def _remove_silent(self, member: TrainerState) -> None:
        sentence = f"{member.role} sent nothing for {self.config.timeout_s:g} s (timeout_s) after step {member.step}"
        if self.config.needs_all:
            raise RunFailed(
                f"{sentence}, and no update is possible without it. Check its log, or raise timeout_s "
                "if its steps take that long."
            )
        self.rank.say("trainer silent", f"{sentence}. The other trainers continue.")
        self.leave(member)


# ---- Server --------------------------------------------------------------------------------------------------------

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
