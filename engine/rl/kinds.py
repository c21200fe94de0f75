"""An environment by its gymnasium id: observation and action sizes, and whether it is available. Torch-free.

An id with a module in front (`ale_py:ALE/Pong-v5`) imports that module. A config can name only ids of the catalogue, so
an admin decides which modules are imported.
"""

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from engine.catalogue import BUILT_IN, chosen_from
from engine.config import RuleBroken
from engine.metrics import EPISODES, LAST_EPISODES

FIELD = "environment"
PICTURE = "episode.gif"
"""File name of a recorded episode in the run's folder."""
SHOWN = BUILT_IN["environments"]
"""Environments included in gymnasium itself, without extra packages."""
MOST_NUMBERS = 16_384
"""Maximum size of an observation: policies are small fully connected nets, and REINFORCE sends every observation."""
HIGHEST = {"CartPole-v0": 200, "CartPole-v1": 500}
"""The highest reward of an episode where a rule of the environment gives one: here each step gives 1, up to a limit."""
_MODULE = " An id of another package needs the module that registers it in front, such as ale_py:ALE/Pong-v5."
EnvironmentName = Annotated[
    str, AfterValidator(chosen_from("environments")), Field(json_schema_extra={"catalogue": "environments"})
]
"""An environment that a config may name."""


@dataclass(frozen=True)
class Kind:
    """The sizes and limits of one environment."""

    name: str
    observation: int
    """Size of one observation as the policy gets it: flat, one-hot where it is discrete."""
    choices: int | None
    """Number of discrete actions; None for continuous actions."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """The bounds of each component of an action vector."""
    solved_at: float | None = None
    """Mean episode reward at which gymnasium's registry considers the environment solved."""
    limit: int | None = None
    """Steps after which an episode is truncated."""
    observed: Any = field(default=None, compare=False, repr=False)
    """The space of observations (gymnasium.Space)."""
    acted: Any = field(default=None, compare=False, repr=False)
    """The space of actions."""

    @property
    def action(self) -> int:
        """Size of one encoded action: 1 for a discrete one."""
        return 1 if self.choices else len(self.low)


def make(name: str, render: bool = False) -> Any:
    """Return a new environment (gymnasium.Env); `render` enables off-screen rendering. Raises RuleBroken as `kind_of`
    does.
    """
    import gymnasium

    if render:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame would look for a display and print that it has none
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
            f"environment must be a gymnasium id, got '{name}': {_sentence(error)} Always available: "
            f"{', '.join(SHOWN)}.{'' if ':' in name else _MODULE}",
        ) from error
    except ModuleNotFoundError as error:
        raise RuleBroken(
            FIELD,
            f"environment {name} needs a module that can't be imported: {_sentence(error.__cause__ or error)} Install "
            "its package in the Python of the console and the runner, and of the nodes of a cluster.",
        ) from error
    except (Exception, SystemExit) as error:  # an environment's own code may raise anything
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
        environment.close()
    except Exception as error:  # as above
        raise RuleBroken(
            FIELD, f"environment {name} can't be examined: {type(error).__name__}: {_sentence(error)}"
        ) from error
    known = {"solved_at": spec.reward_threshold, "limit": spec.max_episode_steps, "observed": seen, "acted": acted}
    observation = _size(name, seen)
    if isinstance(acted, spaces.Discrete):
        return Kind(name, observation, int(acted.n), **known)
    if isinstance(acted, spaces.Box) and len(acted.shape) == 1 and acted.is_bounded() and is_float(acted):
        return Kind(name, observation, None, tuple(map(float, acted.low)), tuple(map(float, acted.high)), **known)
    raise RuleBroken(
        FIELD,
        f"environment {name} has action space {acted}; only Discrete and bounded Box vectors of floats are supported.",
    )


def rewards_that_solve(name: str) -> dict[str, float]:
    """Return the mean episode reward, by metric, at which an environment counts as solved; empty if gymnasium defines
    none.
    """
    solved_at = kind_of(name).solved_at
    return {} if solved_at is None else dict.fromkeys((EPISODES, LAST_EPISODES, "test/episodic_return"), solved_at)


def is_float(space: Any) -> bool:
    """Return whether a Box holds floats."""
    return space.dtype.kind == "f"  # type: ignore[no-any-return]


def shrinking(space: Any) -> int:
    """Return the side of the squares of pixels whose mean the policy gets, in gray, of an image with more than
    MOST_NUMBERS; 0 for any other Box.
    """
    shape = space.shape
    if math.prod(shape) <= MOST_NUMBERS or space.dtype.kind != "u" or (shape[2:] or (1,))[0] not in (1, 3, 4):
        return 0
    return next((side for side in range(1, min(shape[:2]) + 1) if _pixels(shape, side) <= MOST_NUMBERS), 0)


def _pixels(shape: Sequence[int], side: int) -> int:
    return (shape[0] // side) * (shape[1] // side)


def _size(name: str, space: Any) -> int:
    """Return the numbers of a flat observation; raises RuleBroken if its space is not supported or too large."""
    from gymnasium import spaces

    def size(part: Any) -> int:
        if isinstance(part, spaces.Dict):
            return sum(map(size, part.spaces.values()))
        if isinstance(part, spaces.Tuple):
            return sum(map(size, part.spaces))
        if isinstance(part, spaces.Discrete):
            return int(part.n)
        if isinstance(part, spaces.MultiDiscrete):
            return int(part.nvec.sum())
        if isinstance(part, spaces.Box | spaces.MultiBinary):
            side = shrinking(part)
            return _pixels(part.shape, side) if side else math.prod(part.shape)
        raise RuleBroken(
            FIELD,
            f"environment {name} has observation space {space}; only Box, Discrete, MultiDiscrete, MultiBinary, and "
            "Dict or Tuple of them are supported.",
        )

    if not 1 <= (found := size(space)) <= MOST_NUMBERS:
        raise RuleBroken(
            FIELD,
            f"environment {name} observes {found:,} numbers ({space}); 1 to {MOST_NUMBERS:,} are supported, as "
            "policies are small fully connected nets. Choose one that observes less, or register it with a wrapper "
            "that makes its observations smaller.",
        )
    return found


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).replace("`", "'").split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
