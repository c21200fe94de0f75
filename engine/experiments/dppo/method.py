"""Distributed proximal policy optimization (Schulman et al. 2017; Heess et al. 2017): collectors play with a copy of
the policy, a learner updates it, and a queue connects them. The algorithm is in ppo.py.

Roles: `main` monitors, evaluates and records; `learner` owns policy and value function; `collector1…N` play (optionally
as threads of the learner). A batch of T steps carries the log-probabilities and values of the policy that played it, so
the update may come later:

    r = pi(a|s) / pi_behaviour(a|s);  maximize the mean of min(r * A, clip(r, 1 - c, 1 + c) * A)

with A the generalized advantage estimate. The mode decides which side waits (modes.py).
"""

from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.evaluation import watch
from engine.experiments.dppo.ppo import Collector, CollectorThread, PpoLearner, ThreadRecorder
from engine.experiments.dppo.shared_state import SharedState
from engine.rl.kinds import Kind, kind_of
from engine.runtime.worker.ranks import Rank, Ranks


def run(config: DppoConfig, ranks: Ranks) -> None:
    """Start all ranks; return when all have finished."""
    ranks.run(_run_rank, config, SharedState.create(config, kind_of(config.environment)))


def _run_rank(rank: Rank, config: DppoConfig, shared: SharedState) -> None:
    kind = kind_of(config.environment)
    if rank.role == "main":
        rank.barrier("policy made")
        watch(rank, shared, config, kind)
    elif rank.role == "learner":
        learner = PpoLearner(shared, config, kind, rank.lock, rank.recorder)
        rank.barrier("policy made")
        threads = _threads(rank, config, shared, kind) if config.collectors_as == "threads" else []
        rank.ready()
        for thread in threads:
            thread.start()
        learner.learn()
        for thread in threads:
            thread.join()
            thread.check()
    else:
        rank.barrier("policy made")
        collector = Collector(shared, config, kind, rank.lock, rank.recorder, rank.index - 2)
        rank.ready()
        collector.play()


def _threads(rank: Rank, config: DppoConfig, shared: SharedState, kind: Kind) -> list[CollectorThread]:
    record = ThreadRecorder(rank.recorder)
    return [
        CollectorThread(shared, Collector(shared, config, kind, rank.lock, record, place))
        for place in range(config.collectors)
    ]
