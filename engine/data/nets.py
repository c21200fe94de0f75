"""Networks that experiments train, their evaluation, and their weights as one flat vector."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that torch's own texts use)

# ---- The networks that experiments train, and their evaluation -----------------------------------------------------

TEST_BATCH = 125
"""Samples per test batch; fixed, so that sums are reproducible. With 1,000 the convolutions exceed the cache: a quarter
slower.
"""


class MnistNet(nn.Module):
    """The published nets' common architecture: two convolutions, two linear layers, 21,840 weights.

    Takes images [B, 1, 28, 28], returns log-probabilities [B, 10].
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        # ReLU in place: pooling needs its input for the backward, not its output; 2 % of a step's time.
        x = F.relu(F.max_pool2d(self.conv1(images), 2), inplace=True)
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2), inplace=True)
        x = F.relu(self.fc1(x.flatten(1)), inplace=True)
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


class Score(NamedTuple):
    """The result of a test."""

    loss: float
    """Mean negative log-likelihood."""
    accuracy: float
    """Percent classified correctly."""
    is_text: bool = False

    @property
    def metrics(self) -> dict[str, float]:
        """The score by metric."""
        of_text = {"test/bits_per_byte": self.loss / math.log(2)} if self.is_text else {}
        return {"test/accuracy": self.accuracy, "test/loss": self.loss, **of_text}


def mnist_net(seed: int) -> MnistNet:
    """Return the net with the initial weights of `seed`; the caller's random state is unchanged."""
    with drawn_from(seed):
        return MnistNet()


def evaluate(net: nn.Module, images: Tensor, labels: Tensor) -> Score:
    """Return the net's score on a whole test set, without dropout; restores the net's mode afterwards.

    Labels [N] are of images; those of text [N, T] count byte by byte.
    """
    was_training = net.training
    net.eval()
    losses, hits = [], []  # they stay on the device until the end: reading one would synchronize
    with torch.inference_mode():
        for some, truth in zip(torch.split(images, TEST_BATCH), torch.split(labels, TEST_BATCH), strict=True):
            scores = net(some)
            losses.append(F.nll_loss(scores, truth, reduction="sum"))
            hits.append((scores.argmax(1) == truth).sum())
    net.train(was_training)
    loss, right = (sum(torch.stack(each).tolist()) / labels.numel() for each in (losses, hits))
    return Score(loss, 100 * right, is_text=labels.dim() == 2)


# ------------------------------------------------------------------------------------------------------------------
# ResNets for images of three channels (He et al. 2016, with the stride in a bottleneck's 3x3 convolution), and a small
# one for machines without a GPU. Weights are torchvision's bit for bit, whose import takes two seconds and 100 MB.

ResNetName = Literal["resnet50", "resnet18", "small_resnet"]
RESNETS: dict[ResNetName, tuple[int, tuple[int, ...]]] = {
    "resnet50": (4, (3, 4, 6, 3)),
    "resnet18": (1, (2, 2, 2, 2)),
    "small_resnet": (1, (1, 1, 1, 1)),
}
"""How often a block repeats its channels in its output, and the number of blocks at each of the four sizes."""


def resnet(name: ResNetName, classes: int, seed: int) -> nn.Sequential:
    """Return the net with the initial weights of `seed`, as its layers in order: the stem, each residual block, the
    head. The caller's random state is unchanged.

    resnet50: 23.6 million weights at 30 classes. resnet18: 11.2 million. small_resnet: one basic block at each of the
    four sizes, 4.9 million.
    """
    expansion, counts = RESNETS[name]
    with drawn_from(seed):
        layers: list[nn.Module] = [nn.Sequential(*_normed(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))]
        channels = 64
        for size, count in enumerate(counts):
            for number in range(count):
                layers.append(ResidualBlock(channels, 64 << size, expansion, stride=2 if size and not number else 1))
                channels = expansion * (64 << size)
        layers.append(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)))
        net = nn.Sequential(*layers)
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        return net


class ResidualBlock(nn.Module):
    """Two convolutions, or three where its output `expansion` times repeats the channels, plus the input."""

    def __init__(self, inputs: int, channels: int, expansion: int, stride: int) -> None:
        super().__init__()
        outputs = expansion * channels
        if expansion == 1:
            steps = [(inputs, channels, 3, stride), (channels, outputs, 3, 1)]
        else:
            steps = [(inputs, channels, 1, 1), (channels, channels, 3, stride), (channels, outputs, 1, 1)]
        body = [layer for step in steps for layer in (*_normed(*step), nn.ReLU(inplace=True))]
        self.body = nn.Sequential(*body[:-1])
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(*_normed(inputs, outputs, 1, stride))

    def forward(self, images: Tensor) -> Tensor:
        out = self.body(images)
        out += self.shortcut(images)
        return F.relu(out, inplace=True)


def _normed(inputs: int, outputs: int, side: int, stride: int) -> tuple[nn.Module, nn.Module]:
    """Return a convolution without bias, and the normalization of its output."""
    convolution = nn.Conv2d(inputs, outputs, side, stride, padding=side // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs)


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


# ------------------------------------------------------------------------------------------------------------------
# A net's weights as one flat vector that processes can share, and optimizers that update it in a few operations.
# Convolution weights are stored channels-last, which makes a step of the MNIST net 1.4 times as fast as the default
# order.

_DRAWING = threading.RLock()
"""Held while the process's generator is seeded for a net. Two threads that read its state at once also blocked each
other for ever (torch 2.15).
"""


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Initialize nets made in the block from `seed`, one thread at a time; keep the caller's random state."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def flat_weights(net: nn.Module) -> Tensor:
    """Return a copy of all weights of `net` as one vector, in the layout of `bind`."""
    weights = torch.empty(sum(parameter.numel() for parameter in net.parameters()))
    with torch.no_grad():
        for parameter, view in _views(net, weights):
            view.copy_(parameter)
    return weights


def bind(net: nn.Module, weights: Tensor) -> Tensor:
    """Make every parameter of `net` a view of `weights`, and its gradient a view of the vector that is returned.

    Gradients accumulate in that vector: zero it before each backward pass, and never set a gradient to None, which
    would break the link.
    """
    gradient = torch.zeros_like(weights)
    bind_to(net, weights, gradient)
    return gradient


def bind_to(net: nn.Module, weights: Tensor, gradient: Tensor) -> None:
    """Make every parameter of `net` a view of `weights` and its gradient a view of `gradient`, two vectors of the same
    layout.
    """
    for (parameter, view), (_, gradient_view) in zip(_views(net, weights), _views(net, gradient), strict=True):
        parameter.data = view
        parameter.grad = gradient_view


class FlatSgd:
    """SGD with momentum on flat weights: bit for bit equal to `torch.optim.SGD`, in a fifth of its time.

    It owns its velocity; the weights may be shared. (torch's optimizer also imports a compiler for a second on its
    first step.)
    """

    def __init__(self, weights: Tensor, gradient: Tensor, learning_rate: float, momentum: float) -> None:
        self._weights = weights
        self._gradient = gradient
        self.velocity = torch.zeros_like(weights)
        self.learning_rate = learning_rate
        self._momentum = momentum

    @property
    def state(self) -> Tensor:
        """All that it keeps between steps [P]."""
        return self.velocity

    def reset(self) -> None:
        """Forget all steps so far."""
        self.velocity.zero_()

    def step(self) -> None:
        """v <- momentum * v + gradient; weights <- weights - learning_rate * v, one addition per weight."""
        self.velocity.mul_(self._momentum).add_(self._gradient)
        self._weights.add_(self.velocity, alpha=-self.learning_rate)


class FlatAdam:
    """Adam (Kingma and Ba 2015) on flat weights, equal to `torch.optim.Adam` without its start-up time; with weight
    decay AdamW (Loshchilov and Hutter 2019).
    """

    def __init__(
        self,
        weights: Tensor,
        gradient: Tensor,
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self._weights = weights
        self._gradient = gradient
        self.state = weights.new_zeros(2 * len(weights))
        """All that it keeps between steps [2 P], but for their number."""
        self.mean, self.square = self.state.chunk(2)
        self.learning_rate = learning_rate
        self._betas = betas
        self._epsilon = epsilon
        self._weight_decay = weight_decay
        self.steps = 0

    def reset(self) -> None:
        """Forget all steps so far."""
        self.state.zero_()
        self.steps = 0

    def step(self) -> None:
        """m <- mean of gradients, v <- mean of their squares, both running; weights <- weights - learning_rate *
        (m' / (sqrt(v') + epsilon) + weight_decay * weights).
        """
        first, second = self._betas
        self.steps += 1
        if self._weight_decay:
            self._weights.mul_(1 - self.learning_rate * self._weight_decay)
        self.mean.lerp_(self._gradient, 1 - first)
        self.square.mul_(second).addcmul_(self._gradient, self._gradient, value=1 - second)
        root = (self.square / (1 - second**self.steps)).sqrt_().add_(self._epsilon)
        self._weights.addcdiv_(self.mean, root, value=-self.learning_rate / (1 - first**self.steps))


def _views(net: nn.Module, flat: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Yield each parameter with its part of `flat` in the parameter's shape."""
    start = 0
    for parameter in net.parameters():
        stretch = flat[start : start + parameter.numel()]
        start += parameter.numel()
        yield (
            parameter,
            _channels_last(stretch, parameter.shape) if parameter.dim() == 4 else stretch.view(parameter.shape),
        )


def _channels_last(stretch: Tensor, shape: torch.Size) -> Tensor:
    outputs, inputs, height, width = shape
    return stretch.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
