"""The whole module in each round: a fault of parameter_server.

source: PyTorch's tutorial on batch RPC processing: the parameter server
wrong: Every fetch pickles the module tensor by tensor (320 in the published ResNet-50, 94 MB), including its classes,
    which the receiver must be able to import.
right: The weights are sent as one vector whose layout both ends know.
seen: Tensors packed, sent and unpacked individually in each round, for three ResNets. The bytes are nearly equal in
    both versions; the work is not, as the times for the smallest network show.
chart: Tensors per reply against Layers of the ResNet
values: tensors = Tensors per reply (ResNet-10) (tensors); megabytes = Reply size (MB); milliseconds = Packing and
    unpacking (ms)
rule: tensors = 1
broken: A reply must be 1 tensor; got {tensors:.0f} and the module's classes. Send the weights as one vector.
guard: tests/runtime/transport/test_request_reply.py::test_every_question_is_answered_once_with_a_whole_vector
"""

import pickle
import time
from collections.abc import Mapping

import torch
from torch import nn

from engine.data.nets import ResNetName, flat_weights, resnet
from engine.museum.exhibit import Outcome, Version

ROUNDS, BYTES_PER_MB = 6, 1e6
LAYERS: Mapping[ResNetName, int] = {"small_resnet": 10, "resnet18": 18, "resnet50": 50}


def wrong(net: nn.Module) -> object:
    return net


def right(net: nn.Module) -> object:
    return flat_weights(net).numpy()


def measure(seed: int, reply_of: Version) -> Outcome:
    """Pack and unpack the small network's reply like a message; the fastest round counts."""
    reply, spent, message = reply_of(resnet("small_resnet", 30, seed)), [], b""
    for _ in range(ROUNDS):
        began = time.perf_counter()
        message = pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
        pickle.loads(message)
        spent.append(1000 * (time.perf_counter() - began))
    with torch.device("meta"):  # counting needs no values
        tensors = {layers: len(resnet(name, 30, 0).state_dict()) for name, layers in LAYERS.items()}
    series = tensors if reply_of is wrong else dict.fromkeys(tensors, 1)
    numbers = {"tensors": series[10], "megabytes": len(message) / BYTES_PER_MB, "milliseconds": min(spent)}
    return Outcome(numbers, series)
