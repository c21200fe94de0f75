"""A policy with all its parameters in one flat vector, and the optimizer of its actor and critic."""

import torch
from torch import Tensor

from engine.data.nets import FlatAdam, bind, drawn_from, flat_weights
from engine.errors import RunFailed
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.shared_state import Locks, SharedState
from engine.rl.actor_critic import ActorCritic, Normalizer
from engine.rl.environments import Floats
from engine.rl.kinds import Kind
from engine.seeding import WEIGHTS, seed_of

LOSSES = ("train/policy_loss", "train/value_loss", "train/entropy", "train/clipped")
"""Metrics of one step's losses, in order."""
LARGEST = 0.5
"""Maximum gradient norm of actor or critic; longer gradients are clipped."""


class FlatPolicy:
    """Actor, critic and normalizer over one state vector [P + N]: P weights, N normalizer values."""

    def __init__(self, config: DppoConfig, kind: Kind, state: Tensor | None = None) -> None:
        """Bind the networks to `state`, or to a new vector with new weights."""
        self.net = ActorCritic(kind, config.network)
        first = flat_weights(self.net)
        numbers = torch.zeros(Normalizer.size(kind.observation))
        Normalizer(numbers).reset()
        self.state = torch.cat([first, numbers]) if state is None else state
        self.weights, self._numbers = self.state[: len(first)], self.state[len(first) :]
        self.gradient = bind(self.net, self.weights)
        self.normalizer = Normalizer(self._numbers)
        self._normalizes = config.normalize_observations

    def normalized(self, observations: Tensor) -> Tensor:
        """Return the networks' inputs for observations."""
        return self.normalizer(observations) if self._normalizes else observations

    def values(self, observations: Floats) -> Floats:
        """Return V(s) of observations [M, observation], [M]."""
        found: Floats = self.net.values(self.normalized(torch.from_numpy(observations))).numpy()
        return found


def first_policy(shared: SharedState, config: DppoConfig, kind: Kind) -> FlatPolicy:
    """Return the learner's policy with the seed's initial weights, published as version 0."""
    with drawn_from(seed_of(config.seed, WEIGHTS)):
        first = FlatPolicy(config, kind).state
    shared.weights[0].copy_(first)
    return FlatPolicy(config, kind, shared.weights[0] if shared.live else first)


class ActorCriticAdam:
    """Separate Adam optimizers for actor and critic, with gradient norms of at most `LARGEST`."""

    def __init__(self, policy: FlatPolicy, config: DppoConfig) -> None:
        total = len(policy.weights)
        actor = total - sum(parameter.numel() for parameter in policy.net.critic.parameters())
        parts = (slice(0, actor), slice(actor, total))
        self._gradients = [policy.gradient[part] for part in parts]
        self._rates = (config.learning_rate, config.critic_learning_rate or config.learning_rate)
        self.parts = [
            FlatAdam(policy.weights[part], gradient, rate, epsilon=1e-5)
            for part, gradient, rate in zip(parts, self._gradients, self._rates, strict=True)
        ]

    def scale_rates(self, factor: float) -> None:
        """Set both learning rates to a fraction of the config's."""
        for optimizer, rate in zip(self.parts, self._rates, strict=True):
            optimizer.learning_rate = rate * factor

    def step(self) -> None:
        """Make one step with the policy's gradient."""
        for gradient, optimizer in zip(self._gradients, self.parts, strict=True):
            gradient.mul_(torch.clamp(LARGEST / (gradient.norm() + 1e-6), max=1.0))
            optimizer.step()


def mean_losses(losses: list[Tensor], update: int, config: DppoConfig) -> dict[str, float]:
    """Return the metrics of an update from the losses [4] of its steps; raises RunFailed if they are not finite."""
    means = torch.stack(losses).mean(0).tolist()
    if not all(map(torch.isfinite, losses[-1])):
        raise RunFailed(
            f"learner's losses became {', '.join(f'{value:g}' for value in losses[-1].tolist())} in update {update}. "
            f"Lower learning_rate ({config.learning_rate}), or scale rewards down with reward_scale "
            f"({config.reward_scale})."
        )
    return dict(zip(LOSSES, means, strict=True))


# ------------------------------------------------------------------------------------------------------------------
# Transfer of the learner's policy to collectors and evaluation: two copies in shared memory and a version.


class PublishedPolicy:
    """The learner's published policy in two copies; the last published one is always complete."""

    def __init__(self, shared: SharedState, locks: Locks) -> None:
        self._shared = shared
        self._lock = locks("weights")

    @property
    def version(self) -> int:
        """Number of published updates."""
        return self._shared.counts.version

    def publish(self, state: Tensor) -> int:
        """Publish a policy and return its version. For a single writer. With live weights there is nothing to copy."""
        version = self.version + 1
        if not self._shared.live:
            self._shared.weights[version % 2].copy_(state)
        with self._lock:
            self._shared.counts.version = version
        return version

    def take(self, state: Tensor) -> int:
        """Copy the newest complete policy into `state` and return its version. Live weights may change during the
        copy.
        """
        if self._shared.live:
            state.copy_(self._shared.weights[0])
            return self.version
        while True:
            with self._lock:
                version = self.version
            state.copy_(self._shared.weights[version % 2])
            with self._lock:
                if self.version == version:  # no writer can have started on this copy
                    return version
