"""What trainers do in the tests of sharded data parallelism; here because a rank's process must import its function."""

import os
import signal
from typing import Any

from engine.experiments.fsdp import method
from engine.runtime.worker.ranks import Rank


def train_and_stop(rank: Rank, *shared: Any) -> None:
    """Train; trainer2 stops its process when its third step begins."""
    log = rank.recorder.log

    def stop_after_two(values: Any, **at: Any) -> None:
        log(values, **at)
        if rank.index == 1 and "train/loss" in values and at["step"] == 2:
            os.kill(os.getpid(), signal.SIGSTOP)

    rank.recorder.log = stop_after_two  # type: ignore[method-assign]
    method._train(rank, *shared)
