"""REINFORCE with one agent and many observers that request every action from it (Williams 1992), after PyTorch's
tutorial "Implementing Batch RPC Processing Using Asynchronous Executions".

Roles: `agent` owns the policy; `observer1…N` each play their own environments. In every step an observer sends its
state s and gets an action a ~ pi(s): from its own forward pass (`per_call`), or from one for all observers
(`batched`), triggered by the last request. After `steps` steps, with G the sum of the rewards from a step to the end
of its sub-episode,

    policy <- Adam(policy, gradient of -sum of log pi(a|s) * G over all steps / environments)

and the next round begins. T steps per round, M environments of all observers.
"""

import threading
import time

import numpy as np
import torch
from torch import Tensor

from engine.data.nets import FlatAdam, bind, drawn_from, flat_weights
from engine.data.tensors import usable
from engine.errors import RunFailed
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.messages import END, REWARD, MessageLayout, Policy, RoundMemory
from engine.rl.actor_critic import returns_of
from engine.rl.environments import Environments
from engine.rl.kinds import Kind, kind_of
from engine.runtime.transport.request_reply import Answer, ClientLink, Exchange, Request, Respond
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import ENVIRONMENT, WEIGHTS, seed_of
from engine.trace.layout import EVERYBODY

REPORT_EACH = 25
"""Steps between reports of progress and phases; reporting at each step would cost as much as the step."""


def run(config: BatchedReinforceConfig, ranks: Ranks) -> None:
    """Start the agent and its observers; return when all have finished."""
    if config.variant == "tutorial":
        from engine.experiments.batched_reinforce import tutorial

        ranks.run(tutorial.run_rank, config)
        return
    usable(config.device, ranks.devices[0])
    exchange = Exchange.create(
        config.transport,
        MessageLayout.of(config, kind_of(config.environment)).size,
        server=0,
        server_role="agent",
        clients=tuple(range(1, config.observers + 1)),
        patience_s=config.patience_s,
    )
    ranks.run(_run_rank, config, exchange)


def _run_rank(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange) -> None:
    """Run the agent or an observer for all rounds."""
    kind = kind_of(config.environment)
    if rank.index == exchange.server:
        _AgentService(rank, _Agent(rank, config, kind)).serve(exchange)
        return
    environments = Environments(kind, config.envs_per_observer, rank.seed_of(ENVIRONMENT), rank.role)
    with exchange.connect(rank) as line:
        observer = _Observer(rank, config, line, MessageLayout.of(config, kind), environments)
        rank.ready()
        while observer.play_round():
            pass
    environments.close()


class _Agent:
    """The policy, the memory of a round, and the optimizer."""

    def __init__(self, rank: Rank, config: BatchedReinforceConfig, kind: Kind) -> None:
        assert kind.choices is not None
        self.recorder = rank.recorder
        self.config = config
        self.layout = MessageLayout.of(config, kind)
        with drawn_from(seed_of(config.seed, WEIGHTS)):
            self.policy = Policy(kind.observation, kind.choices, config.dropout).to(rank.device)
        weights = flat_weights(self.policy).to(rank.device)
        self.gradient = bind(self.policy, weights)
        self.optimizer = FlatAdam(weights, self.gradient, config.learning_rate)
        self.memory = RoundMemory(
            config.steps, config.observers * config.envs_per_observer, kind.observation, rank.device
        )
        self.told = np.zeros((config.observers, self.layout.size), np.float32)
        """By observer: its last message."""
        self._replies = np.zeros_like(self.told)
        self.answers = list(torch.from_numpy(self._replies))
        """By observer: its actions, as a message; a view of `_replies`."""
        self.asked: set[int] = set()
        """Observers with a pending request in this step."""
        self.episode = 0
        self.running_length: float | None = None
        """Exponential moving average (weight 0.5) of the rounds' mean first length."""

    def on_states(self, step: int, observer: int, message: Tensor) -> list[int]:
        """Store the states and rewards of an observer (from 0); return the observers whose answers are ready.

        Mode per_call acts for one observer at once; batched acts for all in one forward pass when the last request
        arrives. After the last step of a round the agent trains.
        """
        self.told[observer] = message.numpy()
        self.asked.add(observer)
        everyone = len(self.asked) == self.config.observers
        if step < self.config.steps and self.config.mode == "per_call":
            ready = [observer]
        elif everyone:
            ready = list(range(self.config.observers))
        else:
            return []
        first, end = ready[0], ready[-1] + 1
        rows = self.told[first:end].reshape(-1, self.layout.shape[1])
        self.memory.remember(step, self.layout.columns(first, end), rows)
        if step == self.config.steps:
            self.learn()
        else:
            self.act(step, first, end)
        self.asked.difference_update(ready)
        return ready

    def act(self, step: int, first: int, end: int) -> None:
        """Sample actions for the states of observers `first` to `end` - 1 in one forward pass."""
        columns, memory = self.layout.columns(first, end), self.memory
        masks = self.policy.draw_masks(columns.stop - columns.start)
        actions = self.policy.act(memory.states[step, columns].to(masks.device), masks)
        memory.masks[step, columns], memory.actions[step, columns] = masks, actions
        environments = self.layout.environments
        self._replies[first:end, :environments] = actions.view(-1, environments).cpu().numpy()

    def loss(self) -> Tensor:
        """Return the round's loss []: -sum of log pi(a|s) * return, over environments."""
        memory = self.memory
        returns = returns_of(memory.rewards, memory.ends, self.config.gamma)
        if self.config.normalize_returns:
            returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        scores = self.policy.log_probabilities(memory.states.to(memory.masks.device), memory.masks)
        chosen = scores.gather(2, memory.actions.unsqueeze(2)).squeeze(2)
        return -(chosen * returns.to(chosen.device)).sum() / returns.shape[1]

    def learn(self) -> None:
        """Make one step of Adam on the round in memory; raises RunFailed if its loss is not finite."""
        loss = self.loss()
        self.episode += 1
        self._log(float(loss.detach()))
        if not torch.isfinite(loss):
            raise RunFailed(
                f"agent's loss became {loss.item()} in round {self.episode}. Lower learning_rate "
                f"({self.config.learning_rate})."
            )
        self.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def _log(self, loss: float) -> None:
        first = float(self.memory.first_lengths().mean())
        self.running_length = first if self.running_length is None else 0.5 * first + 0.5 * self.running_length
        values = {"train/loss": loss, "charts/first_length": first, "charts/running_length": self.running_length}
        self.recorder.log(values, step=self.episode * self.config.steps, passes=float(self.episode))
        self.recorder.summarize("round", self.episode, self.config.episodes)


class _Observer:
    """One observer's environments, and its requests to the agent; it records its phases."""

    def __init__(
        self, rank: Rank, config: BatchedReinforceConfig, line: ClientLink, layout: MessageLayout, played: Environments
    ) -> None:
        self.rank = rank
        self.record = rank.recorder
        self.config = config
        self.line = line
        self.environments = played
        self.message = line.outgoing.view(layout.shape).numpy()
        """The message that `ask` sends."""
        self.actions = line.incoming[: layout.environments].numpy()
        """The last answer of `ask`."""
        self.steps = 0
        """Env steps of this observer, over all its environments."""
        self._asked_s = self._held_s = self._played_s = 0.0

    def play_round(self) -> bool:
        """Take T steps with the agent's actions; return whether there is another round."""
        config, environments, message = self.config, self.environments, self.message
        environments.reset()
        for step in range(config.steps):
            message[:, :REWARD] = environments.observations
            self.ask(step)
            began = time.perf_counter()
            with self.record.operation("compute", "env step", number=step):
                found = environments.step(self.actions.astype("int64"))
            message[:, REWARD] = found.rewards
            message[:, END] = found.terminated | found.truncated
            self.steps += config.envs_per_observer
            self._played_s += time.perf_counter() - began
            if step % REPORT_EACH == 0:
                self.report()
            for reward, length in environments.take_finished():
                values = {"charts/episodic_return": reward, "charts/episodic_length": length}
                self.record.log(values, step=self.steps)
        answer = self.ask(config.steps)
        self.report()
        self.record.summarize("round", self.steps // (config.steps * config.envs_per_observer), config.episodes)
        return bool(answer.note)

    def ask(self, step: int) -> Answer:
        """Send the message and wait for the answer."""
        began = time.perf_counter()
        with self.record.operation("rpc", "ask", peer=0, number=step):
            answer = self.line.ask(Request(self.rank.index, 0, step))
        self._asked_s += time.perf_counter() - began
        self._held_s += answer.held_ns / 1e9
        return answer

    def report(self) -> None:
        """Record the phases since the last report, and the progress."""
        self.record.spend("wait", self._held_s)
        self.record.spend("communicate", self._asked_s - self._held_s)
        self.record.spend("compute", self._played_s)
        self._asked_s = self._held_s = self._played_s = 0.0
        total = self.config.episodes * self.config.steps * self.config.envs_per_observer
        self.record.progress(self.steps, total, "env steps")


# ------------------------------------------------------------------------------------------------------------------
# The agent as the server of an exchange: handles one request at a time and answers everyone whose action is ready.

LOOK_S = 0.05


class _AgentService:
    """The handler of the agent's exchange, and the monitor of its observers."""

    def __init__(self, rank: Rank, agent: _Agent) -> None:
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
