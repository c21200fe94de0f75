"""The trainers as their server sees them: who is active, who waits for an answer, and who has exceeded timeout_s."""

import threading
import time
from dataclasses import dataclass, field

from engine.errors import RunFailed
from engine.runtime.transport.request_reply import Respond
from engine.runtime.worker.ranks import Rank
from engine.training.settings import ServerConfig, rate_factor
from engine.training.workload import Workload


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
    """The members of one server. Call all methods except `start_timeouts` and `check_members` under `lock`."""

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
