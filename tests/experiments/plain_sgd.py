"""SGD as a textbook writes it, with nothing of ours but the net and the data: what the methods are held against."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.nets import mnist_net
from engine.data.sets import load


def drawn(seed: int, stream: int) -> int:
    """Return the seed of a stream of the first rank: 0 first weights, 1 order, 2 dropout."""
    return int(np.random.SeedSequence(seed, spawn_key=(stream, 0)).generate_state(1, np.uint64)[0])


def train(
    dataset: str,
    *,
    seed: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    momentum: float,
    schedule: str = "constant",
) -> tuple[list[float], dict[str, Tensor]]:
    """Return the loss of each step and the weights at the end."""
    data = load(dataset)
    net = mnist_net(drawn(seed, 0)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=momentum)
    order = torch.Generator().manual_seed(drawn(seed, 1))
    torch.manual_seed(drawn(seed, 2))
    losses: list[float] = []
    for _ in range(epochs):
        shuffled = torch.randperm(len(data.train_labels), generator=order)
        for start in range(0, len(shuffled), batch_size):
            batch = shuffled[start : start + batch_size]
            loss = nll_loss(net(data.train_images[batch]), data.train_labels[batch])
            if schedule == "linear":
                updates = epochs * -(-len(shuffled) // batch_size)
                optimizer.param_groups[0]["lr"] = learning_rate * (1 - len(losses) / updates)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    return losses, {name: tensor.detach() for name, tensor in net.state_dict().items()}
