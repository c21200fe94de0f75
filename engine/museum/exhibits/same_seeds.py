"""One seed for all observers: with equal actions they play the same episode."""

from collections.abc import Callable

import numpy as np

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.rl.kinds import make
from engine.seeding import ENVIRONMENT, seed_of

OBSERVERS, SEED, EPISODES = 4, 543, 12


def wrong(seed: int) -> ExhibitOutcome:
    """Seed every environment with the run's seed."""
    return _begun(lambda observer: SEED + seed)


def right(seed: int) -> ExhibitOutcome:
    """Seed each observer's environment from its own random stream."""
    return _begun(lambda observer: seed_of(SEED + seed, ENVIRONMENT, observer))


def _begun(seed_for: Callable[[int], int]) -> ExhibitOutcome:
    """Start some CartPole episodes per observer; the chart is the distance of their initial states."""
    firsts = []
    for observer in range(1, OBSERVERS + 1):
        environment = make("CartPole-v1")
        firsts.append(
            [environment.reset(seed=seed_for(observer))[0], *(environment.reset()[0] for _ in range(EPISODES - 1))]
        )
        environment.close()
    states = np.asarray(firsts)
    series = {number: float(np.ptp(states[:, number - 1], axis=0).max()) for number in range(1, EPISODES + 1)}
    return ExhibitOutcome(
        {"different": float(len({tuple(state) for state in states[:, 0].tolist()})), "observers": float(OBSERVERS)},
        series,
    )


def invariant(outcome: ExhibitOutcome) -> None:
    """Every observer starts with a different state."""
    different, observers = outcome.numbers["different"], outcome.numbers["observers"]
    if different != observers:
        raise Broken(
            f"{observers:.0f} observers must have {observers:.0f} different initial states; got {different:.0f}. Give "
            "each observer its own seed; otherwise N observers see no more than one."
        )
