"""How far one unit of a method's length takes it, in passes, updates and bytes: by arithmetic from its config, before
anything runs. Torch-free and pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Literal

from engine.config import Config
from engine.data.catalogue import data_set

Kind = Literal["seconds", "passes", "updates", "bytes"]
KINDS: tuple[Kind, ...] = ("seconds", "passes", "updates", "bytes")
METHODS = ("reference", "parameter_server", "async_sgd", "sync_sgd", "hogwild")
"""The methods that can duel: they learn the same net on the same data, and test it on the way."""
WEIGHTS = 21_840
"""Numbers in the one net that all of them train."""
_WIDTHS = {"float32": 4, "bf16": 2}


@dataclass(frozen=True)
class Pace:
    """What a method does in one unit of its length, and in one pass over the data."""

    field: str
    """The setting that says how long it trains."""
    passes: float
    """Passes over the data, by all trainers, in one unit of it; also from one test to the next."""
    updates: float
    """Updates of the model in one pass."""
    bytes: float | None
    """Bytes that travel between processes in one pass; None where they share memory instead, or there is one alone."""
    step_passes: float | None = None
    """Passes that one step of whoever tests stands for, where others train on meanwhile; None where a test records its
    own passes exactly.
    """
    step_updates: float = 1.0
    """Updates of the model that one recorded step stands for."""

    def units(self, kind: Kind, amount: float) -> int | None:
        """Return the length that reaches a budget, at least 1; None for seconds, which no arithmetic tells, and for
        bytes where none travel.
        """
        passes = self.passes_of(kind, amount)
        return None if passes is None else max(1, ceil(passes / self.passes - 1e-9))

    def passes_of(self, kind: Kind, amount: float) -> float | None:
        """Return a budget in passes, None where it can't be told."""
        if kind == "passes":
            return amount
        each = {"updates": self.updates, "bytes": self.bytes}.get(kind)
        return amount / each if each else None

    def spent(self, kind: Kind, step: int, time_s: float, passes: float | None) -> float:
        """Return how much of a budget was spent at a test, which was recorded at a step, a time and (where known) so
        many passes.
        """
        if kind == "seconds":
            return time_s
        if kind == "updates":
            return step * self.step_updates
        stood = step * self.step_passes if self.step_passes else passes or 0.0
        return stood if kind == "passes" else stood * (self.bytes or 0.0)


def pace(experiment: str, config: Config) -> Pace:
    """Return the pace of a config of one of METHODS; raises KeyError for another experiment."""
    return {
        "reference": _alone,
        "hogwild": _shared,
        "parameter_server": _served,
        "async_sgd": _served,
        "sync_sgd": _together,
    }[experiment](config)


def _alone(config: Config) -> Pace:
    return Pace("epochs", 1.0, ceil(_size(config) / config.batch_size), None)  # type: ignore[attr-defined]


def _shared(config: Config) -> Pace:
    trainers: int = config.trainers  # type: ignore[attr-defined]
    steps = ceil(_size(config) / config.batch_size)  # type: ignore[attr-defined]
    return Pace("epochs", float(trainers), steps, None, trainers / steps, trainers)


def _served(config: Config) -> Pace:
    gradients, width = sum(_steps(config)), _WIDTHS[config.wire]  # type: ignore[attr-defined]
    return Pace("epochs", 1.0, gradients / getattr(config, "batch_update_size", 1), _bytes(gradients, width))


def _together(config: Config) -> Pace:
    every: int = config.average_every  # type: ignore[attr-defined]
    steps = [every] * len(config.roles) if every else _steps(config)
    passes = sum(steps) * config.batch_size / _size(config) if every else 1.0  # type: ignore[attr-defined]
    in_each_step: bool = config.steps_together  # type: ignore[attr-defined]
    updates = max(steps) if in_each_step else fmean(steps)
    exchanges = len(steps) * (max(steps) if in_each_step else 1)
    return Pace("rounds", passes, updates / passes, _bytes(exchanges / passes), passes / steps[0])


def _size(config: Config) -> int:
    return data_set(config.dataset).train  # type: ignore[attr-defined]


def _steps(config: Config) -> Sequence[int]:
    """Return the mini-batches that each trainer has in one pass; parts are taken to be equal, the last with the
    remainder.
    """
    size, count = _size(config), config.trainers  # type: ignore[attr-defined]
    parts = [size // count] * (count - 1) + [size - size // count * (count - 1)]
    return [ceil(part / config.batch_size) for part in parts]  # type: ignore[attr-defined]


def _bytes(exchanges: float, width: int = 4) -> float:
    """Return the bytes of exchanges, in each of which a trainer gives a vector and gets one."""
    return exchanges * 2 * WEIGHTS * width
