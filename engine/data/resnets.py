"""ResNets for images of three channels: torchvision's ResNet-50, and a small one for machines without a GPU."""

from typing import Literal

import torch
from torch import nn

ResNetName = Literal["resnet50", "small_resnet"]


def resnet(name: ResNetName, classes: int, seed: int) -> nn.Module:
    """Return the net with the first weights that `seed` gives, the caller's random state untouched.

    resnet50: 23.6 million weights at 30 classes. small_resnet: one basic block in each of the four stages, 4.9 million.
    """
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet  # it takes a second to import

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: nn.Module = ResNet(Bottleneck, [3, 4, 6, 3], classes) if name == "resnet50" else ResNet(BasicBlock, [1, 1, 1, 1], classes)
        return net
