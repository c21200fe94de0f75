"""SGD as a textbook writes it, with nothing of ours but the net and the data: what the methods are held against."""

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.datasets import load
from engine.data.nets import mnist_net


def train(dataset: str, *, seed: int, epochs: int, batch_size: int, learning_rate: float, momentum: float) -> tuple[list[float], dict[str, Tensor]]:
    """Return the loss of each step and the weights at the end."""
    data = load(dataset)
    net = mnist_net(seed).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=momentum)
    order = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    losses = []
    for _ in range(epochs):
        shuffled = torch.randperm(len(data.train_labels), generator=order)
        for start in range(0, len(shuffled), batch_size):
            batch = shuffled[start : start + batch_size]
            loss = nll_loss(net(data.train_images[batch]), data.train_labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, {name: tensor.detach() for name, tensor in net.state_dict().items()}
