"""A whole module as the reply: each round pickles every parameter and buffer by itself, with the names of the classes round them."""

import pickle
import time
from collections.abc import Callable

from engine.data.resnets import resnet
from engine.data.weights import flat_weights
from engine.museum.outcome import Broken, Outcome

ROUNDS = 8
MB = 1e6


def wrong(seed: int) -> Outcome:
    """Send the module."""
    net = resnet("small_resnet", 30, seed)
    return _sent(lambda: net, tensors=len(net.state_dict()))


def right(seed: int) -> Outcome:
    """Send one vector of all weights; its place in the net is known at both ends."""
    net = resnet("small_resnet", 30, seed)
    flat = flat_weights(net)
    return _sent(lambda: flat.numpy(), tensors=1)


def _sent(reply: Callable[[], object], tensors: int) -> Outcome:
    """Pack and unpack a reply as a message does; the fastest round counts."""
    series, size = {}, 0
    for number in range(ROUNDS + 1):
        began = time.perf_counter()
        message = pickle.dumps(reply(), pickle.HIGHEST_PROTOCOL)
        pickle.loads(message)
        if number:  # the first one pays for memory that the others find
            series[number] = 1000 * (time.perf_counter() - began)
        size = len(message)
    return Outcome({"tensors": float(tensors), "megabytes": size / MB, "milliseconds": min(series.values())}, series)


def invariant(outcome: Outcome) -> None:
    """What travels each round is one tensor."""
    tensors = outcome.numbers["tensors"]
    if tensors != 1:
        raise Broken(f"{tensors:.0f} tensors and a module's classes travel with each reply: weights must travel as one vector, whatever the net is made of.")
