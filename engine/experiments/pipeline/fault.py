"""What goes wrong on purpose, and how a failure in the middle of a batch is told."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from engine.errors import EngineError, RunFailed
from engine.experiments.pipeline.config import PipelineConfig

BATCH = 1
"""The batch (from 0) in whose backward the fault strikes."""
ABSURD = 2**50
OUT_OF_MEMORY = re.compile(r"allocate (?:memory: you tried to allocate )?([\d.]+) ?(bytes|[KMGT]iB)", re.IGNORECASE)


class Fault:
    """The config's fault, for one stage (from 0)."""

    def __init__(self, config: PipelineConfig, stage: int) -> None:
        self._kind = config.fault if config.fault_stage == stage + 1 else "none"
        self._micro_batch = config.splits // 2

    def strike(self, batch: int, micro_batch: int, weights: Tensor) -> None:
        """Do what the config says, in the backward of that batch and micro-batch (from 0)."""
        if self._kind == "none" or (batch, micro_batch) != (BATCH, self._micro_batch):
            return
        if self._kind == "raise":
            raise RuntimeError("raised on purpose (fault)")
        if self._kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._kind == "memory":
            torch.empty(ABSURD)
        while self._kind == "hang":
            time.sleep(1)
        if self._kind == "nan":
            weights.detach().fill_(torch.nan)


@contextmanager
def named(role: str, what: str, batch: int, micro_batch: int) -> Iterator[None]:
    """Name stage, direction and micro-batch in whatever the block raises."""
    try:
        yield
    except EngineError:
        raise
    except (RuntimeError, MemoryError) as error:
        where = f"in the {what} of micro-batch {micro_batch}, batch {batch + 1}"
        raise RunFailed(f"{role} {_told(error)} {where}{_cure(error)}") from error


def _told(error: Exception) -> str:
    if is_out_of_memory(error):
        asked = OUT_OF_MEMORY.search(str(error))
        return f"ran out of memory, when {asked[1]} {asked[2]} more were asked for," if asked else "ran out of memory"
    return (
        f"failed with {type(error).__name__}: "
        f"{next(filter(None, map(str.strip, str(error).splitlines())), 'no message')},"
    )


def _cure(error: Exception) -> str:
    if is_out_of_memory(error):
        return (
            ". Lower batch_size or image_size, choose mode 1f1b, which holds fewer activations, or give that stage "
            "fewer layers with cut."
        )
    return "."


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error is that of memory that could not be had, of a GPU or of the machine."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
