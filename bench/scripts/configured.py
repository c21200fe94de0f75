"""A net whose settings are files; Hydra."""

import logging

import hydra
import torch
from net import network, samples
from omegaconf import DictConfig
from torch import nn

log = logging.getLogger(__name__)


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    torch.manual_seed(config.seed)
    points, labels = samples()
    net = network(config.model.width)
    optimizer = torch.optim.SGD(net.parameters(), lr=config.optim.lr)
    for step in range(config.steps):
        at = step * config.batch_size % len(labels)
        batch, wanted = points[at : at + config.batch_size], labels[at : at + config.batch_size]
        loss = nn.functional.cross_entropy(net(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            log.info("step %d: train loss %.4f", step, loss.item())


if __name__ == "__main__":
    main()
