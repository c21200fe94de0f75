"""The trainers as their server knows them: who takes part, who waits for an answer, and who has been silent for longer
than timeout_s.
"""

import threading
import time
from dataclasses import dataclass, field

from engine.errors import RunFailed
from engine.runtime.transport.request_reply import Respond
from engine.runtime.worker.ranks import Rank
from engine.training.settings import ServerConfig


@dataclass
class TrainerState:
    """One trainer as the server knows it."""

    index: int
    role: str
    step: int = 0
    """The last step of its own that has arrived."""
    heard_at: float = field(default_factory=time.monotonic)
    is_active: bool = True
    is_waiting: bool = False
    """Whether it waits for an answer: then its silence is the server's doing."""
    respond: Respond | None = None
    """Answers its last request; None where that is answered."""


class Membership:
    """The members of one server. All but `start_timeouts` and `check_members` are called under `lock`."""

    def __init__(self, rank: Rank, config: ServerConfig) -> None:
        self.rank = rank
        self.config = config
        self.members = {number: TrainerState(number, role) for number, role in enumerate(config.trainer_roles, start=1)}
        self.serve_s = 0.0
        """CPU seconds of the threads that answer."""
        self.lock = threading.Lock()
        self.member_left = threading.Event()
        """Set when a member leaves: the driving thread may have something to do."""

    def on_member_left(self) -> None:
        """Do what is due now that a member has left; the method overrides it."""

    def start_timeouts(self) -> None:
        """Count silence from now on: until here trainers were starting."""
        with self.lock:
            for member in self.members.values():
                member.heard_at = time.monotonic()

    @property
    def active(self) -> list[TrainerState]:
        """The members that have not left."""
        return [member for member in self.members.values() if member.is_active]

    def leave(self, member: TrainerState) -> None:
        """Do without a member from now on."""
        if member.is_active:
            member.is_active = False
            self.on_member_left()
            self.member_left.set()

    def rejoin(self, member: TrainerState) -> None:
        """Count on a member again that was thought to be gone."""
        if not member.is_active:
            member.is_active = True
            self.rank.say(
                "trainer back",
                (
                    f"{member.role} was silent for longer than timeout_s and is heard again; its gradients count "
                    "from here on."
                ),
            )

    def check_members(self) -> None:
        """Remove trainers that died or are silent for too long; raises RunFailed where the method needs them."""
        with self.lock:
            for index in self.rank.gone():
                self.leave(self.members[index])
            for member in self.active:
                silent_s = time.monotonic() - member.heard_at
                if not member.is_waiting and silent_s > self.config.timeout_s:
                    self._remove_silent(member)

    def _remove_silent(self, member: TrainerState) -> None:
        sentence = (
            f"{member.role} sent nothing for {self.config.timeout_s:g} s (timeout_s) after its step {member.step}"
        )
        if self.config.needs_all:
            raise RunFailed(
                f"{sentence}, and no update can be made without it. Look at its log, or raise timeout_s where "
                "its steps take that long."
            )
        self.rank.say("trainer silent", f"{sentence}. The others go on.")
        self.leave(member)
