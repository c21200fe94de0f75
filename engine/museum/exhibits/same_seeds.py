"""One seed for all observers: a fault of batched_reinforce.

source: PyTorch's tutorial on batch RPC processing: CartPole
wrong: Every observer seeds its environment with the seed of the command line: all start each episode in the same state.
right: Every observer draws its environments' seeds from its own random stream.
seen: Distance between the initial states of four observers, by episode. At 0 they see the same episodes, and N
    observers learn little more than one.
chart: Largest distance of initial states against Episode
values: different = Distinct initial states (states); observers = Observers (observers)
rule: different = observers
broken: {observers:.0f} observers must have {observers:.0f} different initial states; got {different:.0f}. Give each
    observer its own seed; otherwise N observers see no more than one.
guard: tests/rl/test_environments.py::test_seeds_are_distinct_over_environments_and_ranks_and_the_same_again
"""

import numpy as np

from engine.museum.exhibit import Outcome, Version
from engine.rl.kinds import make
from engine.seeding import ENVIRONMENT, seed_of

OBSERVERS, SEED, EPISODES = 4, 543, 12


def wrong(seed: int, observer: int) -> int:
    return seed


def right(seed: int, observer: int) -> int:
    return seed_of(seed, ENVIRONMENT, observer)


def measure(seed: int, seed_for: Version) -> Outcome:
    """Start some CartPole episodes per observer; the chart is the distance of their initial states."""
    firsts = []
    for observer in range(1, OBSERVERS + 1):
        environment = make("CartPole-v1")
        first = environment.reset(seed=seed_for(SEED + seed, observer))[0]
        firsts.append([first, *(environment.reset()[0] for _ in range(EPISODES - 1))])
        environment.close()
    states = np.asarray(firsts)
    series = {number: float(np.ptp(states[:, number - 1], axis=0).max()) for number in range(1, EPISODES + 1)}
    return Outcome(
        {"different": len({tuple(state) for state in states[:, 0].tolist()}), "observers": OBSERVERS}, series
    )
