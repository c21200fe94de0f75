"""One stage of the net: its layers, its weights in one flat vector, and their optimizer."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.data.resnets import layers_of
from engine.data.weights import FlatSgd, bind, flat_weights
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.partition import cut, train_mode, whole_net
from engine.runtime.worker.ranks import Rank


class Stage:
    """Layers from `first_layer` on; backwards accumulate in `gradient` until `update`."""

    def __init__(
        self,
        config: PipelineConfig,
        number: int,
        layers: Sequence[nn.Module],
        device: torch.device,
        first_layer: int = 0,
    ) -> None:
        self.config = config
        self.number = number
        self.first_layer = first_layer
        self.is_last = number == config.stages - 1
        self.role = config.stage_roles[number]
        self.net = nn.Sequential(*layers).to(device)
        train_mode(self.net, config)
        self.weights = flat_weights(self.net).to(device)
        self.gradient = bind(self.net, self.weights)
        self.optimizer = FlatSgd(self.weights, self.gradient, config.learning_rate, config.momentum)
        self.batch = 0
        """Number of updates."""

    def update(self) -> None:
        """Make one step of SGD with the gradient of the whole batch, and start the next batch."""
        self.optimizer.step()
        self.gradient.zero_()
        self.batch += 1

    @torch.no_grad()
    def test(self, inputs: Tensor, net: nn.Module | None = None) -> Tensor:
        """Return the activations of test images: batch-norm uses its running statistics, nothing is saved for a
        backward.

        `net` is the stage's net for another input shape.
        """
        self.net.eval()
        outputs: Tensor = (net or self.net)(inputs)
        train_mode(self.net, self.config)
        return outputs


def make_stage(rank: Rank, number: int, config: PipelineConfig, costs: Tensor) -> Stage:
    """Return stage `number` (from 0) of the partitioned net; `costs` [stages, layers] is in shared memory."""
    layers = layers_of(whole_net(config).to(rank.device))
    cuts = (0, *cut(rank, number, config, costs, layers), len(layers))
    return Stage(config, number, layers[cuts[number] : cuts[number + 1]], rank.device, cuts[number])


def loss_of(outputs: Tensor, targets: Tensor, config: PipelineConfig) -> Tensor:
    """Return the mean loss of outputs [n, classes] against targets: one-hot [n, classes] for mse, classes [n] for
    cross_entropy.
    """
    return mse_loss(outputs, targets) if config.loss == "mse" else cross_entropy(outputs, targets)
