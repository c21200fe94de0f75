"""What trainers of synchronous SGD do in tests; here because a rank's process must be able to import its function."""

import os
import signal
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, log_softmax

from engine.data.nets import MnistNet
from engine.data.nets import mnist_net as made_net
from engine.experiments.sync_sgd import method, trainer
from engine.experiments.sync_sgd.trainer import SharedInputs
from engine.runtime.transport.allreduce import AveragingGroup
from engine.runtime.worker.ranks import Rank
from engine.training.step_log import Faults


def sober_net(seed: int) -> MnistNet:
    """Return a net whose result does not depend on who draws, and little on how its processor rounds."""
    net = made_net(seed)
    net.__class__ = Sober  # its train() leaves dropout off
    return net.train()


def sober_model(name: str, seed: int) -> MnistNet:
    """Return the same for a run's choice of models."""
    return sober_net(seed)


class Sober(MnistNet):
    """Without dropout, and smooth: at the kinks of ReLU and largest values, a rounding error decides on a gradient."""

    def train(self, mode: bool = True) -> "Sober":
        super().train(False)
        return self

    def forward(self, images: Tensor) -> Tensor:
        x = torch.tanh(avg_pool2d(self.conv1(images), 2))
        x = torch.tanh(avg_pool2d(self.conv2(x), 2))
        return log_softmax(self.fc2(torch.tanh(self.fc1(x.flatten(1)))), dim=1)


def train_sober(rank: Rank, inputs: SharedInputs) -> None:
    """Train without dropout."""
    trainer.model_net = sober_model  # type: ignore[attr-defined]
    method._train(rank, inputs)


def train_and_write_pids(rank: Rank, inputs: SharedInputs) -> None:
    """Train, and write down this process's id at each average."""
    average = AveragingGroup.average

    def write_and_average(circle: AveragingGroup, *given: Any) -> float:
        with (rank.folder / f"{rank.role}.pids").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return average(circle, *given)

    AveragingGroup.average = write_and_average  # type: ignore[method-assign]
    method._train(rank, inputs)


def train_and_stop_before_the_second_step(rank: Rank, inputs: SharedInputs) -> None:
    """Train; trainer2 stops itself for good when its second step is to begin."""

    def inject(faults: Faults, step: int) -> None:
        if rank.role == "trainer2" and step == 2:
            os.kill(os.getpid(), signal.SIGSTOP)

    Faults.inject = inject  # type: ignore[method-assign]
    method._train(rank, inputs)


def train_up_to_the_third_average(rank: Rank, inputs: SharedInputs) -> None:
    """Train; nobody comes to the third average, so that who ends the run before its end may come late."""
    average = AveragingGroup.average

    def average_twice(circle: AveragingGroup, *given: Any) -> float:
        if circle._count == 2:
            os.read(os.pipe()[0], 1)
        return average(circle, *given)

    AveragingGroup.average = average_twice  # type: ignore[method-assign]
    method._train(rank, inputs)
