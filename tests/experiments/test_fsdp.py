"""Sharded data parallelism: every stage makes the steps of one process with all mini-batches, holds its part of the
state to the byte, and sends what the formula says.
"""

from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import nll_loss

from engine.data.models import model_net
from engine.data.nets import evaluate
from engine.data.sets import load
from engine.data.tensors import Batches
from engine.errors import DeviceError, RankFailed
from engine.experiments.fsdp import method
from engine.experiments.fsdp.config import FsdpConfig
from engine.runtime.transport.allreduce import Collective
from engine.seeding import ORDER, WEIGHTS, seed_of
from engine.training.step_log import StepLog
from tests.doubles import LocalRanks, MemorySink, process_ranks
from tests.experiments import fsdp_functions
from tests.rank_functions import in_each_case

STAGES = ("ddp", "sharded", "full")
SMALL = {"dataset": "digits", "model": "vit", "batch_size": 240, "epochs": 2, "seed": 3, "evaluate_every": 0}
KINDS = ("parameters", "gradients", "optimizer")


def checked(**changes: Any) -> FsdpConfig:
    return FsdpConfig.check(SMALL | changes)


def plain_losses(config: FsdpConfig) -> list[float]:
    """Return the losses of one process with the mini-batches of all trainers, and last its test loss."""
    data, net = load(config.dataset), model_net(config.model, seed_of(config.seed, WEIGHTS))
    batches = Batches(data.train_images, data.train_labels, config.global_batch, seed_of(config.seed, ORDER))
    optimizer: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), config.learning_rate, config.momentum)
    if config.optimizer == "adamw":
        optimizer = torch.optim.AdamW(net.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    losses = []
    for _ in range(config.epochs):
        for positions in list(batches.epoch())[: config.steps_per_epoch]:
            images, labels = batches.take(positions)
            optimizer.zero_grad()
            loss = nll_loss(net(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    return [*losses, evaluate(net, data.test_images, data.test_labels).loss]


def state_between_steps(config: FsdpConfig, index: int) -> dict[str, int]:
    """Return the bytes that trainer `index` holds between steps, by the formula: a part of each tensor's first
    dimension, rounded up; AdamW's two numbers of each own parameter, and a count of steps per tensor.
    """
    shapes = [tuple(each.shape) for each in model_net(config.model, 0).parameters()]
    trainers = 1 if config.stage == "ddp" else config.trainers
    rows = [ceil(shape[0] / trainers) for shape in shapes]
    rest = [torch.Size(shape[1:]).numel() for shape in shapes]
    own = [
        max(0, min(row, shape[0] - index * row)) if trainers > 1 else row
        for row, shape in zip(rows, shapes, strict=True)
    ]
    parts = 4 * sum(row * other for row, other in zip(rows, rest, strict=True))
    adam = 8 * sum(row * other for row, other in zip(own, rest, strict=True)) + 4 * len(shapes)
    gradients = parts if config.stage == "ddp" else 0  # DDP's buckets stay
    return {"parameters": parts, "gradients": gradients, "optimizer": adam}


@pytest.mark.ranks
@pytest.mark.parametrize("stage", STAGES)
def test_one_trainer_of_each_stage_equals_plain_training(stage: str, tmp_path: Path) -> None:
    config = checked(stage=stage, trainers=1, batch_size=700, optimizer="sgd", measure_every=1)
    ranks = LocalRanks(config.roles, seed=config.seed, folder=tmp_path)
    method.run(config, ranks)  # type: ignore[arg-type]
    record = ranks.recorders["trainer1"]
    found = record.values("train/loss") + record.values("test/loss")
    assert found == pytest.approx(plain_losses(config), rel=1e-5)
    assert record.values("perf/sent_per_step") == [0.0] * 4
    parameters = 4 * sum(each.numel() for each in model_net("vit", 0).parameters()) / 1e6
    second = [point for point in record.points if point.step == 2]
    for kind in ("parameters", "optimizer"):
        assert next(point.value for point in second if point.name == f"perf/memory_{kind}") == pytest.approx(parameters)
    activations = [point.value for point in second if point.name == "perf/memory_activations"]
    assert max(activations) > 10 * activations[0], "they grow during the forward, and end with the backward"
    assert activations[-1] < 0.1 * max(activations)


@pytest.mark.processes
@pytest.mark.long  # ranks that load FSDP and step three times over gloo: 8 s of processor time
def test_two_trainers_of_each_stage_equal_one_process_and_the_formulas(tmp_path: Path) -> None:
    configs = [checked(stage=stage, trainers=2, prefetch=0) for stage in STAGES]
    data, cases = load(configs[0].dataset), []
    for config in configs:
        collective = Collective.create("torch", 3, config.roles, 60)
        cases.append((config, data, collective, StepLog.shared_counters(2)))
    sink = MemorySink()
    process_ranks(configs[0].roles, ("cpu", "cpu"), 1, 3, tmp_path, sink).run(in_each_case, method._train, cases)
    weights = 4 * sum(each.numel() for each in model_net("vit", 0).parameters())
    losses, tests = ([sink.values("train/loss", rank) for rank in (0, 1)], sink.values("test/loss", 0))
    sent, state = sink.values("perf/sent_per_step", 0), sink.values("perf/memory_state", 0)
    assert not sink.values("test/loss", 1)
    wanted = plain_losses(configs[0])
    measured = sum(configs[0].measures(step) for step in range(1, 5))
    for place, config in enumerate(configs):
        steps = slice(place * 4, place * 4 + 4)
        mean = [(first + second) / 2 for first, second in zip(losses[0][steps], losses[1][steps], strict=True)]
        assert [*mean, tests[place]] == pytest.approx(wanted, rel=2e-4), config.stage
        rounds = 3 if config.stage == "full" else 2
        assert sent[place * measured] == pytest.approx(rounds * weights / 2 / 1e6, rel=1e-12)
        for rank in (0, 1):
            for kind, size in state_between_steps(config, rank).items():
                assert first_of_step_2(sink, rank, kind, place) == pytest.approx(size / 1e6, rel=1e-12), config.stage
    ddp, sharded, full = state[measured - 1 :: measured]
    assert full < sharded < ddp


def first_of_step_2(sink: MemorySink, rank: int, kind: str, run: int) -> float:
    """Return the first value of a kind in the second step of one of several runs, one after the other."""
    name = f"perf/memory_{kind}"
    points = [point for batch in sink.batches if batch.rank == rank for point in batch.points if point.name == name]
    starts = [after for before, after in pairwise(points) if (before.step, after.step) == (1, 2)]
    return starts[run].value


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.parametrize("stage", ["ddp", "full"])
def test_a_trainer_that_stops_is_named_with_the_operation(stage: str, tmp_path: Path) -> None:
    config = checked(stage=stage, trainers=2, timeout_s=8, epochs=50)
    collective = Collective.create("torch", 3, config.roles, config.timeout_s)
    shared = (config, load(config.dataset), collective, StepLog.shared_counters(2))
    ranks = process_ranks(config.roles, ("cpu", "cpu"), 1, 3, tmp_path, MemorySink())
    operation = "all-reduce" if stage == "ddp" else "all-gather"
    with pytest.raises(RankFailed, match=rf"trainer2 did not reach the {operation} of step 3 within 8 s"):
        ranks.run(fsdp_functions.train_and_stop, *shared)


@pytest.mark.ranks
def test_gpus_that_trainers_share_and_offload_without_one_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match="offload moves state from GPUs to CPU memory, but the run has no GPU"):
        method.run(checked(offload=True, trainers=1), LocalRanks(("trainer1",), folder=tmp_path))  # type: ignore[arg-type]
    monkeypatch.setattr(method, "usable", lambda asked, given: torch.device("cuda:0"))
    with pytest.raises(DeviceError, match=r"needs a GPU per trainer \(NCCL\), but the run has 1 for 2 trainers"):
        method.run(checked(trainers=2), LocalRanks(("trainer1", "trainer2"), folder=tmp_path))  # type: ignore[arg-type]
