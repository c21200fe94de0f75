"""The registered experiments that support duels. Torch-free."""

from engine.config import Config
from engine.experiment.definition import Contender, Pace
from engine.registry import experiment, experiments


def methods() -> tuple[str, ...]:
    """Return the names of the experiments that support duels, in table order."""
    return tuple(each.name for each in experiments() if each.duel)


def contender(name: str) -> Contender:
    """Return the duel interface of an experiment; raises KeyError where it has none."""
    found = experiment(name).duel
    if found is None:
        raise KeyError(name)
    return found


def pace(name: str, config: Config) -> Pace:
    """Return the pace of an experiment's config; raises KeyError where it doesn't support duels."""
    return contender(name).pace(config)
