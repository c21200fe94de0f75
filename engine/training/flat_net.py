"""A net as two flat vectors: its state (weights, then batch-norm's running statistics) and the message of a gradient
step.

Both vectors may be views of memory that a transport shares with other processes.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.data.nets import bind_to, flat_weights

Loss = Callable[[Tensor, Tensor], Tensor]
ALIGNMENT = 16
"""Bytes that cuDNN's batch-norm reads at a time; at an address between, it fails with "misaligned address"."""


class FlatNet:
    """One trainer's copy of the net.

    `state` [P + B] holds P weights and B running statistics; `message` [P + B] holds the gradient of the weights and a
    copy of the statistics after the last mini-batch. A net without batch-norm has B = 0. A net on torch's `meta` device
    has no values of its own: they come from `state`, or are 0.

    The net's parameters are views of `state`. So are its running statistics if their memory is aligned; otherwise the
    net has a copy, which each gradient begins and ends by exchanging with `state`.
    """

    def __init__(
        self,
        net: nn.Module,
        loss: Loss,
        state: Tensor | None = None,
        message: Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.module = net
        self.loss = loss
        self.state = _state_of(net, state, device or torch.device("cpu"))
        self.message = torch.zeros_like(self.state) if message is None else message.zero_()
        self.parameters = sum(parameter.numel() for parameter in net.parameters())
        self.weights, self.statistics = self.state[: self.parameters], self.state[self.parameters :]
        self.gradient = self.message[: self.parameters]
        bind_to(net, self.weights, self.gradient)
        aligned = self.statistics.data_ptr() % ALIGNMENT == 0
        self._statistics_in_net = self.statistics if aligned else self.statistics.clone()
        bind_statistics(net, self._statistics_in_net)
        net.train()

    def compute_gradient(self, inputs: Tensor, targets: Tensor) -> float:
        """Compute the gradient of one mini-batch into `message` and return its loss (a plain number, NaN included)."""
        self.gradient.zero_()
        self._statistics_in_net.copy_(self.statistics)
        loss = self.loss(self.module(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        if len(self.statistics):
            self.statistics.copy_(self._statistics_in_net)
            self.message[self.parameters :].copy_(self.statistics)
        return loss.item()


def _state_of(net: nn.Module, state: Tensor | None, device: torch.device) -> Tensor:
    """Return the vector for the net's state, initialized with the net's values."""
    if all(parameter.device.type != "meta" for parameter in net.parameters()):
        first = flat_state(net).to(device)
        return first if state is None else state.copy_(first)
    net.to_empty(device=device)
    for buffer in net.buffers():
        if not buffer.is_floating_point():  # batch counters
            buffer.zero_()
    return torch.zeros(state_size(net), device=device) if state is None else state


def flat_state(net: nn.Module) -> Tensor:
    """Return a copy of all weights and running statistics of `net` as one float32 vector [P + B]."""
    statistics = [buffer.reshape(-1) for buffer in net.buffers() if buffer.is_floating_point()]
    return torch.cat([flat_weights(net), *statistics])


def state_size(net: nn.Module) -> int:
    """Return P + B, the length of `flat_state(net)`."""
    return sum(each.numel() for each in (*net.parameters(), *net.buffers()) if each.is_floating_point())


def bind_statistics(net: nn.Module, flat: Tensor) -> None:
    """Make every running statistic of `net` a view of `flat` [B]. Batch counters (integers) stay in the net."""
    start = 0
    for module in net.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                setattr(
                    module, name, flat.data[start : start + buffer.numel()].view(buffer.shape)
                )  # .data: hide the change from autograd
                start += buffer.numel()
