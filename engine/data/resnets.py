"""ResNets for images of three channels: torchvision's ResNet-50 and ResNet-18, and a small one for machines without a
GPU.
"""

from typing import Literal

from torch import nn

from engine.data.weights import drawn_from

ResNetName = Literal["resnet50", "resnet18", "small_resnet"]


def resnet(name: ResNetName, classes: int, seed: int) -> nn.Module:
    """Return the net with the initial weights of `seed`; the caller's random state is unchanged.

    resnet50: 23.6 million weights at 30 classes. resnet18: 11.2 million. small_resnet: one basic block at each of the
    four sizes, 4.9 million.
    """
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet  # it takes a second to import

    with drawn_from(seed):
        if name == "resnet50":
            net: nn.Module = ResNet(Bottleneck, [3, 4, 6, 3], classes)
        else:
            net = ResNet(BasicBlock, [2, 2, 2, 2] if name == "resnet18" else [1, 1, 1, 1], classes)
        return net


def fast_in_small_batches(net: nn.Module) -> nn.Module:
    """Make 1x1 convolutions of fewer than 16 images as fast on one thread as on several; return the net, whose outputs
    are unchanged.

    torch takes a slow path for these (a fifth of a ResNet-50's time at 8 images of 128 pixels) unless they are dilated,
    which has no effect on a one-pixel filter. Below 4 images the slow path is the faster one.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1):
            module.dilation = (2, 2)
    return net


def layers_of(net: nn.Module) -> list[nn.Module]:
    """Return a ResNet's layers in order: the stem, each residual block, the head. Their composition is the net."""
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)  # type: ignore[arg-type]
    blocks = [block for layer in (net.layer1, net.layer2, net.layer3, net.layer4) for block in layer]  # type: ignore[union-attr]
    return [stem, *blocks, nn.Sequential(net.avgpool, nn.Flatten(), net.fc)]  # type: ignore[arg-type]
