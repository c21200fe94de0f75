"""A small net on generated data, which the scripts beside this one train."""

import time

import torch
from torch import nn

CLASSES, WIDTH = 10, 64


def samples(count: int = 20_000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points, [count, WIDTH], around the centres of their classes, and the classes, [count]."""
    draw = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, WIDTH, generator=draw)
    labels = torch.randint(CLASSES, (count,), generator=draw)
    return centres[labels] + 2 * torch.randn(count, WIDTH, generator=draw), labels


def network(width: int = 256, inputs: int = WIDTH) -> nn.Module:
    """Return a net of two layers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, CLASSES))


def fit(lr: float, epochs: int, batch: int = 64) -> None:
    """Train, and print loss and time of each epoch."""
    points, labels = samples()
    net, begin = network(), time.monotonic()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for at in range(0, len(labels), batch):
            loss = nn.functional.cross_entropy(net(points[at : at + batch]), labels[at : at + batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * batch
        print(f"epoch {epoch}: loss {total / len(labels):.4f}, time {time.monotonic() - begin:.1f} s")
