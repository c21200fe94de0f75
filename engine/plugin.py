"""All that an experiment of your own imports: `from engine.plugin import …` (docs/plugins.md).

Names and signatures stay as they are while `api` does. Torch is loaded by the first use of a name that needs it: so a
`config.py`, which must be free of torch, imports from here too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.config import Config, Rule, RuleBroken, Rules, interval, setting
from engine.data.catalogue import DatasetName, ModelName, SamplesName, data_set, steps_of
from engine.errors import ConfigError, DataError, DeviceError, EngineError, PeerLost, RunFailed
from engine.experiment import (
    HEADLINE,
    Baseline,
    Clock,
    Contender,
    Experiment,
    Flow,
    Pace,
    Preset,
    Ready,
    ReadySweep,
    Reference,
    Scaling,
    TradeOff,
    Work,
)
from engine.metrics import Result
from engine.recorder import Recorder
from engine.seeding import DROPOUT, EVALUATION, ORDER, WEIGHTS, seed_of
from engine.training.settings import CHECKPOINTS, IMAGES, MODEL, SAMPLES, TrainersConfig, fits_the_data, fits_the_model

if TYPE_CHECKING:
    from engine.data.models import model_net
    from engine.data.nets import FlatSgd, Score, bind, evaluate, flat_weights, mnist_net
    from engine.data.sets import ImageSet, load
    from engine.data.tensors import Batches, keep_freed_memory, shared, usable
    from engine.runtime.rank.rank import Checkpoints, Rank, load_checkpoint
    from engine.runtime.transport.allreduce import AveragingGroup, Collective
    from engine.runtime.worker.ranks import Ranks
    from engine.training.step_log import StepLog

api = 1
"""The version of this interface; an experiment says which one it was written for: `Experiment(api=1, …)`."""

_WITH_TORCH = {
    "engine.data.models": ("model_net",),
    "engine.data.nets": ("FlatSgd", "Score", "bind", "evaluate", "flat_weights", "mnist_net"),
    "engine.data.sets": ("ImageSet", "load"),
    "engine.data.tensors": ("Batches", "keep_freed_memory", "shared", "usable"),
    "engine.runtime.rank.rank": ("Checkpoints", "Rank", "load_checkpoint"),
    "engine.runtime.transport.allreduce": ("AveragingGroup", "Collective"),
    "engine.runtime.worker.ranks": ("Ranks",),
    "engine.training.step_log": ("StepLog",),
}
_PLACES = {name: module for module, names in _WITH_TORCH.items() for name in names}

__all__ = [
    "CHECKPOINTS",
    "DROPOUT",
    "EVALUATION",
    "HEADLINE",
    "IMAGES",
    "MODEL",
    "ORDER",
    "SAMPLES",
    "WEIGHTS",
    "AveragingGroup",
    "Baseline",
    "Batches",
    "Checkpoints",
    "Clock",
    "Collective",
    "Config",
    "ConfigError",
    "Contender",
    "DataError",
    "DatasetName",
    "DeviceError",
    "EngineError",
    "Experiment",
    "FlatSgd",
    "Flow",
    "ImageSet",
    "ModelName",
    "Pace",
    "PeerLost",
    "Preset",
    "Rank",
    "Ranks",
    "Ready",
    "ReadySweep",
    "Recorder",
    "Reference",
    "Result",
    "Rule",
    "RuleBroken",
    "Rules",
    "RunFailed",
    "SamplesName",
    "Scaling",
    "Score",
    "StepLog",
    "TradeOff",
    "TrainersConfig",
    "Work",
    "api",
    "bind",
    "data_set",
    "evaluate",
    "fits_the_data",
    "fits_the_model",
    "flat_weights",
    "interval",
    "keep_freed_memory",
    "load",
    "load_checkpoint",
    "mnist_net",
    "model_net",
    "seed_of",
    "setting",
    "shared",
    "steps_of",
    "usable",
]


def __getattr__(name: str) -> Any:
    """Return a name that needs torch, which is loaded only now."""
    if name not in _PLACES:
        raise AttributeError(f"engine.plugin has no '{name}'. It has: {', '.join(__all__)}.")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found
