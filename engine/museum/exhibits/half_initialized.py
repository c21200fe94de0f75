"""Only the first shard is initialized: a fault of pipeline.

source: PyTorch's tutorial on pipeline parallelism by RPC
wrong: The loop that initializes convolutions is only in the first shard's constructor; the second shard keeps torch's
    defaults.
right: The whole network is built, then cut, so its stages start with the weights of the unsplit network.
seen: Standard deviation of each layer's initial weights; 1 is He initialization, which preserves signal magnitude
    between layers. From the cut on, signals shrink.
chart: Weight deviation relative to He against Layer
values: least = Smallest deviation relative to He; signal = Signal after the last layer
rule: least >= 0.9
broken: Each layer's weight deviation must be at least 0.9 of He initialization; got {least:.2f}. Initialize every shard
    like the unsplit network.
guard: tests/experiments/pipeline/test_pipeline_parts.py::test_a_net_is_torchvisions_bit_for_bit_as_a_list_of_layers
"""

import math

import torch
from torch import nn

from engine.museum.exhibit import Outcome, Version

LAYERS, CHANNELS = 10, 24


def wrong(first: list[nn.Conv2d], second: list[nn.Conv2d]) -> None:
    for layer in first:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def right(first: list[nn.Conv2d], second: list[nn.Conv2d]) -> None:
    for layer in (*first, *second):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def measure(seed: int, initialize: Version) -> Outcome:
    """Build a network in two shards; the chart is each layer's weight deviation relative to He initialization."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(LAYERS)]
    initialize(layers[: LAYERS // 2], layers[LAYERS // 2 :])
    wanted = math.sqrt(2 / (9 * CHANNELS))
    series = {number: float(layer.weight.detach().std()) / wanted for number, layer in enumerate(layers, 1)}
    signal = torch.randn(8, CHANNELS, 12, 12)
    with torch.no_grad():
        for layer in layers:
            signal = torch.relu(layer(signal))
    return Outcome({"least": min(series.values()), "signal": float(signal.std())}, series)
