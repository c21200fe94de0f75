"""What an environment is, by its gymnasium id: the sizes of its observations and actions, and whether it can be had.
Torch-free.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from engine.catalogue import BUILT_IN, chosen_from
from engine.config import RuleBroken

FIELD = "environment"
SHOWN = BUILT_IN["environments"]
"""Environments that come with gymnasium itself and need no other package."""
EnvironmentName = Annotated[
    str, AfterValidator(chosen_from("environments")), Field(json_schema_extra={"catalogue": "environments"})
]
"""An environment that a config may name."""


@dataclass(frozen=True)
class Kind:
    """One environment as a learner sees it."""

    name: str
    observation: int
    """Numbers in one observation; a Discrete one is a one-hot vector."""
    one_hot: bool
    choices: int | None
    """How many discrete actions there are; None where actions are vectors."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """The bounds of each number of an action vector."""
    solved_at: float | None = None
    """The mean reward of an episode from which gymnasium's registry calls the environment solved."""
    limit: int | None = None
    """Steps after which an episode is truncated."""

    @property
    def action(self) -> int:
        """Numbers in one action as it travels: 1 for a choice."""
        return 1 if self.choices else len(self.low)


def make(name: str, render: bool = False) -> Any:
    """Return a new environment (gymnasium.Env); `render` lets it draw pictures, which needs no display. Raises
    RuleBroken as `kind_of` does.
    """
    import gymnasium

    if ":" in name:
        raise RuleBroken(
            FIELD,
            (
                f"environment must be an id without a module before it, got '{name}'. Install the package that "
                "registers it and name the id."
            ),
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a newer version of an environment exists
            return gymnasium.make(name, disable_env_checker=True, render_mode="rgb_array" if render else None)
    except gymnasium.error.DependencyNotInstalled as error:
        raise RuleBroken(
            FIELD, f"environment {name} needs a package that is not installed: {_sentence(error)}"
        ) from error
    except gymnasium.error.Error as error:  # unknown, or not of the form name-v0
        raise RuleBroken(
            FIELD,
            (
                f"environment must be one of gymnasium's ids, got '{name}': {_sentence(error)} Some that always "
                f"work: {', '.join(SHOWN)}."
            ),
        ) from error
    except Exception as error:  # whatever an environment's own code raises
        raise RuleBroken(
            FIELD, f"environment {name} can't be made: {type(error).__name__}: {_sentence(error)}"
        ) from error


@lru_cache(maxsize=64)
def kind_of(name: str) -> Kind:
    """Return what an environment is; raises RuleBroken where it doesn't exist, needs a package, or has spaces that are
    not supported.
    """
    from gymnasium import spaces

    environment = make(name)
    try:
        seen, acted = environment.observation_space, environment.action_space
        spec = environment.spec
    finally:
        environment.close()
    if isinstance(seen, spaces.Discrete):
        observation, one_hot = int(seen.n), True
    elif isinstance(seen, spaces.Box):
        observation, one_hot = int(seen.shape[0]) if len(seen.shape) == 1 else _numbers(seen.shape), False
    else:
        raise RuleBroken(
            FIELD, f"environment {name} has observations of the kind {seen}; supported are Box and Discrete."
        )
    known = {"solved_at": spec.reward_threshold, "limit": spec.max_episode_steps}
    if isinstance(acted, spaces.Discrete):
        if acted.start != 0:
            raise RuleBroken(
                FIELD,
                f"environment {name} counts its actions from {acted.start}; supported are Discrete actions from 0.",
            )
        return Kind(name, observation, one_hot, int(acted.n), **known)
    if isinstance(acted, spaces.Box) and len(acted.shape) == 1 and acted.is_bounded():
        return Kind(
            name, observation, one_hot, None, tuple(map(float, acted.low)), tuple(map(float, acted.high)), **known
        )
    raise RuleBroken(
        FIELD, f"environment {name} takes actions of the kind {acted}; supported are Discrete and bounded Box vectors."
    )


def rewards_that_solve(name: str) -> dict[str, float]:
    """Return by metric the mean episode reward from which an environment counts as solved; nothing where gymnasium
    gives none.
    """
    solved_at = kind_of(name).solved_at
    return {} if solved_at is None else {"charts/episodic_return": solved_at, "test/episodic_return": solved_at}


def _numbers(shape: tuple[int, ...]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).replace("`", "'").split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
