"""What every server of weights does: hand them out with a version, know its members, apply no push twice.

What happens to a gradient is the method's own: it overrides `push`, and `shrunk` for what to do when a member has left.
"""

import threading
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.data.weights import FlatSgd
from engine.errors import RunFailed
from engine.runtime.exchange import Answer, Request, Respond
from engine.runtime.ranks import Rank
from engine.training.learner import flat_state
from engine.training.settings import ServerConfig
from engine.training.workload import Workload

FETCH, PUSH, LEAVE = range(3)


@dataclass
class Member:
    """One trainer as the server knows it."""

    index: int
    role: str
    step: int = 0
    """The last step of its own that has arrived."""
    heard_at: float = field(default_factory=time.monotonic)
    here: bool = True
    waits: bool = False
    """Whether it waits for an answer: then its silence is the server's doing."""
    respond: Respond | None = None


class WeightServer:
    """Weights and running statistics in one vector `state` [P + B], a version that counts updates, and the trainers.

    It is the handler of an exchange: called from several threads, every change of it happens under `lock`, and no call waits.
    """

    def __init__(self, rank: Rank, config: ServerConfig, workload: Workload) -> None:
        net = workload.net(config.seed)
        self.config = config
        self.rank = rank
        self.workload = workload
        self.state = flat_state(net).to(rank.device)
        self.parameters = sum(parameter.numel() for parameter in net.parameters())
        self.gradient = torch.zeros_like(self.state)
        self.optimizer = FlatSgd(self.state[: self.parameters], self.gradient[: self.parameters], config.learning_rate, config.momentum)
        self.total = sum(workload.samples(number) for number in range(1, config.trainers + 1))
        self.version = 0
        self.samples = 0
        self.members = {number: Member(number, role) for number, role in enumerate(config.trainer_roles, start=1)}
        self.staleness: list[int] = []
        """Of the gradients applied since they were last reported."""
        self.serve_s = 0.0
        self.lock = threading.Lock()
        self.stirred = threading.Event()
        """Set when a member leaves: the driving thread may have something to do."""

    # ---- what the method decides

    def push(self, member: Member, request: Request, vector: Tensor, respond: Respond) -> None:
        """Take a gradient (with running statistics, [P + B]) and respond to it, now or later."""
        raise NotImplementedError

    def shrunk(self) -> None:
        """Do what is due now that a member has left."""

    # ---- the exchange's side

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        """Answer one question."""
        with self.lock:
            began = time.thread_time()
            self._take(self.members[request.client], request, vector, respond)
            self.serve_s += time.thread_time() - began

    def _take(self, member: Member, request: Request, vector: Tensor | None, respond: Respond) -> None:
        member.heard_at = time.monotonic()
        if request.kind == LEAVE:
            self._leave(member)
            respond(Answer(self.version), None)
        elif request.kind == FETCH:
            self.send(member, respond, note=member.step)
        elif request.step <= member.step:
            self._once_more(member, respond)
        else:
            assert vector is not None
            self._rejoin(member)
            member.step = request.step
            member.waits = True
            self.samples += request.samples
            self.push(member, request, vector.to(self.state.device), respond)

    def send(self, member: Member, respond: Respond, staleness: int = 0, note: int = 0) -> None:
        """Respond with the weights as they are now."""
        member.waits, member.respond, member.heard_at = False, None, time.monotonic()
        respond(Answer(self.version, staleness, self.samples, note), self.state)

    def _once_more(self, member: Member, respond: Respond) -> None:
        """A push that has arrived before is not applied again: it is answered as the first one is, or at once where that was."""
        if not member.waits:
            self.send(member, respond)
            return
        first = member.respond
        assert first is not None

        def both(answer: Answer, vector: Tensor | None) -> None:
            first(answer, vector)
            respond(answer, vector)

        member.respond = both

    # ---- updates

    def learning_rate(self) -> float:
        """Return the learning rate at this point of the run."""
        left = 1 - self.samples / self.total if self.config.schedule == "linear" else 1.0
        return self.config.learning_rate * max(0.0, left)

    def mix_statistics(self, mean: Tensor, share: float) -> None:
        """Move the running statistics to those that trainers sent, by the share of the trainers that they come from."""
        self.state[self.parameters :].lerp_(mean, share)

    # ---- members

    def begin(self) -> None:
        """Count silence from now on: until here trainers were starting."""
        with self.lock:
            for member in self.members.values():
                member.heard_at = time.monotonic()

    @property
    def active(self) -> list[Member]:
        """The members that have not left."""
        return [member for member in self.members.values() if member.here]

    def _leave(self, member: Member) -> None:
        if member.here:
            member.here = False
            self.shrunk()
            self.stirred.set()

    def _rejoin(self, member: Member) -> None:
        if not member.here:
            member.here = True
            self.rank.say("trainer back", f"{member.role} was silent for longer than timeout_s and is heard again; its gradients count from here on.")

    def look_after_members(self) -> None:
        """Part with trainers that died, and with those that are silent for too long; raises RunFailed where the method needs them."""
        with self.lock:
            for index in self.rank.gone():
                self._leave(self.members[index])
            for member in self.active:
                silent_s = time.monotonic() - member.heard_at
                if not member.waits and silent_s > self.config.timeout_s:
                    self._part_with(member)

    def _part_with(self, member: Member) -> None:
        sentence = f"{member.role} sent nothing for {self.config.timeout_s:g} s (timeout_s) after its step {member.step}"
        if self.config.needs_all:
            raise RunFailed(f"{sentence}, and no update can be made without it. Look at its log, or raise timeout_s where its steps take that long.")
        self.rank.say("trainer silent", f"{sentence}. The others go on.")
        self._leave(member)

    # ---- checkpoints

    def checkpoint(self) -> dict[str, object]:
        """Return what training needs to go on; call under `lock`."""
        return {
            "state": self.state.cpu().clone(),
            "velocity": self.optimizer.velocity.cpu().clone(),
            "version": self.version,
            "samples": self.samples,
            "steps": [member.step for member in self.members.values()],
        }

    def restore(self, saved: dict[str, object]) -> None:
        """Take up a checkpoint; a trainer hears the last step of its own that counts when it first fetches."""
        self.state.copy_(saved["state"])  # type: ignore[arg-type]
        self.optimizer.velocity.copy_(saved["velocity"])  # type: ignore[arg-type]
        self.version, self.samples = int(saved["version"]), int(saved["samples"])  # type: ignore[call-overload]
        for member, step in zip(self.members.values(), saved["steps"], strict=True):  # type: ignore[call-overload]
            member.step = step
