"""Two shards, of which only the first is given its initialization: from the cut on, signals shrink."""

import math

import torch
from torch import nn

from engine.museum.outcome import Broken, ExhibitOutcome

LAYERS, CHANNELS = 10, 24


def wrong(seed: int) -> ExhibitOutcome:
    """Initialize the shard that has the loop over its modules."""
    return _signals(seed, shards=1)


def right(seed: int) -> ExhibitOutcome:
    """Make the whole net first, then cut it; or initialize every shard."""
    return _signals(seed, shards=2)


def _signals(seed: int, shards: int) -> ExhibitOutcome:
    """Build a net in two shards; the picture is the deviation of each layer's weights, 1 where it is He's."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(LAYERS)]
    for layer in layers[: shards * LAYERS // 2]:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    wanted = math.sqrt(2 / (9 * CHANNELS))
    series = {number: float(layer.weight.detach().std()) / wanted for number, layer in enumerate(layers, 1)}
    signal = torch.randn(8, CHANNELS, 12, 12)
    with torch.no_grad():
        for layer in layers:
            signal = torch.relu(layer(signal))
    return ExhibitOutcome({"least": min(series.values()), "signal": float(signal.std())}, series)


def invariant(outcome: ExhibitOutcome) -> None:
    """Every shard has the first weights of the unsplit net."""
    least = outcome.numbers["least"]
    if least < 0.9:
        raise Broken(
            f"A layer's weights have {least:.2f} times the deviation of He's initialization: a cut net must "
            "begin with the weights that the unsplit one would."
        )
