"""The experiments that can duel, as the registry has them. Torch-free."""

from engine.config import Config
from engine.experiment.contender import Contender, Pace
from engine.registry import experiment, experiments


def methods() -> tuple[str, ...]:
    """Return the names of the experiments that can duel, in the order of the table."""
    return tuple(each.name for each in experiments() if each.duel)


def contender(name: str) -> Contender:
    """Return how an experiment takes part in duels; raises KeyError for one that can't."""
    found = experiment(name).duel
    if found is None:
        raise KeyError(name)
    return found


def pace(name: str, config: Config) -> Pace:
    """Return the pace of a config of an experiment; raises KeyError for one that can't duel."""
    return contender(name).pace(config)
