"""Environments that a lab wrote itself; as gymnasium wants it, they are registered when this module is imported."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_IMAGE = np.zeros((202, 201, 4), np.uint8)
_IMAGE[:2, :3] = 255
OBSERVED: Mapping[str, tuple[spaces.Space[Any], Any, list[float]]] = {
    "start": (spaces.Discrete(3, start=5), 6, [0, 1, 0]),
    "pixels": (spaces.Box(0, 255, (2, 2), np.uint8), np.array([[0, 255], [51, 102]], np.uint8), [0, 1, 0.2, 0.4]),
    "signed": (spaces.Box(-10, 10, (2,), np.int64), np.array([-10, 5]), [0, 0.75]),
    "double": (spaces.Box(-np.inf, np.inf, (2,), np.float64), np.array([1.5, -20.0]), [1.5, -20]),
    "matrix": (spaces.Box(-1, 1, (2, 2)), np.eye(2, dtype=np.float32), [1, 0, 0, 1]),
    "image": (spaces.Box(0, 255, (202, 201, 4), np.uint8), _IMAGE, [1.0, 0.5] + [0.0] * (101 * 100 - 2)),
    "binary": (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
    "several": (spaces.MultiDiscrete([2, 3], start=[0, 4]), np.array([1, 5]), [0, 1, 0, 1, 0]),
    "dict": (
        spaces.Dict({"at": spaces.Discrete(2, start=1), "seen": spaces.Box(0, 4, (1,), np.uint8)}),
        {"seen": np.array([1], np.uint8), "at": 2},
        [0, 1, 0.25],
    ),
    "tuple": (spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,)))), (1, np.ones(1, np.float32)), [0, 1, 1]),
}
"""By name: the space, what is observed in every step, and the same as a vector."""
_BOX = spaces.Box(-1, 1, (2,))
BROKEN: Mapping[str, tuple[dict[str, Any], str]] = {
    "nan": ({"space": _BOX, "seen": np.array([0, np.nan])}, "returned an observation of nan in step 3"),
    "infinite": ({"space": _BOX, "seen": np.array([-np.inf, 0])}, "returned an observation of -inf in step 3"),
    "large": ({"space": _BOX, "seen": np.array([1e30, 1e300])}, "returned an observation of inf in step 3"),
    "reward": ({"space": _BOX, "seen": np.zeros(2), "reward": np.nan}, "returned a reward of nan in step 3"),
    "text": ({"space": _BOX, "seen": np.zeros(2), "reward": "much"}, "raised ValueError in step 3: could not convert"),
    "shape": ({"space": _BOX, "seen": np.zeros(3)}, r"has shape \(3,\), but its space is Box\(-1.0, 1.0, \(2,\)"),
    "range": ({"space": spaces.Discrete(3, start=1), "seen": 0}, "observation 0 is not one of the numbers from 1 to 3"),
    "nothing": ({"space": spaces.Discrete(3), "seen": None}, "raised TypeError in step 3"),
}
"""By name: what is returned from the third step on, and what is said of it."""
REFUSED: Mapping[str, tuple[spaces.Space[Any], spaces.Space[Any], str]] = {
    "words": (spaces.Text(5), spaces.Discrete(2), "only Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple"),
    "large": (spaces.Box(0, 1, (210, 160, 3)), spaces.Discrete(2), "observes 100,800 numbers"),
    "channels": (spaces.Box(0, 255, (3, 210, 160), np.uint8), spaces.Discrete(2), "observes 100,800 numbers"),
    "empty": (spaces.Box(0, 1, (0,)), spaces.Discrete(2), "observes 0 numbers"),
    "unbounded": (_BOX, spaces.Box(-np.inf, np.inf, (1,)), "only Discrete and bounded Box vectors of floats"),
    "integers": (_BOX, spaces.Box(0, 9, (1,), np.int64), "only Discrete and bounded Box vectors of floats"),
    "buttons": (_BOX, spaces.MultiBinary(2), "only Discrete and bounded Box vectors of floats"),
}
"""By name: spaces of observations and actions, and why they are refused."""
NUMBERED, DOUBLE = spaces.Discrete(2, start=-1), spaces.Box(-2, 2, (1,), np.float64)


class Constant(gymnasium.Env[Any, Any]):
    """Observes the same in every step, gives a reward of 1, and ends an episode after `length` steps."""

    def __init__(
        self,
        space: spaces.Space[Any],
        seen: Any,
        reward: Any = 1.0,
        actions: spaces.Space[Any] = NUMBERED,
        wrong_from: int = 1,
        length: int = 10,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space, self.action_space, self.render_mode = space, actions, render_mode
        self._seen, self._reward, self._wrong_from, self._length = seen, reward, wrong_from, length
        self._usual = space.sample() if wrong_from > 1 else seen
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._usual, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self._steps += 1
        if self._steps < self._wrong_from:
            return self._usual, 1.0, False, False, {}
        return self._seen, self._reward, self._steps % self._length == 0, False, {}


def _register(name: str, **arguments: Any) -> None:
    gymnasium.register(f"lab/{name}-v0", entry_point=Constant, kwargs=arguments)


for _name, (_space, _seen, _) in OBSERVED.items():
    _register(_name, space=_space, seen=_seen)
for _name, (_arguments, _) in BROKEN.items():
    _register(f"broken-{_name}", **_arguments, wrong_from=3)
for _name, (_space, _actions, _) in REFUSED.items():
    _register(f"refused-{_name}", space=_space, seen=None, actions=_actions)
_register("continuous", space=_BOX, seen=np.zeros(2), actions=DOUBLE)
_register("endless", space=_BOX, seen=np.zeros(2), length=10**9)
_register("unmade", space=_BOX)
