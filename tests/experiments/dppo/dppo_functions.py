"""What ranks do in the tests of DPPO; here because a rank's process must be able to import it."""

import time

import torch
from torch import Tensor

from engine.experiments.dppo import method
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.gradient_by_hand import Evaluation
from engine.experiments.dppo.policy import FlatPolicy, PublishedPolicy
from engine.experiments.dppo.shared_state import SharedState
from engine.rl import environments
from engine.rl.kinds import kind_of
from engine.runtime.worker.ranks import Rank
from tests.breaking import Breaking

run_rank = method._run_rank


class Spoiled(SharedState):
    """A board on which no policy is left when its run is over."""

    def stop(self) -> None:
        self.weights.zero_()
        super().stop()


def balance(player: FlatPolicy) -> None:
    """Make a player's policy for CartPole one that holds the pole up: push to the side to which it leans and falls, and
    back to the middle.
    """
    actor = player.net.actor
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.zero_()
        actor[0].weight[0] = torch.tensor([0.05, 0.1, 1.0, 0.5])
        actor[2].weight[0, 0] = 1.0
        actor[4].weight[:, 0] = torch.tensor([-1.0, 1.0])


def publish_and_take(rank: Rank, board: SharedState, torn: Tensor, times: int) -> None:
    """One rank publishes vectors of one number each until the other has taken so many, which counts those that are of
    two.
    """
    weights, state = PublishedPolicy(board, rank.lock), torch.zeros(board.weights.shape[1])
    rank.ready()
    if rank.index == 0:
        version = 0
        while not board.over:
            version += 1
            weights.publish(state.fill_(version))
        return
    while not weights.version:
        time.sleep(0.001)
    for _ in range(times):
        version = weights.take(state)
        torn[0] += version > 0
        torn[1] += not bool((state == version).all())
    board.stop()


def check_batches(rank: Rank, config: DppoConfig, board: SharedState, checked: Tensor) -> None:
    """Take part; the learner compares each batch's log-probabilities with those of the version that it says it was
    played by.
    """
    kept: dict[int, Tensor] = {}
    if rank.role != "learner":
        method._run_rank(rank, config, board)
        return
    kind = kind_of(config.environment)
    learner = method._Learner(board, config, kind, rank.lock, rank.recorder)
    kept[0] = learner.policy.state.clone()
    judge, learn, publish = FlatPolicy(config, kind), learner._update, learner.published.publish

    def update(batch: object) -> dict[str, float]:
        slot = next(
            each
            for each in range(len(board.headers))
            if board.rollout(each).states.data_ptr() == batch.states.data_ptr()
        )  # type: ignore[attr-defined]
        header = board.header(slot)
        judge.state.copy_(kept[header.first_version])
        own = board.rollout(slot, header.steps)
        found = Evaluation(judge.net, own.states.flatten(0, 1), own.actions.flatten()).log_probabilities
        checked[0] += 1
        checked[1] = max(float(checked[1]), float((found - own.log_probabilities.flatten()).abs().max()))
        return learn(batch)  # type: ignore[arg-type]

    def publish_and_keep(state: Tensor) -> int:
        version = publish(state)
        kept[version] = state.clone()
        return version

    learner._update, learner.published.publish = update, publish_and_keep  # type: ignore[method-assign, assignment]
    rank.barrier("policy made")
    rank.ready()
    learner.learn()


def take_part_and_break(rank: Rank, config: DppoConfig, board: SharedState, how: str) -> None:
    """Take part, but collector2's environments hang or raise in their eleventh step."""
    if rank.role == "collector2":
        environments.make = lambda name: Breaking(name, how)  # type: ignore[attr-defined]
    method._run_rank(rank, config, board)
