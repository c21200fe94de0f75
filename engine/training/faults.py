"""The knobs that slow or kill a trainer on purpose."""

import os
import signal
import time

from engine.runtime.worker.ranks import Rank
from engine.training.settings import TrainingConfig


class Faults:
    """What the config does to this trainer, step by step."""

    def __init__(self, rank: Rank, config: TrainingConfig, number: int) -> None:
        self._sleep_s = config.sleep_s(number)
        self._killed_at = config.kill_at_step if config.kill_trainer == number else 0
        self._rank = rank

    def inject(self, step: int) -> None:
        """Sleep as the config says of this trainer; kill this process where it is to die at `step` (from 1)."""
        if step == self._killed_at:
            self._rank.say(
                "trainer killed",
                f"{self._rank.role} killed itself at step {step}, as kill_trainer and kill_at_step say.",
            )
            os.kill(os.getpid(), signal.SIGKILL)
        if self._sleep_s:
            time.sleep(self._sleep_s)
