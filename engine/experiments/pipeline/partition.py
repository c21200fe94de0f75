"""The partition of a net: its layers, their costs, and the cut that minimizes the slowest stage's time."""

import time
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.data.models import transformer_layers
from engine.data.nets import FlatSgd, bind, fast_in_small_batches, flat_weights, resnet
from engine.data.stdlib import BYTES
from engine.experiments.pipeline.config import RESNETS, PipelineConfig
from engine.experiments.pipeline.micro_batches import CALIBRATION
from engine.pipelining import sizes
from engine.runtime.transport.rpc import DeviceMaps
from engine.runtime.worker.ranks import Rank
from engine.seeding import ORDER, WEIGHTS, seed_of

TIMED_IMAGES = 8
"""Maximum number of images for timing a layer: relative costs hardly depend on more."""
TIMES = 2
FEW = 4
"""Number of images from which the faster path for small batches pays off."""
CALIBRATED_ON = 16
"""Images that frozen batch-norm takes its statistics from."""


def whole_net(config: PipelineConfig) -> nn.Sequential:
    """Return the net with its initial weights, in training mode; frozen batch-norm has the statistics of some random
    images.
    """
    net = _made(config)
    if max(sizes(config.batch_size, config.splits)) >= FEW:
        fast_in_small_batches(net)
    if config.batch_norm == "frozen":
        _freeze(net, config)
    return net


def _made(config: PipelineConfig) -> nn.Sequential:
    seed = seed_of(config.seed, WEIGHTS)
    if config.model == "gpt" or config.model == "vit":
        return transformer_layers(config.model, config.blocks, config.outputs, seed)
    return resnet(config.model, config.outputs, seed)


def _freeze(net: nn.Module, config: PipelineConfig) -> None:
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.momentum = None  # the plain mean over all batches
    random = torch.Generator().manual_seed(seed_of(config.seed, ORDER, CALIBRATION))
    images = torch.randn(CALIBRATED_ON, 3, config.image_size, config.image_size, generator=random)
    with torch.no_grad():
        net(images)
    for norm in norms:
        norm.eval()


def train_mode(net: nn.Module, config: PipelineConfig) -> None:
    """Put a net or a stage of it into training mode, except for frozen batch-norm."""
    net.train()
    if config.batch_norm == "frozen":
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()


def samples_like(config: PipelineConfig, count: int, device: torch.device) -> Tensor:
    """Return random samples of the shape and type that the net takes."""
    shape = (count, *config.sample_shape)
    if config.model == "gpt":
        return torch.randint(BYTES, shape, dtype=torch.uint8, device=device)
    return torch.randn(shape, device=device)


@cache
def boundaries(config: PipelineConfig) -> tuple[tuple[int, ...], ...]:
    """Return the input shape of each layer, for one sample: of ResNets without computing anything, which would take a
    transformer longer, since torch imports a compiler's parts for its attention.
    """
    device = torch.device("meta" if config.model in RESNETS else "cpu")
    with device, torch.no_grad():
        layers, found = _made(config).eval(), []
        activations = samples_like(config, 1, device)
        for layer in layers:
            found.append(tuple(activations.shape[1:]))
            activations = layer(activations)
    return tuple(found)


def largest_boundary(config: PipelineConfig) -> int:
    """Return the maximum size of one sample's activations between two stages."""
    cuts = config.cuts or range(1, len(boundaries(config)))
    return max(torch.Size(boundaries(config)[cut]).numel() for cut in cuts)


def time_layers(layers: Sequence[nn.Module], config: PipelineConfig, device: torch.device) -> Tensor:
    """Return the seconds of one forward and backward of each layer, [layers]: the minimum of several measurements."""
    count = min(TIMED_IMAGES, max(sizes(config.batch_size, config.splits)))
    found = torch.zeros(len(layers), dtype=torch.float64)
    shapes = boundaries(config)
    for number, layer in enumerate(layers):
        images = torch.randn(count, *shapes[number], device=device) if number else samples_like(config, count, device)
        images = images.contiguous(memory_format=torch.channels_last) if images.dim() == 4 else images
        found[number] = min([_time(layer, images.requires_grad_(number > 0), device) for _ in range(TIMES + 1)][1:])
        layer.zero_grad(set_to_none=True)
    return found


def _time(layer: nn.Module, images: Tensor, device: torch.device) -> float:
    _wait(device)
    began = time.perf_counter()
    out = layer(images)
    out.backward(torch.ones_like(out))
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best_cut(costs: Sequence[float], parts: int) -> tuple[int, ...]:
    """Return the layers that begin parts 2, 3, … so that the slowest part is as fast as possible; ties go to the most
    even cut.
    """

    def slowest(cuts: tuple[int, ...]) -> tuple[float, float]:
        each = [sum(costs[start:end]) for start, end in pairwise((0, *cuts, len(costs)))]
        return max(each), sum(cost * cost for cost in each)

    return min(combinations(range(1, len(costs)), parts - 1), key=slowest)


def cut(rank: Rank, stage: int, config: PipelineConfig, costs: Tensor, layers: Sequence[nn.Module]) -> tuple[int, ...]:
    """Return the cut: as configured, or by times that all stages measure concurrently, as they will compute.

    `costs` [stages, layers] is in shared memory.
    """
    if config.cuts:
        return config.cuts
    statistics = [(buffer, buffer.clone()) for layer in layers for buffer in layer.buffers()]
    costs[stage] = time_layers(layers, config, rank.device)
    for buffer, before in statistics:
        buffer.copy_(before)
    rank.barrier("timed")
    mean = costs.mean(0).tolist()
    cuts = best_cut(mean, config.layout.parts)
    if stage == 0:
        rank.say("cut", _sentence(mean, cuts, config))
    return cuts


def _sentence(costs: Sequence[float], cuts: tuple[int, ...], config: PipelineConfig) -> str:
    ends, layout = list(pairwise((0, *cuts, len(costs)))), config.layout
    shares = []
    for stage, role in enumerate(config.stage_roles):
        mine = [ends[layout.part(stage, chunk)] for chunk in range(layout.chunks)]
        share = sum(sum(costs[first:last]) for first, last in mine) / sum(costs)
        layers = " and ".join(f"{first} to {last - 1}" for first, last in mine)
        shares.append(f"{role} has layers {layers}, {100 * share:.0f} %")
    return f"Cut at {','.join(map(str, cuts))} by measured time: {'; '.join(shares)} of the {config.model}'s work."


# ---- One stage of the net: its layers, its weights in one flat vector, and their optimizer -------------------------


class Stage:
    """A stage's parts of the net, by chunk; backwards accumulate in `gradient` until `update`."""

    def __init__(
        self,
        config: PipelineConfig,
        number: int,
        chunks: Sequence[Sequence[nn.Module]],
        device: torch.device,
        first_layers: Sequence[int] = (0,),
    ) -> None:
        self.config = config
        self.number = number
        self.first_layers = first_layers
        """The first layer of each chunk."""
        self.is_last = config.layout.place(config.layout.parts - 1)[0] == number
        """Whether it has the end of the net."""
        self.role = config.stage_roles[number]
        self.nets = nn.ModuleList(nn.Sequential(*layers) for layers in chunks).to(device)
        train_mode(self.nets, config)
        self.weights = flat_weights(self.nets).to(device)
        self.gradient = bind(self.nets, self.weights)
        self.optimizer = FlatSgd(self.weights, self.gradient, config.learning_rate, config.momentum)
        self.batch = 0
        """Number of updates."""

    @property
    def net(self) -> nn.Sequential:
        """The net of its first chunk, the only one in mode rpc."""
        first: nn.Sequential = self.nets[0]  # type: ignore[assignment]
        return first

    def is_end(self, chunk: int) -> bool:
        """Return whether a chunk is the end of the net, whose output is compared with the targets."""
        return self.is_last and chunk == self.config.layout.chunks - 1

    def update(self) -> None:
        """Make one step of SGD with the gradient of the whole batch, and start the next batch."""
        self.optimizer.step()
        self.gradient.zero_()
        self.batch += 1

    @torch.no_grad()
    def test(self, inputs: Tensor, net: nn.Module | None = None) -> Tensor:
        """Return the activations of test images: batch-norm uses its running statistics, nothing is saved for a
        backward.

        `net` is one of its nets, or one of them for another input shape; the first one by default.
        """
        self.nets.eval()
        outputs: Tensor = (net or self.net)(inputs)
        train_mode(self.nets, self.config)
        return outputs


def make_stage(rank: Rank, number: int, config: PipelineConfig, costs: Tensor) -> Stage:
    """Return stage `number` (from 0) of the partitioned net; `costs` [stages, layers] is in shared memory."""
    layers = [*whole_net(config).to(rank.device)]
    ends = (0, *cut(rank, number, config, costs, layers), len(layers))
    parts = [config.layout.part(number, chunk) for chunk in range(config.layout.chunks)]
    chunks = [layers[ends[part] : ends[part + 1]] for part in parts]
    return Stage(config, number, chunks, rank.device, [ends[part] for part in parts])


def device_maps(config: PipelineConfig, devices: tuple[str, ...], rank: Rank) -> DeviceMaps | None:
    """Return the device map from this rank's GPU to each stage's device; None for a stage without a GPU."""
    if rank.device.type != "cuda":
        return None
    return {
        role: {rank.device: torch.device(device)}
        for role, device in zip(config.stage_roles, devices, strict=True)
        if role != rank.role
    }


def loss_of(outputs: Tensor, targets: Tensor, config: PipelineConfig) -> Tensor:
    """Return the mean loss of outputs [n, classes] against targets: one-hot [n, classes] for mse, classes [n] for
    cross_entropy.
    """
    return mse_loss(outputs, targets) if config.loss == "mse" else cross_entropy(outputs, targets)
