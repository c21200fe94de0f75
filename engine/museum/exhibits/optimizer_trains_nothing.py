"""A plain optimizer beside distributed autograd: the gradients lie in the context, `.grad` stays empty, and each step
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
from engine.runtime.transport import rpc

STEPS, PATIENCE_S, STEP_SIZE = 12, 20.0, 0.05


def wrong(seed: int) -> ExhibitOutcome:
    """Step an optimizer of the stage's own, which looks into `.grad`."""
    net = _net(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=STEP_SIZE)
    return _trained(seed, net, lambda context: optimizer.step())


def right(seed: int) -> ExhibitOutcome:
    """Step the optimizer that is given the context; it is made once the group stands."""
    net, made = _net(seed), list[Callable[[int], None]]()

    def step(context: int) -> None:
        if not made:
            made.append(
                rpc.distributed_sgd(
                    [rpc.reference_to(parameter) for parameter in net.parameters()], STEP_SIZE, 0.0
                ).step
            )
        made[0](context)

    return _trained(seed, net, step)


def _trained(seed: int, net: nn.Module, step: Callable[[int], object]) -> ExhibitOutcome:
    images, targets = torch.randn(32, 16, generator=torch.Generator().manual_seed(seed)), torch.eye(4).repeat(8, 1)
    before, series = _weights(net), {}
    with TemporaryDirectory(prefix="parallab-") as folder:
        master = Rank(0, "master", 1, torch.device("cpu"), seed, MemoryRecorder(), Path(folder), lambda name: 0.0)
        with rpc.joined(master, PATIENCE_S):
            for number in range(1, STEPS + 1):
                with rpc.gradients() as context:
                    loss = mse_loss(net(images), targets)
                    rpc.backward(context, loss)
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
        raise Broken(f"{STEPS} steps changed no weight: after a step the weights must differ from those before it.")
