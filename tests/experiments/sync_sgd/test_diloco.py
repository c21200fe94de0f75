"""Streaming DiLoCo against one process that makes its steps trainer after trainer; and what it sends, and when."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from engine.data.catalogue import MODELS, ModelName
from engine.data.models import model_net
from engine.data.sets import load
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.experiments.sync_sgd.diloco import blocks, fragments, merge_steps
from engine.experiments.sync_sgd.trainer import PartBatches
from engine.seeding import ORDER, WEIGHTS, seed_of
from engine.training.flat_net import FlatNet, flat_state
from tests.experiments.sync_sgd import sync_functions
from tests.experiments.sync_sgd.test_sync_sgd import AVERAGED_BY_DILOCO, SHORT, center_of, in_threads, sober

__all__ = ["sober"]

STREAMING: dict[str, Any] = {"sync": "diloco", "transport": "gloo", "trainers": 2, "average_every": 7, "rounds": 3}
NETS: tuple[ModelName, ...] = ("mnist_net", "vit", "gpt")


def check(**changes: Any) -> SyncSgdConfig:
    return SyncSgdConfig.check(SHORT | STREAMING | changes)


@pytest.mark.parametrize("name", NETS)
def test_each_weight_is_in_one_fragment(name: ModelName) -> None:
    net, sizes = model_net(name, 0), {}
    dataset = "stdlib" if MODELS[name].kind == "text" else "digits"
    assert len(blocks(net)) == MODELS[name].blocks
    for order in ("sequence", "strided"):
        config = check(dataset=dataset, model=name, fragments=3, fragment_order=order)
        sizes[order] = [len(places) for places in fragments(config, net)]
        assert torch.equal(torch.cat(fragments(config, net)).sort().values, torch.arange(MODELS[name].weights))
    assert max(sizes["sequence"]) - min(sizes["sequence"]) <= 1


def test_each_fragment_is_merged_once_in_a_round_the_last_one_at_its_end() -> None:
    assert merge_steps(50, 4) == [13, 25, 38, 50]
    for steps in range(1, 20):
        for count in range(1, steps + 1):
            merged = merge_steps(steps, count)
            spaces = {after - before for before, after in zip([0, *merged], merged, strict=False)}
            assert len(merged) == count and merged[-1] == steps and min(spaces) >= steps // count


def one_after_another(config: SyncSgdConfig) -> Tensor:
    """Return the global weights that the definition gives, for SGD without momentum."""
    data = load(config.dataset)
    nets = [FlatNet(sync_functions.sober_net(seed_of(config.seed, WEIGHTS)), nll_loss) for _ in range(config.trainers)]
    parts = [PartBatches(config, data, index, seed_of(config.seed, ORDER, index)) for index in range(config.trainers)]
    center, velocity = nets[0].weights.clone(), torch.zeros_like(nets[0].weights)
    places, due = fragments(config, nets[0].module), merge_steps(config.average_every, config.fragments)
    for _ in range(config.rounds):
        means: dict[int, Tensor] = {}
        for step in range(1, config.average_every + 1):
            for net, part in zip(nets, parts, strict=True):
                net.compute_gradient(*part.next_batch())
                net.weights.sub_(config.learning_rate * net.gradient)
            for where, merged in zip(places, due, strict=True):
                if step == merged - config.overlap:
                    means[merged] = torch.stack([net.weights[where] for net in nets]).mean(0)
                if step == merged:
                    difference = center[where] - means[merged]
                    velocity[where] = config.outer_momentum * velocity[where] + difference
                    center[where] -= config.outer_learning_rate * (difference + config.outer_momentum * velocity[where])
                    kept = config.local_weight if config.overlap else 0.0
                    for net in nets:
                        net.weights[where] = kept * net.weights[where] + (1 - kept) * center[where]
    return center


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
@pytest.mark.parametrize(
    "changes",
    [
        {"overlap": 0, "fragments": 3, "outer_learning_rate": 1.0, "outer_momentum": 0.0},
        {"overlap": 0, "fragments": 3, "fragment_order": "strided"},
        {"overlap": 2, "fragments": 2, "local_weight": 0.25},
    ],
    ids=str,
)
def test_its_global_weights_are_those_of_the_definition(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = check(momentum=0.0, **changes)
    ranks = in_threads(tmp_path, **config.model_dump())
    assert (center_of(tmp_path) - one_after_another(config)).abs().max() < 1e-6
    whole, record = 21_840 * 4, ranks.recorders["trainer2"]
    assert record.bytes == config.rounds * whole, "as much as without fragments"
    sent, places = record.values("perf/sent_per_step"), fragments(config, sync_functions.sober_net(0))
    assert sorted(sent) == [0.0] * (7 - config.fragments) * 3 + sorted(
        4e-6 * len(each) for each in places for _ in "123"
    )
    assert [sent[step - 1 - config.overlap] > 0 for step in merge_steps(7, config.fragments)] == [
        True
    ] * config.fragments


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
def test_fewer_bits_round_differences_not_weights(tmp_path: Path) -> None:
    centers, sent = {}, {}
    changes = STREAMING | AVERAGED_BY_DILOCO | {"average_every": 2, "rounds": 1}
    for compression in ("none", "bf16", "e3m0"):
        ranks = in_threads(tmp_path / compression, **changes | {"compression": compression})
        centers[compression], sent[compression] = center_of(tmp_path / compression), ranks.recorders["trainer1"].bytes
    assert sent["none"] == 2 * sent["bf16"]
    moved = centers["none"] - flat_state(sync_functions.sober_net(seed_of(SHORT["seed"], WEIGHTS)))
    assert 0 < (centers["none"] - centers["bf16"]).abs().max() < 2**-6 * moved.abs().max()
    assert 7.6 < sent["none"] / sent["e3m0"] < 8
    assert 0 < (centers["none"] - centers["e3m0"]).abs().max() <= moved.abs().max() / 3


@pytest.mark.ranks
@pytest.mark.usefixtures("sober")
def test_trainers_make_steps_while_a_fragment_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, more, compute = list[int](), threading.Event(), FlatNet.compute_gradient

    def count_and_compute(net: FlatNet, *given: Tensor) -> float:
        steps.append(1)
        if len(steps) > 2 * 2:
            more.set()
        return compute(net, *given)

    def until_the_next_step(config: SyncSgdConfig, sent: int, messages: int) -> float:
        assert more.wait(20), "the link of the fragment that left after step 2 would block step 3"
        return 0.0

    monkeypatch.setattr(FlatNet, "compute_gradient", count_and_compute)
    monkeypatch.setattr(SyncSgdConfig, "link_s", until_the_next_step)
    changes = {"average_every": 4, "overlap": 2, "rounds": 1, "simulated_latency_ms": 1.0}
    ranks = in_threads(tmp_path, **STREAMING | changes)
    assert [each.name for each in ranks.recorders["trainer1"].operations].count("simulated link") == 1
    assert {"wait", "communicate"} <= set(ranks.recorders["trainer1"].phases)
