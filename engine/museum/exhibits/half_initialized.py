"""Two shards, of which only the first is initialized: signals shrink after the cut."""

import math

import torch
from torch import nn

from engine.museum.outcome import Broken, ExhibitOutcome

LAYERS, CHANNELS = 10, 24


def wrong(seed: int) -> ExhibitOutcome:
    """Initialize the shard that has the loop over its modules."""
    return _signals(seed, shards=1)


def right(seed: int) -> ExhibitOutcome:
    """Build the whole network, then cut it; or initialize every shard."""
    return _signals(seed, shards=2)


def _signals(seed: int, shards: int) -> ExhibitOutcome:
    """Build a network in two shards; the chart is each layer's weight deviation relative to He initialization."""
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
    """Every shard starts with the weights of the unsplit network."""
    least = outcome.numbers["least"]
    if least < 0.9:
        raise Broken(
            f"Each layer's weight deviation must be at least 0.9 of He initialization; got {least:.2f}. Initialize "
            "every shard like the unsplit network."
        )
