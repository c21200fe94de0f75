"""REINFORCE with one agent and many observers, who ask it for every action.

Roles: `agent` owns the policy; `observer1…N` each play their own environments. In every step an observer sends its
state s and gets an action a ~ pi(s): by itself (`per_call`), or out of one forward pass for all observers (`batched`),
which the last to ask sets off. After `steps` steps, with G the sum of the rewards from a step to the end of its
sub-episode,

    policy <- Adam(policy, gradient of -sum of log pi(a|s) * G over all steps / environments)

and the next round begins (Williams 1992).
"""

from engine.experiments.batched_reinforce.agent import Agent, layout
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.observer import observe
from engine.rl.kinds import kind_of
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank, Ranks


def run(config: BatchedReinforceConfig, ranks: Ranks) -> None:
    """Start the agent and its observers; return when all have ended."""
    if config.variant == "tutorial":
        from engine.experiments.batched_reinforce import tutorial

        ranks.run(tutorial.take_part, config)
        return
    exchange = Exchange.create(
        config.transport,
        layout(config, kind_of(config.environment)).size,
        server=0,
        server_role="agent",
        clients=tuple(range(1, config.observers + 1)),
        patience_s=config.patience_s,
    )
    ranks.run(_take_part, config, exchange)


def _take_part(rank: Rank, config: BatchedReinforceConfig, exchange: Exchange) -> None:
    kind = kind_of(config.environment)
    if rank.index == exchange.server:
        Agent(rank, config, kind).until_all_played(exchange)
    else:
        observe(rank, config, exchange, kind)
