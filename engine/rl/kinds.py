"""An environment by its gymnasium id: observation and action sizes, and whether it is available. Torch-free."""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from engine.catalogue import BUILT_IN, chosen_from
from engine.config import RuleBroken
from engine.metrics import EPISODES, LAST_EPISODES

FIELD = "environment"
SHOWN = BUILT_IN["environments"]
"""Environments included in gymnasium itself, without extra packages."""
EnvironmentName = Annotated[
    str, AfterValidator(chosen_from("environments")), Field(json_schema_extra={"catalogue": "environments"})
]
"""An environment that a config may name."""


@dataclass(frozen=True)
class Kind:
    """The sizes and limits of one environment."""

    name: str
    observation: int
    """Size of one observation; a Discrete one is a one-hot vector."""
    one_hot: bool
    choices: int | None
    """Number of discrete actions; None for continuous actions."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """The bounds of each component of an action vector."""
    solved_at: float | None = None
    """Mean episode reward at which gymnasium's registry considers the environment solved."""
    limit: int | None = None
    """Steps after which an episode is truncated."""

    @property
    def action(self) -> int:
        """Size of one encoded action: 1 for a discrete one."""
        return 1 if self.choices else len(self.low)


def make(name: str, render: bool = False) -> Any:
    """Return a new environment (gymnasium.Env); `render` enables off-screen rendering. Raises RuleBroken as `kind_of`
    does.
    """
    import gymnasium

    if ":" in name:
        raise RuleBroken(
            FIELD,
            (
                f"environment must be an id without a module prefix, got '{name}'. Install the "
                "package that registers it and use the id."
            ),
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warning about a newer version of an environment
            return gymnasium.make(name, disable_env_checker=True, render_mode="rgb_array" if render else None)
    except gymnasium.error.DependencyNotInstalled as error:
        raise RuleBroken(
            FIELD, f"environment {name} needs a package that is not installed: {_sentence(error)}"
        ) from error
    except gymnasium.error.Error as error:  # unknown, or not of the form name-v0
        raise RuleBroken(
            FIELD,
            (
                f"environment must be a gymnasium id, got '{name}': {_sentence(error)} Always "
                f"available: {', '.join(SHOWN)}."
            ),
        ) from error
    except Exception as error:  # an environment's own code may raise anything
        raise RuleBroken(
            FIELD, f"environment {name} can't be created: {type(error).__name__}: {_sentence(error)}"
        ) from error


@lru_cache(maxsize=64)
def kind_of(name: str) -> Kind:
    """Return the sizes and limits of an environment; raises RuleBroken if it doesn't exist, needs a package, or has
    unsupported spaces.
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
            FIELD, f"environment {name} has observation space {seen}; only Box and Discrete are supported."
        )
    known = {"solved_at": spec.reward_threshold, "limit": spec.max_episode_steps}
    if isinstance(acted, spaces.Discrete):
        if acted.start != 0:
            raise RuleBroken(
                FIELD,
                (f"environment {name} has Discrete actions starting at {acted.start}; only a start of 0 is supported."),
            )
        return Kind(name, observation, one_hot, int(acted.n), **known)
    if isinstance(acted, spaces.Box) and len(acted.shape) == 1 and acted.is_bounded():
        return Kind(
            name, observation, one_hot, None, tuple(map(float, acted.low)), tuple(map(float, acted.high)), **known
        )
    raise RuleBroken(
        FIELD, (f"environment {name} has action space {acted}; only Discrete and bounded Box vectors are supported.")
    )


def rewards_that_solve(name: str) -> dict[str, float]:
    """Return the mean episode reward, by metric, at which an environment counts as solved; empty if gymnasium defines
    none.
    """
    solved_at = kind_of(name).solved_at
    return {} if solved_at is None else dict.fromkeys((EPISODES, LAST_EPISODES, "test/episodic_return"), solved_at)


def _numbers(shape: tuple[int, ...]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).replace("`", "'").split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
