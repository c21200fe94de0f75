"""A whole module as the reply: each round pickles every parameter and buffer individually, with the class names."""

import pickle
import time
from collections.abc import Callable, Mapping

import torch

from engine.data.resnets import ResNetName, resnet
from engine.data.weights import flat_weights
from engine.museum.outcome import Broken, ExhibitOutcome

ROUNDS = 6
MB = 1e6
LAYERS: Mapping[ResNetName, int] = {"small_resnet": 10, "resnet18": 18, "resnet50": 50}


def wrong(seed: int) -> ExhibitOutcome:
    """Send the module."""
    net = resnet("small_resnet", 30, seed)
    return _sent(lambda: net, {LAYERS[name]: float(_tensors(name)) for name in LAYERS})


def right(seed: int) -> ExhibitOutcome:
    """Send one vector of all weights; both ends know the layout."""
    flat = flat_weights(resnet("small_resnet", 30, seed))
    return _sent(lambda: flat.numpy(), dict.fromkeys(LAYERS.values(), 1.0))


def _sent(reply: Callable[[], object], tensors: Mapping[int, float]) -> ExhibitOutcome:
    """Pack and unpack the small network's reply like a message; the fastest round counts."""
    spent, message = [], b""
    for _ in range(ROUNDS):
        began = time.perf_counter()
        message = pickle.dumps(reply(), pickle.HIGHEST_PROTOCOL)
        pickle.loads(message)
        spent.append(1000 * (time.perf_counter() - began))
    return ExhibitOutcome({"tensors": tensors[10], "megabytes": len(message) / MB, "milliseconds": min(spent)}, tensors)


def _tensors(name: ResNetName) -> int:
    with torch.device("meta"):  # counting needs no values
        return len(resnet(name, 30, 0).state_dict())


def invariant(outcome: ExhibitOutcome) -> None:
    """Each reply is one tensor."""
    tensors = outcome.numbers["tensors"]
    if tensors != 1:
        raise Broken(
            f"A reply must be 1 tensor; got {tensors:.0f} and the module's classes. Send the weights as one vector."
        )
