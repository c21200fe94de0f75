"""REINFORCE with one agent and many observers that request every action from it (Williams 1992), after PyTorch's
tutorial "Implementing Batch RPC Processing Using Asynchronous Executions".

Roles: `agent` owns the policy; `observer1…N` each play their own environments. In every step an observer sends its
state s and gets an action a ~ pi(s): from its own forward pass (`per_call`), or from one for all observers
(`batched`), triggered by the last request. After `steps` steps, with G the sum of the rewards from a step to the end
of its sub-episode,

    policy <- Adam(policy, gradient of -sum of log pi(a|s) * G over all steps / environments)

and the next round begins. The loops of both roles are in reinforce.py.
"""

from engine.data.tensors import usable
from engine.experiments.batched_reinforce.config import BatchedReinforceConfig
from engine.experiments.batched_reinforce.messages import AgentLine, MessageLayout
from engine.experiments.batched_reinforce.reinforce import Agent, AgentService, Observer
from engine.rl.environments import Environments
from engine.rl.kinds import kind_of
from engine.runtime.transport.request_reply import Exchange
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import ENVIRONMENT


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
        AgentService(rank, Agent(rank, config, kind)).serve(exchange)
        return
    environments = Environments(kind, config.envs_per_observer, rank.seed_of(ENVIRONMENT), rank.role)
    with exchange.connect(rank) as line:
        observer = Observer(config, AgentLine(rank, config, line, MessageLayout.of(config, kind)), environments)
        rank.ready()
        while observer.play_round():
            pass
    environments.close()
