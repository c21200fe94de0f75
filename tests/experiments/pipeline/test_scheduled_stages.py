"""Stages as threads under every schedule: the same weights to the bit as the net in one piece, and what they hold."""

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from engine.data.nets import FlatSgd, bind, flat_weights
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches
from engine.experiments.pipeline.monitor import StageMonitor
from engine.experiments.pipeline.partition import loss_of, train_mode, whole_net
from engine.experiments.pipeline.scheduled import stage as scheduled
from engine.pipelining import Schedule, actions
from engine.registry import method
from engine.runtime.worker.ranks import Rank
from tests.doubles import LocalRanks

pytestmark = pytest.mark.ranks

SMALL: dict[str, Any] = {
    "batch_size": 4,
    "batches": 2,
    "splits": 4,
    "learning_rate": 0.1,
    "momentum": 0.9,
    "timeout_s": 60,
}
VIT = {"model": "vit", "blocks": 4, "classes": 7}
GPT = {"model": "gpt", "dataset": "stdlib", "loss": "cross_entropy", "blocks": 4}
RESNET = {"model": "small_resnet", "image_size": 33, "classes": 7}
MODELS = [
    VIT,
    pytest.param(GPT, marks=pytest.mark.long),  # it reads the standard library, and tests on it
    pytest.param(RESNET, marks=pytest.mark.long),
    pytest.param(RESNET | {"batch_norm": "frozen"}, marks=pytest.mark.long),
]
CUTS = {2: "3", 4: "1,2,4"}


def config_of(**changes: Any) -> PipelineConfig:
    return PipelineConfig.check(SMALL | changes)


def trained(config: PipelineConfig, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, LocalRanks]:
    """Run it; return all weights in the net's order, and what its ranks recorded."""
    kept: dict[int, Tensor] = {}

    def keep(rank: Rank, monitor: StageMonitor) -> None:
        log_memory(rank, monitor)
        for chunk, net in enumerate(monitor.stage.nets):
            kept[config.layout.part(monitor.stage.number, chunk)] = flat_weights(net)

    log_memory = scheduled.log_memory
    monkeypatch.setattr(scheduled, "log_memory", keep)
    ranks = LocalRanks(config.roles)
    method("pipeline")(config, ranks)
    monkeypatch.undo()
    return torch.cat([kept[part] for part in range(config.layout.parts)]), ranks


def in_one_piece(config: PipelineConfig) -> Tensor:
    """Return the weights of the net in one piece after the same micro-batches, whose gradients add up in order."""
    net, feed, cpu = whole_net(config), MicroBatches.create(config), torch.device("cpu")
    train_mode(net, config)
    weights = flat_weights(net)
    gradient = bind(net, weights)
    optimizer = FlatSgd(weights, gradient, config.learning_rate, config.momentum)
    images, targets = feed.images(cpu), feed.targets(cpu)
    for _ in range(config.batches):
        for _ in range(config.splits):
            x, truth = next(images), next(targets)
            (loss_of(net(x), truth, config) * (len(truth) / config.batch_size)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        gradient.zero_()
    return weights


@pytest.mark.parametrize("model", MODELS)
def test_every_schedule_trains_the_same_weights_as_one_process_to_the_bit(
    model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part adds the gradients of its micro-batches in their order, whatever else it does between them."""
    expected = in_one_piece(config_of(**model))
    for mode in get_args(Schedule):
        config = config_of(mode=mode, **model, cut=CUTS[4 if mode == "interleaved" else 2])
        assert torch.equal(trained(config, monkeypatch)[0], expected), mode


def test_zero_bubble_holds_the_activations_of_1f1bs_first_stage_and_keeps_to_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {}
    for mode in ("1f1b", "zb_h1"):
        config = config_of(mode=mode, stages=4, cut="1,2,4", **VIT)
        _, ranks = trained(config, monkeypatch)
        peaks = [ranks.recorders[role].values("perf/activations_held")[-1] for role in config.roles]
        held[mode] = [peak / min(4, 4 - (stage if mode == "1f1b" else 0)) for stage, peak in enumerate(peaks)]
        for stage, role in enumerate(config.roles):
            done = [(one.name, one.number) for one in ranks.recorders[role].operations if one.kind == "compute"]
            order = [(one.what, one.micro_batch) for one in actions(config.schedule, stage, config.layout)]
            assert done == [(what, number + 4 * batch) for batch in range(2) for what, number in order]
    assert held["zb_h1"] == pytest.approx(held["1f1b"], rel=0.01), "each stage 4 micro-batches, as 1f1b's first one"
