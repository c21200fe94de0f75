"""An optimizer that trains nothing: a fault of pipeline.

source: The official example of the tutorial, in its current version
wrong: Backward runs through distributed autograd, which keeps gradients in its context. The optimizer is a local one
    and reads `.grad`, which is empty: it silently skips every parameter.
right: The optimizer gets the context; the engine runs forward and backward of each stage itself and has the gradients
    locally.
seen: Loss of the same batch by step: in the published example it never changes.
chart: Training loss against Step
values: moved = Change of the weights; loss = Final loss
listens: yes
rule: moved > 0
broken: Each step must change the weights; none did. Use the distributed optimizer.
guard:
    tests/experiments/pipeline/test_pipeline.py::test_a_plain_optimizer_would_find_no_gradient_under_distributed_autograd
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.utils import parameters_to_vector

from engine.museum.exhibit import Outcome, Version
from engine.recorder import MemoryRecorder
from engine.runtime.rank.rank import Rank, RunContext
from engine.runtime.transport import rpc

STEPS, PATIENCE_S, STEP_SIZE = 12, 20.0, 0.05


def wrong(net: nn.Module) -> Callable[[int], object]:
    optimizer = torch.optim.SGD(net.parameters(), lr=STEP_SIZE)
    return lambda context: optimizer.step()


def right(net: nn.Module) -> Callable[[int], object]:
    parameters = [rpc.reference_to(parameter) for parameter in net.parameters()]
    step: Callable[[int], object] = rpc.distributed_sgd(parameters, STEP_SIZE, 0.0).step
    return step


def measure(seed: int, stepper: Version) -> Outcome:
    """Train a small network by distributed autograd, in a group of one."""
    torch.manual_seed(seed)
    net, series = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), {}
    images, targets = torch.randn(32, 16, generator=torch.Generator().manual_seed(seed)), torch.eye(4).repeat(8, 1)
    before = parameters_to_vector(net.parameters()).detach().clone()
    with TemporaryDirectory(prefix="parallab-") as folder:
        master = Rank(0, RunContext(("master",), ("cpu",), 1, seed, Path(folder)), MemoryRecorder(), lambda name: 0.0)
        with rpc.joined(master, PATIENCE_S):
            step = stepper(net)
            for number in range(1, STEPS + 1):
                with rpc.gradients() as context:
                    loss = mse_loss(net(images), targets)
                    rpc.backward(context, loss)
                    step(context)
                series[number] = loss.item()
    moved = float((parameters_to_vector(net.parameters()).detach() - before).norm())
    return Outcome({"moved": moved, "loss": series[STEPS]}, series)
