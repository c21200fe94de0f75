"""The tutorial variant of synchronous SGD: a process a round that trains on a copy and sees what the engine variant
sees.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from engine.data.nets import mnist_net
from engine.data.sets import load, read
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.registry import method
from engine.runtime.worker.ranks import Ranks
from tests.doubles import MemorySink, process_ranks

SHORT: dict[str, Any] = {
    "dataset": "digits",
    "batch_size": 100,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "variant": "tutorial",
    "start_method": "spawn",
}


def test_both_variants_see_the_same_images() -> None:
    from engine.data.pil_images import PilImages  # loads torchvision, which takes seconds

    pixels, data = read("digits"), load("digits")
    one_by_one = PilImages(pixels.test_pixels, pixels.test_labels, pixels.mean, pixels.deviation)
    images, labels = zip(*(one_by_one[index] for index in range(len(one_by_one))), strict=True)
    assert torch.equal(torch.stack(images), data.test_images)
    assert list(labels) == data.test_labels.tolist()


def test_a_process_trains_on_a_copy_and_writes_the_weights_back_at_the_end() -> None:
    from engine.experiments.sync_sgd import tutorial  # loads torchvision, which takes seconds

    config, pixels = SyncSgdConfig.check(SHORT | {"trainers": 2}), read("digits")
    first = parameters_to_vector(mnist_net(0).parameters()).detach().clone()
    weights, told = first.clone(), list[tuple[float, int, bool]]()

    def keep(said: tuple[float, int, dict[str, float]]) -> None:
        assert set(said[2]) == {"data", "compute", "update"}
        told.append((said[0], said[1], torch.equal(weights, first)))

    tutorial._go_through(keep, config, pixels, torch.arange(700), weights, 5, 1)
    assert [samples for _, samples, _ in told] == [100] * 7
    assert all(untouched for _, _, untouched in told)
    assert not torch.equal(weights, first)


def test_each_round_of_each_trainer_draws_an_order_of_its_own() -> None:
    from engine.experiments.sync_sgd import tutorial  # loads torchvision, which takes seconds

    config, pixels = SyncSgdConfig.check(SHORT | {"trainers": 2}), read("digits")

    def losses(seed: int, number: int) -> list[float]:
        told: list[float] = []
        weights: Tensor = parameters_to_vector(mnist_net(0).parameters()).detach().clone()
        tutorial._go_through(
            lambda said: told.append(said[0]), config, pixels, torch.arange(200), weights, seed, number
        )
        return told

    assert losses(5, 1) == losses(5, 1)
    assert len({tuple(losses(seed, number)) for seed in (5, 6) for number in (1, 2)}) == 4


@pytest.mark.long
def test_the_tutorial_variant_learns_and_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def train(folder: Path, rounds: int, **more: Any) -> tuple[Ranks, MemorySink]:
        config, sink = (
            SyncSgdConfig.check(SHORT | {"trainers": 2, "rounds": rounds, "checkpoint_every_s": 1e-6, "device": "cpu"}),
            MemorySink(),
        )
        folder.mkdir()
        ranks = process_ranks(config.roles, ("cpu", "cpu"), 1, config.seed, folder, sink, "spawn", **more)
        method("sync_sgd")(config, ranks)
        return ranks, sink

    ranks, sink = train(tmp_path / "half", 1)
    assert len(sink.values("train/loss", 0)) == len(sink.values("train/loss", 1)) == 8
    assert {"data", "compute", "update", "communicate", "wait", "other"} <= set(sink.phases()[1])
    assert ranks.execution_time_s is not None
    assert sum(sink.phases()[0].values()) == pytest.approx(ranks.execution_time_s, rel=0.02)
    _, more = train(tmp_path / "rest", 2, resume_from=tmp_path / "half" / "checkpoint.pt")
    _, whole = train(tmp_path / "whole", 2)
    assert more.values("train/loss", 0) == whole.values("train/loss", 0)[8:]
    assert more.values("test/accuracy")[-1] == whole.values("test/accuracy")[-1] > sink.values("test/accuracy")[0]
