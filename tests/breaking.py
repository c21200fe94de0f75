"""An environment that breaks, for ranks of tests."""

import os
import signal
import time

from engine.rl.kinds import make

SIGNALS = {"die": signal.SIGKILL, "stop": signal.SIGSTOP}


class Breaking:
    """An environment that in its eleventh step does what `how` says: raise, hang, die (its process is killed) or stop
    (its process is).
    """

    def __init__(self, name: str, how: str) -> None:
        self._inner = make(name)
        self._how = how
        self._steps = 0

    def reset(self, **named: object) -> object:
        return self._inner.reset(**named)

    def step(self, action: object) -> object:
        self._steps += 1
        if self._steps == 11:
            self._break()
        return self._inner.step(action)

    def close(self) -> None:
        self._inner.close()

    def _break(self) -> None:
        if self._how == "raise":
            raise ValueError("the pole broke")
        if self._how == "hang":
            time.sleep(600)
        os.kill(os.getpid(), SIGNALS[self._how])
