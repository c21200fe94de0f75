"""A local optimizer with distributed autograd: the gradients are in the context, `.grad` stays empty, and a step
changes nothing.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from engine.museum.outcome import Broken, ExhibitOutcome
from engine.recorder import MemoryRecorder
from engine.runtime.rank.rank import Rank
from engine.runtime.transport import rpc_group

STEPS, PATIENCE_S, STEP_SIZE = 12, 20.0, 0.05


def wrong(seed: int) -> ExhibitOutcome:
    """Step a local optimizer, which reads `.grad`."""
    net = _net(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=STEP_SIZE)
    return _trained(seed, net, lambda context: optimizer.step())


def right(seed: int) -> ExhibitOutcome:
    """Step the distributed optimizer with the context; it is created once the group is ready."""
    net, made = _net(seed), list[Callable[[int], None]]()

    def step(context: int) -> None:
        if not made:
            made.append(
                rpc_group.distributed_sgd(
                    [rpc_group.reference_to(parameter) for parameter in net.parameters()], STEP_SIZE, 0.0
                ).step
            )
        made[0](context)

    return _trained(seed, net, step)


def _trained(seed: int, net: nn.Module, step: Callable[[int], object]) -> ExhibitOutcome:
    images, targets = torch.randn(32, 16, generator=torch.Generator().manual_seed(seed)), torch.eye(4).repeat(8, 1)
    before, series = _weights(net), {}
    with TemporaryDirectory(prefix="parallab-") as folder:
        master = Rank(0, "master", 1, torch.device("cpu"), seed, MemoryRecorder(), Path(folder), lambda name: 0.0)
        with rpc_group.joined(master, PATIENCE_S):
            for number in range(1, STEPS + 1):
                with rpc_group.gradients() as context:
                    loss = mse_loss(net(images), targets)
                    rpc_group.backward(context, loss)
                    step(context)
                series[number] = loss.item()
    return ExhibitOutcome({"moved": float((_weights(net) - before).norm()), "loss": series[STEPS]}, series)


def _net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def _weights(net: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in net.parameters()])


def invariant(outcome: ExhibitOutcome) -> None:
    """A step changes the weights."""
    if outcome.numbers["moved"] == 0:
        raise Broken(f"Each step must change the weights; {STEPS} steps changed none. Use the distributed optimizer.")
