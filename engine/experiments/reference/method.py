"""Plain SGD with momentum in one process: the same model, data and optimizer as the parallel methods (Robbins and Monro
1951).

One role, `trainer1`. For each mini-batch with gradient g at the weights x, and velocity v:

    v <- momentum * v + g
    x <- x - learning_rate * v

A Hogwild! run of one trainer does the same, bit for bit.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.experiments.reference.config import ReferenceConfig
from engine.plugin import (
    DROPOUT,
    ORDER,
    WEIGHTS,
    Batches,
    Checkpoints,
    FlatSgd,
    ImageSet,
    Rank,
    Ranks,
    Recorder,
    RunFailed,
    bind,
    evaluate,
    flat_weights,
    keep_freed_memory,
    load,
    load_checkpoint,
    model_net,
    seed_of,
    usable,
)


def run(config: ReferenceConfig, ranks: Ranks) -> None:
    """Train the net in one rank; return when it has finished."""
    device = usable(config.device, ranks.devices[0])
    data = load(config.dataset).to(device)
    weights = flat_weights(model_net(config.model, seed_of(config.seed, WEIGHTS))).to(device)
    ranks.run(_train, config, data, weights)


def _train(rank: Rank, config: ReferenceConfig, data: ImageSet, weights: Tensor) -> None:
    """Run as the only trainer, from the last checkpoint if there is one."""
    keep_freed_memory()
    net, record = model_net(config.model, seed_of(config.seed, WEIGHTS)), rank.recorder
    gradient = bind(net, weights)
    optimizer = FlatSgd(weights, gradient, config.learning_rate, config.momentum)
    batches = Batches(data.train_images, data.train_labels, config.batch_size, rank.seed_of(ORDER))
    torch.manual_seed(rank.seed_of(DROPOUT))  # dropout's stream starts here, regardless of set-up
    training = _TrainingState(weights, optimizer.velocity, batches)
    if rank.resume_from:
        training.restore(load_checkpoint(rank.resume_from))
    checkpoints = Checkpoints(rank, config.checkpoint_every_s)
    began = time.monotonic()  # shortly before all are ready, so that no recorded point is later
    rank.ready()
    while training.epoch <= config.epochs:
        for positions in batches.epoch(training.taken):
            with record.phase("data"):
                images, labels = batches.take(positions)
            with record.phase("compute"):
                gradient.zero_()
                loss = nll_loss(net(images), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                value = loss.item()
            with record.phase("update"):
                optimizer.step()
            training.count_step(len(labels))
            step, passes = training.step, training.samples / data.size
            record.log({"train/loss": value}, step=step, passes=passes)
            record.progress(training.samples, config.epochs * data.size)
            if not math.isfinite(value):
                raise RunFailed(
                    f"{rank.role}'s loss became {value} at step {step}. Lower learning_rate "
                    f"({config.learning_rate}) or momentum ({config.momentum})."
                )
            if checkpoints.due():
                time_s = rank.time_before_s + time.monotonic() - began
                checkpoints.save(training.state(), step=step, passes=passes, time_s=time_s, steps={0: step})
        if config.tests_after(training.epoch):
            _test(net, data, record, training.step, training.samples / data.size)
        record.summarize("epoch", training.epoch, config.epochs)
        training.next_epoch()


def _test(net: torch.nn.Module, data: ImageSet, record: Recorder, step: int, passes: float) -> None:
    with record.phase("evaluate"):
        score = evaluate(net, data.test_images, data.test_labels)
    record.log(score.metrics, step=step, passes=passes)


@dataclass
class _TrainingState:
    """The state that changes during training, which a checkpoint needs for an exact continuation; `weights` and
    `velocity` [P] are the trained vectors themselves.
    """

    weights: Tensor
    velocity: Tensor
    batches: Batches
    epoch: int = 1
    taken: int = 0
    """Mini-batches of this epoch already trained on."""
    step: int = 0
    samples: int = 0

    def count_step(self, samples: int) -> None:
        """Count one more mini-batch."""
        self.taken, self.step, self.samples = self.taken + 1, self.step + 1, self.samples + samples

    def next_epoch(self) -> None:
        """Start the next epoch."""
        self.epoch, self.taken = self.epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """Return the state as tensors and numbers, including the random generators."""
        numbers = {name: getattr(self, name) for name in ("epoch", "taken", "step", "samples")}
        return (
            numbers
            | {"weights": self.weights, "velocity": self.velocity, "order": self.batches.random_state}
            | _random_states(self.weights.device)
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned."""
        self.weights.copy_(state["weights"])
        self.velocity.copy_(state["velocity"])
        self.batches.restore(state["order"])
        self.epoch, self.taken, self.step, self.samples = (
            int(state[name]) for name in ("epoch", "taken", "step", "samples")
        )
        torch.set_rng_state(state["random"].cpu())
        if "random_cuda" in state and self.weights.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.weights.device)


def _random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that dropout may draw from."""
    found = {"random": torch.get_rng_state()}
    return found | {"random_cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else found
