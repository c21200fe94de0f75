"""The agent as the server of an exchange: handles one request at a time and answers everyone whose action is ready."""

import threading
import time

from torch import Tensor

from engine.errors import RunFailed
from engine.experiments.batched_reinforce.reinforce import Agent
from engine.runtime.transport.request_reply import Answer, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank
from engine.trace.layout import EVERYBODY

LOOK_S = 0.05


class AgentService:
    """The handler of the agent's exchange, and the monitor of its observers."""

    def __init__(self, rank: Rank, agent: Agent) -> None:
        self.rank = rank
        self.agent = agent
        self.config = agent.config
        self.waiting: dict[int, Respond] = {}
        """By observer: how to answer its pending request."""
        self.heard_at = [time.monotonic()] * self.config.observers
        self.answered = 0
        """Seconds of forward passes and updates while handling requests."""
        self.serve_s = 0.0
        self.lock = threading.Lock()
        self.done = threading.Event()

    def serve(self, exchange: Exchange) -> None:
        """Serve until the last round's update is done."""
        with exchange.serve(self.rank, self) as service:
            self.rank.ready()
            self.heard_at = [time.monotonic()] * self.config.observers
            while not self.done.is_set():
                with self.rank.recorder.phase("wait", "requests", peer=EVERYBODY):
                    self.done.wait(LOOK_S)
                service.check()
                self._check_observers()
                self._report()
            service.check()
        self._report()

    def __call__(self, request: Request, vector: Tensor | None, respond: Respond) -> None:
        """Pass an observer's message to the agent and send the answers that are ready; called by the exchange."""
        assert vector is not None
        with self.lock:
            began = time.thread_time()
            observer = request.client - 1
            self.waiting[observer] = respond
            ready = self.agent.on_states(request.step, observer, vector)
            if self.agent.episode == self.config.episodes:
                self.done.set()
            if ready:
                self._answer(ready)
            self.serve_s += time.thread_time() - began

    def _answer(self, observers: list[int]) -> None:
        self.answered += 1
        going_on = int(self.agent.episode < self.config.episodes)
        for observer in observers:
            self.heard_at[observer] = time.monotonic()
            self.waiting.pop(observer)(Answer(self.answered, note=going_on), self.agent.answers[observer])

    def _check_observers(self) -> None:
        """Raise RunFailed if an observer has sent no request for timeout_s."""
        with self.lock:
            for observer, heard_at in enumerate(self.heard_at):
                is_late = observer not in self.waiting and time.monotonic() - heard_at > self.config.timeout_s
                if is_late and not self.done.is_set():
                    role = self.config.observer_roles[observer]
                    others = " and ".join(self.config.observer_roles[other] for other in sorted(self.waiting))
                    waiting = f", and {others} {'waits' if len(self.waiting) == 1 else 'wait'} for it" if others else ""
                    raise RunFailed(
                        f"{role} sent no request for {self.config.timeout_s:g} s (timeout_s) in round "
                        f"{self.agent.episode + 1}{waiting}. Its environment may hang: check its log, or raise "
                        f"timeout_s if a step of {self.config.environment} takes that long."
                    )

    def _report(self) -> None:
        with self.lock:
            serve_s, self.serve_s = self.serve_s, 0.0
        self.rank.recorder.spend("serve", serve_s)
