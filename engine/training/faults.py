"""Settings that slow down or kill a trainer on purpose."""

import os
import signal
import time

from engine.runtime.worker.ranks import Rank
from engine.training.settings import TrainingConfig


class Faults:
    """The faults that the config injects into this trainer, step by step."""

    def __init__(self, rank: Rank, config: TrainingConfig, number: int) -> None:
        self._sleep_s = config.sleep_s(number)
        self._killed_at = config.kill_at_step if config.kill_trainer == number else 0
        self._rank = rank

    def inject(self, step: int) -> None:
        """Sleep as configured for this trainer; kill this process at the configured `step` (from 1)."""
        if step == self._killed_at:
            self._rank.say(
                "trainer killed",
                f"{self._rank.role} killed itself at step {step}, as set by kill_trainer and kill_at_step.",
            )
            os.kill(os.getpid(), signal.SIGKILL)
        if self._sleep_s:
            with self._rank.recorder.operation("compute", "sleep"):  # a delay that is set is no standstill
                time.sleep(self._sleep_s)
